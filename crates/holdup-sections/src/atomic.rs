//! Atomic operations: which can take a lock, how their result shows it, and which stores release a lock.

use crate::arch::{Access, Change, Flag, Shown};
use crate::values::{Node, Nodes, Value, mask};

/// The lock that a section is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Bits in memory, which are zero while the lock is free; none where every change of the word hands the lock on or gives it back.
    Memory { address: Value, bits: u64, bytes: usize },
    /// A lock that a note declares, by its number in the program.
    Declared(usize),
}

impl Word {
    /// True if both are surely the same.
    pub(crate) fn same(&self, other: &Word) -> bool {
        match (self, other) {
            (Word::Memory { address: a, .. }, Word::Memory { address: b, .. }) => a.same(*b),
            (Word::Declared(a), Word::Declared(b)) => a == b,
            _ => false,
        }
    }

    /// True if taking one takes the other.
    pub(crate) fn overlaps(&self, other: &Word) -> bool {
        let bits = match (self, other) {
            (Word::Memory { bits: a, .. }, Word::Memory { bits: b, .. }) => a == b || a & b != 0,
            _ => true,
        };
        bits && self.same(other)
    }

    /// True if both may be the same field of the same structure, and are taken alike.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    /// The zero flag is set right behind the operation.
    ZeroFlag,
    /// The carry flag is clear right behind it.
    NoCarry,
    /// These bits of the word's old value are zero.
    OldBits(u64),
    /// The old value is the one that was expected.
    Expected,
    /// The register that says so is zero: the write was made.
    Status,
}

/// Whether an access tries to take a lock, and how its result shows it.
pub(crate) fn attempt(access: &Access, nodes: &Nodes) -> Option<Attempt> {
    let Access { address, bytes, .. } = *access;
    let all = mask(bytes);
    let of = |bits, tests| Attempt { word: Word::Memory { address, bits, bytes }, tests };
    match access.change {
        Change::Swap { new } => {
            let taken = nodes.low(new?, bytes).is_some_and(|new| new != 0);
            taken.then(|| of(all, default_tests(access, None)))
        }
        Change::Set { bits: Some(bits) } if access.is_atomic && bits.is_power_of_two() => {
            Some(of(bits, default_tests(access, None)))
        }
        // One that is 1 while it is free (glibc's pthread_spin_lock on x86).
        Change::Count { by: Some(1), is_up: false } if access.is_atomic => Some(of(0, default_tests(access, None))),
        Change::CompareAndSwap { expected, new } => {
            let new = new?;
            match (nodes.low(expected, bytes), nodes.low(new, bytes)) {
                (Some(0), Some(new)) if new != 0 => Some(of(all, default_tests(access, Some(0)))),
                _ => {
                    let Node::Or { of: symbol, offset, bits } = nodes.node(new.symbol?)? else { return None };
                    let same = new.offset == 0 && (symbol, offset) == (expected.symbol, expected.offset);
                    let tests = || default_tests(access, None).into_iter().chain([Test::OldBits(bits)]).collect();
                    (same && symbol.is_some() && bits.is_power_of_two()).then(|| of(bits, tests()))
                }
            }
        }
        _ => None,
    }
}

/// How the result of an atomic operation shows an acquire, where the stored value is not known; `expected` is what a
/// compare-and-swap wants to find, where that is known.
pub(crate) fn default_tests(access: &Access, expected: Option<u64>) -> Vec<Test> {
    let is_swap = matches!(access.change, Change::CompareAndSwap { .. });
    let by_result = match (access.shown, access.change) {
        (Shown::Flag(Flag::Zero), _) => Some(Test::ZeroFlag),
        (Shown::Flag(Flag::Carry), _) => Some(Test::NoCarry),
        (Shown::Surely, _) => None,
        (Shown::OldValue, Change::Set { bits: Some(bits) }) => Some(Test::OldBits(bits)),
        (Shown::OldValue, _) if is_swap && expected != Some(0) => Some(Test::Expected),
        (Shown::OldValue, _) => Some(Test::OldBits(mask(access.bytes))),
    };
    by_result.into_iter().chain(access.status.map(|_| Test::Status)).collect()
}

/// What an instruction does to a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// It releases this or another one.
    MayRelease,
    /// It releases it.
    Releases,
}

/// What a write does to the word of a held lock.
pub(crate) fn effect(access: &Access, word: &Word, nodes: &Nodes) -> Effect {
    let Word::Memory { address, bits, bytes } = *word else { return Effect::None };
    let (at, wide) = (access.address, access.bytes);
    // The bits of the lock, as this instruction's operand has them.
    let shift = if at.symbol == address.symbol { address.offset.wrapping_sub(at.offset) } else { 0 };
    let hits = at.symbol == address.symbol && shift < wide as u64;
    let bits = if hits { bits.checked_shl(8 * shift as u32).unwrap_or(0) } else { bits };
    let opens = if bits == 0 { opens_turn(access.change) } else { opens(access, bits, nodes) };
    if hits {
        // `lock or` and `lock add` of other bits leave the lock as it is.
        return if opens == Some(false) { Effect::None } else { Effect::Releases };
    }
    let offset_alike = at.offset == address.offset && wide == bytes;
    // A number is stored to a flag's word only when the whole word is made anew, and then by its own address.
    let fixed = bits.count_ones() == 1 && matches!(access.change, Change::Store { is_number: true, .. });
    let elsewhere = fixed || nodes.stack(at).is_some() || (at.symbol.is_none() && address.symbol.is_none());
    if offset_alike && !elsewhere && opens == Some(true) { Effect::MayRelease } else { Effect::None }
}

/// True if a write surely clears the bits (true) or surely leaves them set (false); `None` where neither is sure.
fn opens(access: &Access, bits: u64, nodes: &Nodes) -> Option<bool> {
    let known = |value| nodes.low(value, access.bytes);
    let is_clear = |value: Value| value.zero & bits == bits;
    let node = |value: Value| value.symbol.and_then(|symbol| nodes.node(symbol));
    match access.change {
        Change::Store { value, .. } | Change::Swap { new: value } => {
            let value = value?;
            match known(value) {
                Some(number) => Some(number & bits == 0),
                None if is_clear(value) => Some(true),
                None => match node(value) {
                    Some(Node::Or { bits: set, .. }) if value.offset == 0 && set & bits == bits => Some(false),
                    _ => None,
                },
            }
        }
        Change::And { mask } => match mask.and_then(known) {
            Some(number) if number & bits == 0 => Some(true),
            Some(number) if number & bits == bits => Some(false),
            _ => mask.filter(|value| is_clear(*value)).map(|_| true),
        },
        Change::Clear { bits: cleared } => Some(cleared? & bits != 0),
        Change::Set { .. } => Some(false),
        // A counter beside the lock's bits changes; of a whole word, zero may be the result.
        Change::Count { by, .. } if bits.count_ones() == 1 => Some(by == Some(bits)),
        Change::CompareAndSwap { new, .. } => {
            let new = new?;
            match node(new) {
                _ if known(new) == Some(0) || is_clear(new) => None,
                Some(Node::Or { bits: set, .. }) if set & bits == bits => Some(false),
                // A loop that changes other bits of a word of which the lock is one bit.
                _ if bits.count_ones() == 1 => Some(false),
                _ => None,
            }
        }
        Change::Count { .. } | Change::Other => None,
    }
}

/// The same of a counter that shows whose turn it is. A plain store to another structure at the same offset says nothing.
fn opens_turn(change: Change) -> Option<bool> {
    match change {
        Change::Count { is_up: true, .. } => Some(true),
        Change::Set { .. } => Some(false),
        _ => None,
    }
}
