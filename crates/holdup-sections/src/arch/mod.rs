//! Architectures: a folder each, and a line in [`ALL`]. The analysis is the same for all of them; what an instruction does
//! is theirs.

mod aarch64;
mod x86_64;

use crate::image::Image;
use crate::values::{Nodes, State, Value};
use gimli::Register;
use holdup_model::sections::Machine;

/// Every architecture whose binaries are analysed.
pub(crate) static ALL: &[&dyn Architecture] = &[&x86_64::Rules, &aarch64::Rules];

/// One instruction: where control goes from it, and its own form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub(crate) ip: u64,
    pub(crate) bytes: u8,
    pub(crate) flow: Flow,
    pub(crate) form: Form,
}

/// What an architecture keeps of an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    X86(iced_x86::Instruction),
    Arm(aarch64::Own),
    /// Nothing: these bytes are no instruction, or none that the decoder knows.
    None,
}

/// Where control goes from an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Call(u64),
    /// To the function whose address stands at this one.
    CallSlot(u64),
    CallUnknown,
    SystemCall,
    /// To this address or the next instruction.
    Branch(u64),
    Jump(u64),
    /// To the address that stands at this one.
    JumpSlot(u64),
    JumpUnknown,
    Return,
    /// Nowhere.
    Ends,
    /// Into a helper that is known as a whole ([`Helper`]), and to the next instruction.
    Helper(u64),
    /// The bytes are not understood.
    NotKnown,
}

/// A function that does one atomic operation: an instruction that calls it is that operation.
#[derive(Debug, Clone)]
pub(crate) struct Helper {
    pub(crate) form: Form,
    /// The pieces of its code (begin, end) that run before the operation is done.
    pub(crate) before: Vec<(u64, u64)>,
    /// Those that run then, up to the return.
    pub(crate) after: Vec<(u64, u64)>,
}

impl Instruction {
    pub(crate) fn next_ip(&self) -> u64 {
        self.ip.wrapping_add(u64::from(self.bytes))
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self.flow, Flow::Call(_) | Flow::CallSlot(_) | Flow::CallUnknown | Flow::SystemCall)
    }

    /// Where a direct call, jump or branch leads.
    pub(crate) fn target(&self) -> Option<u64> {
        match self.flow {
            Flow::Call(to) | Flow::Branch(to) | Flow::Jump(to) => Some(to),
            _ => None,
        }
    }
}

/// A flag that a branch decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    Zero,
    Carry,
}

/// A comparison: the zero flag is set where these bits of the value are zero, the carry flag where they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) value: Value,
    pub(crate) bits: u64,
    pub(crate) flag: Flag,
    /// The register that these bits of it stand in then, and nothing else.
    pub(crate) result: Option<usize>,
}

/// A copy of the lowest bytes of a value in a register, and the rest of that register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteCopy {
    pub(crate) value: Value,
    pub(crate) bytes: usize,
    pub(crate) register: usize,
    /// The bits that are inverted, and those that are made zero.
    pub(crate) inverted: u64,
    pub(crate) zero: u64,
}

/// What a conditional branch is taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchOn {
    Flag {
        flag: Flag,
        taken_when_set: bool,
    },
    /// These bits of a register being zero, or not.
    Register {
        register: usize,
        bits: u64,
        taken_when_zero: bool,
    },
}

/// How it shows whether an atomic operation found what it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Flag(Flag),
    /// By the old value.
    OldValue,
    /// By control being there: else it went elsewhere.
    Surely,
}

/// An instruction that puts a flag into a register, as one of these bits or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlagCopy {
    pub(crate) register: usize,
    pub(crate) mask: u64,
    pub(crate) flag: Flag,
    pub(crate) when_set: bool,
}

/// What an instruction does to memory that it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: Value,
    pub(crate) bytes: usize,
    pub(crate) change: Change,
    /// True if other CPUs see nothing between the read and the write.
    pub(crate) is_atomic: bool,
    /// The register that has the old value then.
    pub(crate) old: Option<usize>,
    pub(crate) shown: Shown,
    /// The register that is zero where the write was made, when it may fail.
    pub(crate) status: Option<usize>,
    /// Where control goes when it finds another value than it wants, not to the next instruction.
    pub(crate) fails_to: Option<u64>,
}

/// The kinds of writes; values are `None` where they are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// `is_number`: the value stands in the instruction.
    Store {
        value: Option<Value>,
        is_number: bool,
    },
    Swap {
        new: Option<Value>,
    },
    CompareAndSwap {
        expected: Value,
        new: Option<Value>,
    },
    And {
        mask: Option<Value>,
    },
    /// Bits are cleared.
    Clear {
        bits: Option<u64>,
    },
    /// Bits are set.
    Set {
        bits: Option<u64>,
    },
    /// `by`: the size of the step; `is_up`: whether the number becomes larger.
    Count {
        by: Option<u64>,
        is_up: bool,
    },
    Other,
}

/// An architecture's names, and what its registers are for (its psABI).
#[derive(Debug)]
pub(crate) struct Abi {
    pub(crate) id: &'static str,
    pub(crate) machine: Machine,
    /// What ELF files for it say.
    pub(crate) elf: object::elf::Machine,
    pub(crate) registers: usize,
    pub(crate) result: usize,
    pub(crate) arguments: &'static [usize],
    /// Those that a called function leaves as they are, without the stack pointer.
    pub(crate) kept: &'static [usize],
    pub(crate) others: &'static [usize],
    pub(crate) zero_flag: u64,
    pub(crate) carry_flag: u64,
    /// What a call puts on the stack; 0 where it leaves the return address in a register.
    pub(crate) call_bytes: i64,
    /// Relocations of slots with addresses of imported functions.
    pub(crate) slots: [object::elf::RelocationType; 2],
    /// Relocations of slots with an address of the file itself.
    pub(crate) relative: object::elf::RelocationType,
    /// A stub that calls an imported function is no longer than this, bytes.
    pub(crate) stub_bytes: u64,
    pub(crate) unwind: Unwind,
}

/// Registers as unwind information numbers them.
#[derive(Debug)]
pub(crate) struct Unwind {
    pub(crate) vendor: gimli::Vendor,
    pub(crate) stack: Register,
    pub(crate) frame: Register,
    pub(crate) return_address: Register,
    /// In the order of [`holdup_model::sections::CalleeRange::saved`].
    pub(crate) saved: [Register; 6],
}

/// Instructions that follow each other.
pub(crate) type Instructions<'a> = Box<dyn Iterator<Item = Instruction> + 'a>;

/// What the analysis asks of an architecture.
pub(crate) trait Architecture: Sync {
    fn abi(&self) -> &'static Abi;
    /// The instructions of code that begins at an address.
    fn instructions<'a>(&self, code: &'a [u8], at: u64) -> Instructions<'a>;
    /// True if an instruction only marks where control may arrive.
    fn is_landing_pad(&self, instruction: &Instruction) -> bool;
    /// True if it lets the CPU know that the program waits in a loop.
    fn is_pause(&self, instruction: &Instruction) -> bool;
    /// True if it is an atomic operation that can take a lock.
    fn may_acquire(&self, instruction: &Instruction) -> bool;
    /// True if it may write memory, by its form.
    fn may_write(&self, instruction: &Instruction) -> bool;
    /// True if it is an atomic addition that leaves the old number in a register.
    fn may_count(&self, instruction: &Instruction) -> bool;
    /// What it does to memory; `state` is before it.
    fn access(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Access>;
    /// What it does to a second place.
    fn second_access(&self, _: &Instruction, _: &State, _: &mut Nodes) -> Option<Access> {
        None
    }
    /// Makes `state` that behind it. `later`: whether this belongs to a flood.
    fn step(&self, instruction: &Instruction, state: &mut State, later: bool, nodes: &mut Nodes);
    fn comparison(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Comparison>;
    /// The value that it copies, where `step` gives the copy another name; `state` is before it.
    fn copied(&self, _: &Instruction, _: &State, _: &mut Nodes) -> Option<ByteCopy> {
        None
    }
    /// The two values that a comparison is of.
    fn compared(&self, instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<(Value, Value)>;
    fn branch_on(&self, instruction: &Instruction) -> Option<BranchOn>;
    fn flag_copy(&self, instruction: &Instruction) -> Option<FlagCopy>;
    /// True if the flags say something else behind it.
    fn changes_flags(&self, instruction: &Instruction) -> bool;
    /// Whether it writes the register of the first argument, and the number that it puts there.
    fn first_argument(&self, instruction: &Instruction) -> Option<Option<u64>>;
    /// The slot of the imported function that a stub at the begin of this code jumps through.
    fn stub(&self, code: &[u8], at: u64) -> Option<u64>;
    /// The helper whose code begins here.
    fn helper(&self, _code: &[u8], _at: u64) -> Option<Helper> {
        None
    }
    /// Addresses that instructions make.
    fn addresses(&self, instructions: Instructions<'_>) -> Vec<u64>;
    /// Where a jump through a table leads, all of it `inside`; `before` has the instructions before it, the last one first.
    fn jump_table(
        &self,
        image: &Image<'_>,
        jump: &Instruction,
        before: &[&Instruction],
        inside: &dyn Fn(u64) -> bool,
    ) -> Vec<u64>;
}
