//! Critical sections of a binary: where in its code a task holds a lock, or waits for one.
//!
//! A section map is made from a binary (static analysis, or a note that the binary carries) and read by what watches
//! switches: the user instruction pointer of a task that leaves the CPU shows whether it held a lock.

use serde::{Deserialize, Serialize};

/// What a task does whose next instruction lies in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionRole {
    /// It holds the lock.
    Holder,
    /// It wants the lock and does not have it.
    Waiter,
}

/// When a range's role is true, for the few instructions between an atomic operation and the branch on its result.
/// Registers are numbered as x86-64 encodes them: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 8 … r15 15;
/// 16 is rflags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The register.
    pub register: u8,
    /// The bits of it that count.
    pub mask: u64,
    /// What they are to be.
    pub value: u64,
    /// True where they must differ from `value` instead.
    pub differs: bool,
}

impl Condition {
    /// The number of rflags.
    pub const FLAGS: u8 = 16;

    /// Whether it holds for a register's value.
    pub fn holds(&self, register: u64) -> bool {
        (register & self.mask == self.value) != self.differs
    }
}

/// Instructions of one role: `begin <= ip < end`, addresses as the file's program headers have them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SectionRange {
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// Which of [`SectionMap::sections`].
    pub section: u16,
    /// What a task there does.
    pub role: SectionRole,
    /// When that is so; `None` for always. Several ranges may cover the same addresses when their conditions differ.
    pub when: Option<Condition>,
    /// Which lock it is, where the task's registers show that.
    #[serde(default)]
    pub word: Option<LockWord>,
}

/// The address of a lock's word, as a task at some instruction has it: `base` and `offset`; with `load`, what is stored there
/// (8 bytes) and `load`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LockWord {
    /// What is counted from.
    pub base: WordBase,
    /// Bytes.
    pub offset: i64,
    /// Bytes.
    pub load: Option<i64>,
}

/// What the address of a lock's word is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordBase {
    /// A register, by its number (x86-64: 4 is rsp).
    Register(u8),
    /// Nothing: the offset is an address of the file.
    File,
    /// The lock has no address: all of the section are one.
    Section,
}

/// Instructions of a function that can run inside a section, called from it: whether the task is inside is shown by the
/// return address, which lies at `rsp + return_address_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CalleeRange {
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// Where the return address lies, from the stack pointer (or, with `by_frame_pointer`, from rbp), bytes.
    pub return_address_bytes: i32,
    /// Whether the offset is from rbp.
    pub by_frame_pointer: bool,
    /// Where the caller's r15, r14, r13, r12, rbp and rbx are kept: that many times 8 bytes below the place behind the return
    /// address; 0 for those that are still in the register.
    #[serde(default)]
    pub saved: [u8; 6],
}

/// Where control that comes from some instructions of a holder gives the lock back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReleasedAt {
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// Which of [`SectionMap::sections`].
    pub section: u16,
    /// Addresses of instructions: each of them gives the lock back, or is the first one without it. No way leaves the
    /// section but over one of them. Sorted.
    pub at: Vec<u64>,
}

/// Where a section's ranges come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SectionSource {
    /// A note in the binary declares its points.
    Note,
    /// Static analysis of a function that is known to holdup.
    Shipped,
    /// Static analysis of a function that the user named.
    Named,
    /// Static analysis of a function that waits in a loop with the instruction `pause`, or that calls `pthread_spin_lock`.
    Spinning,
}

/// One critical section: one lock, in one function or its inlined copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its name in reports: the function, and the lock where a function takes several (`StrategyGetBuffer`,
    /// `LWLockAcquire: wait list`).
    pub name: String,
    /// The function that its ranges lie in; `None` where only a note names the section.
    pub function: Option<String>,
    /// Where its ranges come from.
    pub source: SectionSource,
}

/// The sections of one binary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionMap {
    /// The binary's build id, hexadecimal. A map is only ever used for a binary with the same.
    pub build_id: String,
    /// The sections that the ranges refer to.
    pub sections: Vec<Section>,
    /// Sorted by begin.
    pub ranges: Vec<SectionRange>,
    /// Where locks are given back, sorted by begin. Several may cover an instruction that holders of several places reach.
    /// Instructions whose section another function ends are not among them.
    #[serde(default)]
    pub releases: Vec<ReleasedAt>,
    /// Code that runs inside sections or waits when it was called from there, sorted by begin.
    pub callees: Vec<CalleeRange>,
    /// Functions of other objects that ranges or callees call, by name.
    pub imports: Vec<String>,
    /// What could not be analysed, and why.
    pub notes: Vec<String>,
}
