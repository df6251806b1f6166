//! What instructions of AArch64 do to memory.

use super::atomic::{Atomic, Operation};
use super::form::{Place, place, register, store, vector_bytes};
use super::state::{address, read, value};
use super::{Own, form::ZERO};
use crate::arch::{Access, Change, Shown};
use crate::values::{Nodes, State, Value, mask};
use yaxpeax_arm::armv8::a64::{Opcode, Operand};

/// Stores of other kinds write no more bytes than this, as far as the analysis follows them.
pub(super) const OTHER_BYTES: usize = 16;

/// Bytes of each register of a pair that is loaded or stored.
pub(super) fn pair_bytes(operand: Operand) -> usize {
    match operand {
        Operand::SIMDRegister(size, _) => vector_bytes(size),
        other => register(other).map_or(8, |(_, bytes)| bytes),
    }
}

/// How many of an instruction's first operands it writes, where it is none of the forms that are known better.
pub(super) fn written(opcode: Opcode) -> usize {
    use Opcode::*;
    match opcode {
        CCMN | CCMP | FCMP | FCMPE | FCCMP | FCCMPE | MSR | PRFM | PRFUM | STG | STZG | ST2G | STZ2G | STGM | STZGM
        | LDGM | SYS(_) => 0,
        LDP | LDPSW | LDNP | LDXP | LDAXP => 2,
        _ => 1,
    }
}

/// The place that a store of another form writes.
pub(super) fn other_store(own: &Own) -> Option<Place> {
    use Opcode::*;
    let operand = match own.inner.opcode {
        STXR | STXRB | STXRH | STLXR | STLXRB | STLXRH => 2,
        STXP | STLXP => 3,
        ST1 | ST2 | ST3 | ST4 | STG | STZG | ST2G | STZ2G | STGM | STZGM => 1,
        CASP(_) => 4,
        _ => return None,
    };
    let operands = &own.inner.operands;
    let operand = operands.get(operand).or_else(|| operands.iter().find(|operand| place(**operand).is_some()))?;
    place(*operand).or_else(|| match *operand {
        Operand::RegPostIndexReg(base, _) => {
            Some(Place { base: usize::from(base) & 31, offset: 0, index: None, base_after: None })
        }
        _ => None,
    })
}

fn is_pair_store(own: &Own) -> bool {
    matches!(own.inner.opcode, Opcode::STP | Opcode::STNP)
}

/// See [`crate::arch::Architecture::may_write`].
pub(super) fn may_write(own: &Own) -> bool {
    own.atomic.is_some() || store(&own.inner).is_some() || is_pair_store(own) || other_store(own).is_some()
}

fn plain(address: Value, bytes: usize, change: Change) -> Access {
    Access { address, bytes, change, is_atomic: false, old: None, shown: Shown::Surely, status: None, fails_to: None }
}

/// The write of an instruction, or the first of two.
pub(super) fn first(own: &Own, ip: u64, state: &State, nodes: &mut Nodes) -> Option<Access> {
    if let Some(atomic) = &own.atomic {
        return Some(of_atomic(atomic, state, nodes));
    }
    if let Some((from, bytes)) = store(&own.inner) {
        let to = address(state, &place(own.inner.operands[1])?, ip, nodes);
        return Some(plain(to, bytes, stored(from, bytes, state, nodes)));
    }
    if is_pair_store(own) {
        return of_pair(own, 0, ip, state, nodes);
    }
    let to = address(state, &other_store(own)?, ip, nodes);
    Some(plain(to, OTHER_BYTES, Change::Other))
}

/// The second write of an instruction that stores two registers.
pub(super) fn second(own: &Own, ip: u64, state: &State, nodes: &mut Nodes) -> Option<Access> {
    is_pair_store(own).then(|| of_pair(own, 1, ip, state, nodes)).flatten()
}

fn of_pair(own: &Own, number: usize, ip: u64, state: &State, nodes: &mut Nodes) -> Option<Access> {
    let operand = own.inner.operands[number];
    let bytes = pair_bytes(operand);
    let to = address(state, &place(own.inner.operands[2])?, ip, nodes).plus((number * bytes) as u64);
    let from = register(operand).map(|(from, _)| from);
    Some(plain(to, bytes, stored(from, bytes, state, nodes)))
}

fn stored(from: Option<usize>, bytes: usize, state: &State, nodes: &Nodes) -> Change {
    let Some(from) = from else { return Change::Other };
    let stored = read(state, from);
    let stored = match nodes.low(stored, bytes) {
        Some(number) => Value::constant(number),
        None => stored,
    };
    // The zero register is the only number that a store has in itself.
    Change::Store { value: Some(stored), is_number: from == ZERO }
}

fn of_atomic(atomic: &Atomic, state: &State, nodes: &mut Nodes) -> Access {
    let bytes = atomic.bytes;
    let of = |source, nodes: &mut Nodes| value(state, source, bytes, nodes);
    let known = |source, nodes: &mut Nodes| of(source, nodes).and_then(|value| nodes.low(value, bytes));
    let change = match atomic.operation {
        Operation::Swap(new) => Change::Swap { new: of(new, nodes) },
        Operation::CompareAndSwap { expected, new } => match of(expected, nodes) {
            Some(expected) => Change::CompareAndSwap { expected, new: of(new, nodes) },
            None => Change::Other,
        },
        Operation::Add(by) => {
            let by = known(by, nodes);
            let down = by.filter(|by| by >> (8 * bytes - 1) & 1 == 1);
            match down {
                Some(by) => Change::Count { by: Some(by.wrapping_neg() & mask(bytes)), is_up: false },
                None => Change::Count { by, is_up: true },
            }
        }
        Operation::Subtract(by) => Change::Count { by: known(by, nodes), is_up: false },
        Operation::Set(bits) => Change::Set { bits: known(bits, nodes) },
        Operation::Clear(bits) => Change::Clear { bits: known(bits, nodes) },
        Operation::And(mask) => Change::And { mask: of(mask, nodes) },
        Operation::Other => Change::Other,
    };
    Access {
        address: read(state, atomic.base),
        bytes,
        change,
        is_atomic: true,
        old: atomic.old,
        shown: atomic.shown,
        status: atomic.status,
        fails_to: atomic.fails_to,
    }
}
