//! Critical sections of a binary: where in its code a task holds a lock, or waits for one.
//!
//! A section map is made from a binary (static analysis, or a note that the binary carries) and read by what watches
//! switches: the user instruction pointer of a task that leaves the CPU shows whether it held a lock.

use serde::{Deserialize, Serialize};

/// The architecture of a binary, and how a map numbers its registers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Machine {
    /// Registers as instructions encode them: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 8 … r15 15; 16 is rflags.
    #[default]
    X86_64,
    /// x0 0 … x30 30, sp 31; 32 is PSTATE, with the flags N, Z, C and V in bits 31 to 28.
    Aarch64,
}

impl Machine {
    /// The number of the flags.
    pub fn flags(self) -> u8 {
        match self {
            Machine::X86_64 => 16,
            Machine::Aarch64 => 32,
        }
    }

    /// The number of the stack pointer.
    pub fn stack(self) -> u8 {
        match self {
            Machine::X86_64 => 4,
            Machine::Aarch64 => 31,
        }
    }

    /// The number of the frame pointer.
    pub fn frame(self) -> u8 {
        match self {
            Machine::X86_64 => 5,
            Machine::Aarch64 => 29,
        }
    }

    /// The registers of [`CalleeRange::saved`].
    pub fn saved(self) -> [u8; 6] {
        match self {
            Machine::X86_64 => [15, 14, 13, 12, 5, 3],
            Machine::Aarch64 => [24, 23, 22, 21, 20, 19],
        }
    }
}

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The register, as [`Machine`] numbers them.
    pub register: u8,
    /// The bits of it that count.
    pub mask: u64,
    /// What they are to be.
    pub value: u64,
    /// True where they must differ from `value` instead.
    pub differs: bool,
}

impl Condition {
    /// True if it holds for a register's value.
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
    /// A register, by its number.
    Register(u8),
    /// Nothing: the offset is an address of the file.
    File,
    /// The lock has no address: all of the section are one.
    Section,
}

/// Instructions of a function that can run inside a section, called from it: whether the task is inside is shown by the
/// return address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CalleeRange {
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// Where the return address lies, from the stack pointer (or, with `by_frame_pointer`, from the frame pointer), bytes.
    pub return_address_bytes: i32,
    /// True if the offset is from the frame pointer.
    pub by_frame_pointer: bool,
    /// Where the caller's registers ([`Machine::saved`]) are kept: that many times 8 bytes below the caller's stack pointer; 0 for
    /// those that are still in the register, [`CalleeRange::ELSEWHERE`] for those further away.
    #[serde(default)]
    pub saved: [u8; 6],
    /// Where the return address is.
    #[serde(default)]
    pub return_address: ReturnAddress,
    /// Bytes from the stack pointer to the caller's (arm64); on x86-64 that is the place behind the return address.
    #[serde(default)]
    pub frame_bytes: i32,
}

/// Where the return address of a function is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnAddress {
    /// On the stack.
    #[default]
    Stack,
    /// In x30 (arm64).
    Register,
    /// In x30, and nothing is left to do but to return: what is true there is true already.
    Done,
}

impl CalleeRange {
    /// In [`CalleeRange::saved`].
    pub const ELSEWHERE: u8 = u8::MAX;
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
    /// Static analysis of a function that waits in a loop with an instruction for that (`pause`, `isb`), or that calls `pthread_spin_lock`.
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
    /// What it is for.
    #[serde(default)]
    pub machine: Machine,
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
