//! Atomic operations of AArch64, in each of their forms: one instruction (LSE), a loop of exclusive load and store, and a call
//! of a helper of libgcc that has both (`__aarch64_cas4_acq` and its relatives, outline-atomics; libgcc's lse.S).

use super::form::{NOT_EQUAL, SP, Source, ZERO, exclusive_store, is_exclusive_load, load, place, register, source};
use crate::arch::{Flag, Shown};
use yaxpeax_arm::armv8::a64::{Instruction, Opcode, Operand};

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(super) operation: Operation,
    /// The register with the address.
    pub(super) base: usize,
    pub(super) bytes: usize,
    /// The register that has the old value then.
    pub(super) old: Option<usize>,
    /// Registers that are not what they were, as bits.
    pub(super) changed: u64,
    pub(super) changes_flags: bool,
    pub(super) shown: Shown,
    /// The register that is zero where an exclusive store was made.
    pub(super) status: Option<usize>,
    /// Where control goes when a comparison before the store fails.
    pub(super) fails_to: Option<u64>,
}

/// What is done to the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Swap(Source),
    CompareAndSwap { expected: Source, new: Source },
    Add(Source),
    Subtract(Source),
    Set(Source),
    Clear(Source),
    And(Source),
    Other,
}

impl Atomic {
    fn new(operation: Operation, base: usize, bytes: usize, old: usize) -> Self {
        let old = (old < SP).then_some(old);
        let changed = old.map_or(0, |old| 1 << old);
        let (shown, status, fails_to) = (Shown::OldValue, None, None);
        Atomic { operation, base, bytes, old, changed, changes_flags: false, shown, status, fails_to }
    }

    pub(super) fn may_acquire(&self) -> bool {
        matches!(self.operation, Operation::Swap(_) | Operation::CompareAndSwap { .. } | Operation::Set(_))
    }

    pub(super) fn may_count(&self) -> bool {
        matches!(self.operation, Operation::Add(_)) && self.old.is_some()
    }
}

/// The operation of one instruction of the Large System Extensions.
pub(super) fn single(own: &Instruction) -> Option<Atomic> {
    use Opcode::*;
    let (first, wide) = register(own.operands[0])?;
    let bytes = match own.opcode {
        CASB(_) | SWPB(_) | LDADDB(_) | LDCLRB(_) | LDEORB(_) | LDSETB(_) | LDSMAXB(_) | LDSMINB(_) | LDUMAXB(_)
        | LDUMINB(_) => 1,
        CASH(_) | SWPH(_) | LDADDH(_) | LDCLRH(_) | LDEORH(_) | LDSETH(_) | LDSMAXH(_) | LDSMINH(_) | LDUMAXH(_)
        | LDUMINH(_) => 2,
        CAS(_) | SWP(_) | LDADD(_) | LDCLR(_) | LDEOR(_) | LDSET(_) | LDSMAX(_) | LDSMIN(_) | LDUMAX(_) | LDUMIN(_) => {
            wide
        }
        _ => return None,
    };
    let (second, _) = register(own.operands[1])?;
    let base = place(own.operands[2])?.base;
    let value = Source::Register(first);
    let (operation, old) = match own.opcode {
        CAS(_) | CASB(_) | CASH(_) => {
            (Operation::CompareAndSwap { expected: value, new: Source::Register(second) }, first)
        }
        SWP(_) | SWPB(_) | SWPH(_) => (Operation::Swap(value), second),
        LDADD(_) | LDADDB(_) | LDADDH(_) => (Operation::Add(value), second),
        LDSET(_) | LDSETB(_) | LDSETH(_) => (Operation::Set(value), second),
        LDCLR(_) | LDCLRB(_) | LDCLRH(_) => (Operation::Clear(value), second),
        _ => (Operation::Other, second),
    };
    Some(Atomic::new(operation, base, bytes, old))
}

/// Instructions between an exclusive load and its store, at most.
pub(super) const MOST_BETWEEN: usize = 8;

/// The operation of an exclusive load, with which the code begins, and the instructions behind it up to the store, and how many those
/// are. `at` is the address of the load.
pub(super) fn exclusive(code: &[Instruction], at: u64) -> Option<(Atomic, usize)> {
    let (load_of, rest) = code.split_first()?;
    if !is_exclusive_load(load_of.opcode) {
        return None;
    }
    let (old, _, bytes, _) = load(load_of)?;
    let mut pair = Pair { old, base: place(load_of.operands[1])?.base, expected: None, derived: None, is_lost: false };
    let mut changed = 1u64 << old;
    let (mut out, mut by_flags) = (None, false);
    for (number, own) in rest.iter().enumerate().take(MOST_BETWEEN) {
        let ip = at + 4 * (number as u64 + 1);
        if let Some((status, value, wide)) = exclusive_store(own) {
            if place(own.operands[2])?.base != pair.base || wide != bytes || status == ZERO {
                return None;
            }
            let old = if pair.is_lost { ZERO } else { old };
            let mut atomic = Atomic::new(pair.operation(value)?, pair.base, bytes, old);
            atomic.changed |= changed | 1 << status;
            atomic.changes_flags = by_flags;
            atomic.status = Some(status);
            let loops = is_retry(rest.get(number + 1)?, status, ip + 4, at)?;
            // Behind the branch on the status, or the comparison of it.
            if let (Some(out), Some(_)) = (out, pair.expected) {
                let is_next = out == ip + 8;
                atomic.fails_to = (!is_next).then_some(out);
                atomic.shown = match (loops && is_next, by_flags) {
                    (true, true) => Shown::Flag(Flag::Zero),
                    (true, false) => Shown::OldValue,
                    (false, _) => Shown::Surely,
                };
            }
            return Some((atomic, number + 1));
        }
        match own.opcode {
            Opcode::Bcc(NOT_EQUAL) if by_flags && out.is_none() => out = Some(to(own.operands[0], ip)?),
            Opcode::CBNZ if register(own.operands[0])?.0 == old && out.is_none() && !pair.is_lost => {
                pair.expected = Some(Source::Number(0));
                out = Some(to(own.operands[1], ip)?);
            }
            Opcode::SUBS if register(own.operands[0])?.0 == ZERO && pair.expected.is_none() && !pair.is_lost => {
                pair.expected = Some(compared_with(own, old)?);
                by_flags = true;
            }
            _ => changed |= pair.derive(own)?,
        }
    }
    None
}

/// What an exclusive pair works on.
struct Pair {
    old: usize,
    base: usize,
    expected: Option<Source>,
    /// A register with what was computed from the old value.
    derived: Option<(usize, Operation)>,
    /// True if the register of the old value was overwritten.
    is_lost: bool,
}

impl Pair {
    fn operation(&self, stored: usize) -> Option<Operation> {
        match (self.expected, self.derived) {
            (Some(expected), None) => Some(Operation::CompareAndSwap { expected, new: Source::Register(stored) }),
            (None, Some((register, operation))) if register == stored => Some(operation),
            (None, None) => Some(Operation::Swap(Source::Register(stored))),
            _ => Some(Operation::Other),
        }
    }

    /// An instruction that computes the new value: the register that it changes, as a bit.
    fn derive(&mut self, own: &Instruction) -> Option<u64> {
        let (to, _) = register(own.operands[0])?;
        let from = register(own.operands[1])?.0;
        if to >= SP || to == self.base || self.is_lost {
            return None;
        }
        self.is_lost = to == self.old;
        let by = source(own.operands[2]);
        let (from, by) = match by {
            Source::Register(number) if number == self.old => (number, Source::Register(from)),
            _ => (from, by),
        };
        let operation = match own.opcode {
            _ if from != self.old || self.derived.is_some() => Operation::Other,
            Opcode::ORR => Operation::Set(by),
            Opcode::AND => Operation::And(by),
            Opcode::BIC if by != Source::Register(self.old) => Operation::Clear(by),
            Opcode::ADD => Operation::Add(by),
            Opcode::SUB => Operation::Subtract(by),
            Opcode::EOR | Opcode::BIC | Opcode::ORN | Opcode::EON | Opcode::UBFM => Operation::Other,
            _ => return None,
        };
        self.derived = Some((to, operation));
        Some(1 << to)
    }
}

/// What the old value is compared with.
fn compared_with(own: &Instruction, old: usize) -> Option<Source> {
    let (a, b) = (register(own.operands[1])?.0, source(own.operands[2]));
    match b {
        _ if a == old => match (b, own.operands[2]) {
            // A comparison of bytes or halves extends the register.
            (Source::Other, Operand::RegShift(_, 0, _, number)) => Some(Source::Register(usize::from(number) & 31)),
            (Source::Other, _) => None,
            _ => Some(b),
        },
        Source::Register(number) if number == old => Some(Source::Register(a)),
        _ => None,
    }
}

/// True if the instruction behind an exclusive store goes back to the load when the store was not made; `None` where it does not
/// look at the status.
fn is_retry(own: &Instruction, status: usize, ip: u64, load: u64) -> Option<bool> {
    match own.opcode {
        Opcode::CBNZ if register(own.operands[0])?.0 == status => Some(to(own.operands[1], ip)? == load),
        Opcode::SUBS | Opcode::ANDS if register(own.operands[1])?.0 == status => Some(false),
        _ => None,
    }
}

fn to(operand: Operand, ip: u64) -> Option<u64> {
    match operand {
        Operand::PCOffset(by) => Some(ip.wrapping_add_signed(by)),
        _ => None,
    }
}

/// Instructions of a helper, at most.
pub(super) const HELPER_INSTRUCTIONS: usize = 20;

/// Pieces of a helper's code, in bytes from its begin.
type Pieces = Vec<(u64, u64)>;

/// The operation of a helper whose code begins here, and the pieces of its code that run before the operation is done and after it.
/// It loads a flag, does the operation by one instruction, or else by an exclusive pair.
pub(super) fn helper(code: &[Instruction]) -> Option<(Atomic, Pieces, Pieces)> {
    let pads = code.iter().take_while(|own| super::is_pad(own)).count();
    let [page, flag, branch, ..] = *code.get(pads..)? else { return None };
    let is_flag = page.opcode == Opcode::ADRP && flag.opcode == Opcode::LDRB && branch.opcode == Opcode::CBZ;
    let scratch = register(page.operands[0])?.0;
    let reads = place(flag.operands[1])?.base == scratch && register(flag.operands[0]) == register(branch.operands[0]);
    if !is_flag || !reads || !matches!(scratch, 16 | 17) {
        return None;
    }
    let one = pads + 3;
    let mut atomic = single(code.get(one)?)?;
    // The way without the extensions does the same to the same address.
    let begin = pads + 2;
    let other = to(branch.operands[1], 4 * begin as u64)?;
    let other = usize::try_from(other / 4).ok().filter(|other| *other > one)?;
    let has_ret = code.get(one + 1)?.opcode == Opcode::RET;
    let store = code.iter().skip(other).position(|own| exclusive_store(own).is_some())? + other;
    let (_, _, bytes) = exclusive_store(&code[store])?;
    let same = place(code[store].operands[2])?.base == atomic.base && bytes == atomic.bytes;
    // The address is an argument, and the result the first one.
    if !has_ret || !same || !matches!(atomic.base, 1 | 2) || atomic.old.is_some_and(|old| old != 0) {
        return None;
    }
    atomic.changed |= 1 << 15 | 1 << 16 | 1 << 17 | 1 << 30;
    atomic.changes_flags = true;
    let bytes = |number: usize| 4 * number as u64;
    // Behind the branch on the status of the store only barriers may stand before the return.
    let rest = code.get(store + 2..)?;
    let tail = rest.iter().take_while(|own| matches!(own.opcode, Opcode::DMB(_))).count() + store + 2;
    let mut after = vec![(bytes(one + 1), bytes(one + 2))];
    if code.get(tail).is_some_and(|own| own.opcode == Opcode::RET) {
        after.push((bytes(store + 2), bytes(tail + 1)));
    }
    Some((atomic, vec![(0, bytes(one + 1)), (bytes(other), bytes(store + 1))], after))
}
