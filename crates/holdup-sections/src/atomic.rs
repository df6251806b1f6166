//! Atomic operations: which can take a lock, how their result shows it, and which stores release a lock.

use crate::program::may_acquire;
use crate::values::{Node, Nodes, RAX, State, Value, mask, number, width};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// The lock that a section is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Bits in memory, which are zero while the lock is free; none where every change of the word hands the lock on.
    Memory { address: Value, bits: u64, bytes: usize },
    /// A lock that a note declares, by its number in the program.
    Declared(usize),
}

impl Word {
    /// Whether both are surely the same.
    pub(crate) fn same(&self, other: &Word) -> bool {
        match (self, other) {
            (Word::Memory { address: a, .. }, Word::Memory { address: b, .. }) => a.same(*b),
            (Word::Declared(a), Word::Declared(b)) => a == b,
            _ => false,
        }
    }

    /// Whether both may be the same field of the same structure, and are taken alike.
    pub(crate) fn alike(&self, other: &Word) -> bool {
        match (self, other) {
            (Word::Memory { address: a, bits: a_bits, .. }, Word::Memory { address: b, bits: b_bits, .. }) => {
                a.offset == b.offset && a_bits == b_bits
            }
            _ => self.same(other),
        }
    }
}

/// What must be true for an atomic operation to have taken the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) word: Word,
    pub(crate) tests: Vec<Test>,
}

/// One of the conditions, all of which must be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Test {
    /// The zero flag is set right behind the operation.
    ZeroFlag,
    /// The carry flag is clear right behind it.
    NoCarry,
    /// These bits of the word's old value are zero.
    OldBits(u64),
}

/// Whether an instruction tries to take a lock, and how its result shows it; `state` is before it.
pub(crate) fn attempt(instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Attempt> {
    if !may_acquire(instruction) {
        return None;
    }
    let bytes = instruction.memory_size().size();
    let all = mask(bytes);
    let address = state.address(instruction, nodes);
    let word = |bits| Word::Memory { address, bits, bytes };
    match instruction.mnemonic() {
        Mnemonic::Xchg => {
            let operand = u32::from(instruction.op0_kind() == OpKind::Memory);
            let new = state.operand(instruction, operand, nodes)?;
            let taken = nodes.low(new, bytes).is_some_and(|new| new != 0);
            taken.then(|| Attempt { word: word(all), tests: vec![Test::OldBits(all)] })
        }
        Mnemonic::Bts if instruction.op1_kind() != OpKind::Register => {
            let bit = instruction.try_immediate(1).ok()? & if bytes == 8 { 63 } else { 31 };
            Some(Attempt { word: word(1 << bit), tests: vec![Test::NoCarry] })
        }
        Mnemonic::Cmpxchg => {
            let expected = state.registers[RAX];
            let new = state.operand(instruction, 1, nodes)?;
            match (nodes.low(expected, bytes), nodes.low(new, bytes)) {
                (Some(0), Some(new)) if new != 0 => Some(Attempt { word: word(all), tests: vec![Test::ZeroFlag] }),
                _ => {
                    let Node::Or { of, offset, bits } = nodes.node(new.symbol?)? else { return None };
                    let same = new.offset == 0 && (of, offset) == (expected.symbol, expected.offset);
                    (same && of.is_some() && bits.is_power_of_two())
                        .then(|| Attempt { word: word(bits), tests: vec![Test::ZeroFlag, Test::OldBits(bits)] })
                }
            }
        }
        _ => None,
    }
}

/// How the result of an atomic operation shows an acquire, where the stored value is not known.
pub(crate) fn default_tests(instruction: &Instruction) -> Vec<Test> {
    match instruction.mnemonic() {
        Mnemonic::Xchg => vec![Test::OldBits(mask(instruction.memory_size().size()))],
        Mnemonic::Bts => vec![Test::NoCarry],
        _ => vec![Test::ZeroFlag],
    }
}

/// What an instruction does to a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// It releases it.
    Releases,
    /// It releases this or another one.
    MayRelease,
}

/// What a store does to the word of a held lock; `state` is before it.
pub(crate) fn effect(instruction: &Instruction, word: &Word, state: &State, nodes: &mut Nodes) -> Effect {
    let Word::Memory { address, bits, bytes } = *word else { return Effect::None };
    if instruction.op_count() < 1 || instruction.op0_kind() != OpKind::Memory || !writes(instruction) {
        return Effect::None;
    }
    let at = state.address(instruction, nodes);
    let wide = width(instruction, 0);
    // The bits of the lock, as this instruction's operand has them.
    let shift = if at.symbol == address.symbol { address.offset.wrapping_sub(at.offset) } else { 0 };
    let hits = at.symbol == address.symbol && shift < wide as u64;
    let bits = if hits { bits.checked_shl(8 * shift as u32).unwrap_or(0) } else { bits };
    let opens = opens(instruction, bits, state, nodes);
    if hits {
        // `lock or` and `lock add` of other bits leave the lock as it is.
        return if opens == Some(false) { Effect::None } else { Effect::Releases };
    }
    let offset_alike = at.offset == address.offset && wide == bytes;
    // A number is stored to a flag's word only when the whole word is made anew, and then by its own address.
    let fixed = bits.count_ones() == 1 && instruction.mnemonic() == Mnemonic::Mov && is_number(instruction);
    let elsewhere = fixed || nodes.stack(at).is_some() || (at.symbol.is_none() && address.symbol.is_none());
    if offset_alike && !elsewhere && opens == Some(true) { Effect::MayRelease } else { Effect::None }
}

/// Whether an instruction surely clears the bits (true) or surely leaves them set (false); `None` where neither is sure.
fn opens(instruction: &Instruction, bits: u64, state: &State, nodes: &mut Nodes) -> Option<bool> {
    let wide = width(instruction, 0);
    if bits == 0 {
        return opens_turn(instruction);
    }
    let operand = (instruction.op_count() > 1).then(|| state.operand(instruction, 1, nodes)).flatten();
    let known = operand.and_then(|value| nodes.low(value, wide));
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Xchg => {
            let value = operand?;
            match known {
                Some(number) => Some(number & bits == 0),
                None if value.zero & bits == bits => Some(true),
                None => match value.symbol.and_then(|symbol| nodes.node(symbol)) {
                    Some(Node::Or { bits: set, .. }) if value.offset == 0 && set & bits == bits => Some(false),
                    _ => None,
                },
            }
        }
        Mnemonic::And => match known {
            Some(number) if number & bits == 0 => Some(true),
            Some(number) if number & bits == bits => Some(false),
            _ => operand.filter(|value| value.zero & bits == bits).map(|_| true),
        },
        Mnemonic::Btr => {
            let bit = known.map(|bit| 1u64 << (bit & if wide == 8 { 63 } else { 31 }))?;
            Some(bit & bits != 0)
        }
        Mnemonic::Or | Mnemonic::Bts | Mnemonic::Bt | Mnemonic::Cmp | Mnemonic::Test => Some(false),
        // A counter beside the lock's bits changes; of a whole word, zero may be the result.
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Xadd if bits.count_ones() == 1 => {
            let one_bit = bits;
            match (instruction.mnemonic(), known) {
                (Mnemonic::Add | Mnemonic::Sub, Some(number)) => Some(number == one_bit),
                _ => Some(false),
            }
        }
        Mnemonic::Cmpxchg => match known {
            Some(0) => None,
            _ => {
                let value = operand?;
                match value.symbol.and_then(|symbol| nodes.node(symbol)) {
                    _ if value.zero & bits == bits => None,
                    Some(Node::Or { bits: set, .. }) if set & bits == bits => Some(false),
                    // A loop that changes other bits of a word of which the lock is one bit.
                    _ if bits.count_ones() == 1 => Some(false),
                    _ => None,
                }
            }
        },
        _ => None,
    }
}

/// The same of a counter that shows whose turn it is. A plain store to another structure at the same offset says nothing.
fn opens_turn(instruction: &Instruction) -> Option<bool> {
    match instruction.mnemonic() {
        Mnemonic::Add | Mnemonic::Inc | Mnemonic::Xadd => Some(true),
        Mnemonic::Or | Mnemonic::Bts | Mnemonic::Bt | Mnemonic::Cmp | Mnemonic::Test => Some(false),
        _ => None,
    }
}

fn is_number(instruction: &Instruction) -> bool {
    !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory)
}

/// Whether an instruction writes to its memory operand 0.
fn writes(instruction: &Instruction) -> bool {
    !matches!(
        instruction.mnemonic(),
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Bt
            | Mnemonic::Push
            | Mnemonic::Call
            | Mnemonic::Jmp
            | Mnemonic::Nop
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetchw
            | Mnemonic::Clflush
            | Mnemonic::Mul
            | Mnemonic::Div
            | Mnemonic::Idiv
    )
}

/// The register that an atomic operation leaves the word's old value in.
pub(crate) fn old_value(instruction: &Instruction) -> Option<usize> {
    match instruction.mnemonic() {
        Mnemonic::Xchg => {
            let operand = u32::from(instruction.op0_kind() == OpKind::Memory);
            number(instruction.op_register(operand))
        }
        Mnemonic::Cmpxchg => Some(RAX),
        _ => None,
    }
}
