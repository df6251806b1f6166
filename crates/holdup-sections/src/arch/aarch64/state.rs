//! What instructions of AArch64 leave in registers and stack slots.

use super::form::{Place, SP, Source, ZERO, load, place, register, source, store};
use super::{OTHERS, Own};
use crate::arch::{Flow, Instruction};
use crate::values::{Node, Nodes, State, Value, mask, sum};
use yaxpeax_arm::armv8::a64::{Opcode, Operand};

/// Numbers in [`Node::Result`] that are no registers.
const ADDRESS: u8 = 65;
const STORED: u8 = 66;

/// The value of a register; that of the zero register is zero.
pub(super) fn read(state: &State, number: usize) -> Value {
    if number == ZERO { Value::constant(0) } else { state.registers[number] }
}

fn write(state: &mut State, (number, bytes): (usize, usize), value: Value) {
    if number == ZERO {
        return;
    }
    state.registers[number] = narrowed(value, bytes);
}

/// The lowest bytes of a value, with zeros above.
fn narrowed(value: Value, bytes: usize) -> Value {
    match value.symbol {
        _ if bytes >= 8 => value,
        None => Value::constant(value.offset & mask(bytes)),
        Some(_) => Value { zero: value.zero | !mask(bytes), ..value },
    }
}

fn unknown(state: &mut State, number: usize, at: u64, later: bool, nodes: &mut Nodes) {
    if number < ZERO {
        state.registers[number] = nodes.symbol(Node::Result { at, register: number as u8, later });
    }
}

/// The value of an operand that is a number or a register.
pub(super) fn value(state: &State, from: Source, bytes: usize, nodes: &mut Nodes) -> Option<Value> {
    let value = match from {
        Source::Number(number) => Value::constant(number),
        Source::Register(number) => read(state, number),
        Source::Shifted(number, by) => {
            let before = read(state, number);
            match before.symbol {
                None => Value::constant(before.offset.checked_shl(u32::from(by)).unwrap_or(0)),
                Some(_) => made(Opcode::LSLV, before, Value::constant(u64::from(by)), bytes, nodes),
            }
        }
        Source::Other => return None,
    };
    Some(if value.symbol.is_none() { Value::constant(value.offset & mask(bytes)) } else { value })
}

/// The address of a place in memory.
pub(super) fn address(state: &State, at: &Place, ip: u64, nodes: &mut Nodes) -> Value {
    let base = state.registers[at.base].plus(at.offset as u64);
    match at.index {
        None => base,
        Some(Source::Register(index)) => sum(base, read(state, index), 1, nodes),
        Some(Source::Shifted(index, by)) if by < 8 => sum(base, read(state, index), 1 << by, nodes),
        Some(_) => nodes.symbol(Node::Result { at: ip, register: ADDRESS, later: false }),
    }
}

/// The state behind an instruction.
pub(super) fn step(state: &mut State, instruction: &Instruction, own: &Own, later: bool, nodes: &mut Nodes) {
    let at = instruction.ip;
    if let Some(atomic) = &own.atomic {
        let address = read(state, atomic.base);
        let stored = nodes.symbol(Node::Result { at, register: STORED, later });
        state.store(address, atomic.bytes, stored, nodes);
        for number in 0..SP {
            if atomic.changed >> number & 1 == 1 {
                unknown(state, number, at, later, nodes);
            }
        }
        if let Some(old) = atomic.old {
            state.registers[old].zero |= !mask(atomic.bytes);
        }
        return;
    }
    match instruction.flow {
        Flow::Call(_) | Flow::CallSlot(_) | Flow::CallUnknown => {
            OTHERS.iter().for_each(|number| unknown(state, *number, at, later, nodes));
        }
        Flow::SystemCall => unknown(state, 0, at, later, nodes),
        Flow::Next if !known(state, at, own, nodes) && !moved(state, at, own, later, nodes) => {
            forget(state, at, own, later, nodes);
        }
        _ => {}
    }
}

/// Instructions without memory whose result is an expression. Whether this was one.
fn known(state: &mut State, at: u64, own: &Own, nodes: &mut Nodes) -> bool {
    use Opcode::*;
    let inner = &own.inner;
    let Some(to @ (_, bytes)) = register(inner.operands[0]) else { return false };
    let first = register(inner.operands[1]).map(|(number, _)| narrowed(read(state, number), bytes));
    let result = match (inner.opcode, inner.operands[1]) {
        (MOVZ, wide) => value(state, source(wide), bytes, nodes),
        (MOVN, Operand::ImmShift(number, by)) => {
            let number = u64::from(number).checked_shl(u32::from(by)).unwrap_or(0);
            Some(Value::constant(!number & mask(bytes)))
        }
        (MOVK, Operand::ImmShift(number, by)) => {
            let before = read(state, to.0);
            let kept = !(0xffff_u64.checked_shl(u32::from(by)).unwrap_or(0));
            let number = u64::from(number).checked_shl(u32::from(by)).unwrap_or(0);
            before.symbol.is_none().then(|| Value::constant(before.offset & kept | number))
        }
        (ADR, Operand::PCOffset(by)) => Some(Value::constant(at.wrapping_add_signed(by))),
        (ADRP, Operand::PCOffset(by)) => Some(Value::constant((at & !0xfff).wrapping_add_signed(by))),
        (UBFM, _) => first.and_then(|of| extracted(of, bytes, &inner.operands, nodes)),
        (SBFM | LSLV | LSRV | ASRV | MADD | EON | ORN | RBIT | REV | CLZ, _) => {
            let and = match (source(inner.operands[2]), inner.operands[3]) {
                (Source::Number(a), Operand::Immediate(b)) => Some(Value::constant(a << 32 | u64::from(b))),
                (from, Operand::Nothing) => value(state, from, bytes, nodes),
                _ => None,
            };
            first.zip(and).map(|(of, and)| made(inner.opcode, of, and, bytes, nodes))
        }
        (ADD | ADDS | SUB | SUBS | AND | ANDS | ORR | EOR | BIC | BICS, _) => {
            let and = value(state, source(inner.operands[2]), bytes, nodes);
            first.zip(and).map(|(of, and)| computed(inner.opcode, of, and, bytes, nodes))
        }
        _ => None,
    };
    if let Some(value) = result {
        write(state, to, value);
    }
    result.is_some()
}

fn made(by: Opcode, of: Value, and: Value, bytes: usize, nodes: &mut Nodes) -> Value {
    let (of, and) = ((of.symbol, of.offset), (and.symbol, and.offset));
    nodes.symbol(Node::Made { by: code(by), of, and, bytes: bytes as u8 })
}

/// A number for an operation, which only has to differ from those of others.
fn code(by: Opcode) -> u16 {
    use Opcode::*;
    let all = [AND, EOR, ORR, BIC, SUB, LSLV, LSRV, ASRV, UBFM, SBFM, MADD, EON, ORN, RBIT, REV, CLZ];
    all.iter().position(|one| *one == by).map_or(u16::MAX, |number| number as u16)
}

fn computed(by: Opcode, a: Value, b: Value, bytes: usize, nodes: &mut Nodes) -> Value {
    use Opcode::*;
    let (a, b) = if a.symbol.is_none() && !matches!(by, SUB | SUBS | BIC | BICS) { (b, a) } else { (a, b) };
    let is_fixed = a.symbol.is_none() && b.symbol.is_none();
    match by {
        ADD | ADDS => sum(a, b, 1, nodes),
        SUB | SUBS if b.symbol.is_none() => a.plus(b.offset.wrapping_neg()),
        SUB | SUBS if a.same(b) => Value::constant(0),
        SUB | SUBS => made(SUB, a, b, bytes, nodes),
        AND | ANDS if is_fixed => Value::constant(a.offset & b.offset),
        BIC | BICS if is_fixed => Value::constant(a.offset & !b.offset),
        ORR if is_fixed => Value::constant(a.offset | b.offset),
        EOR if is_fixed => Value::constant(a.offset ^ b.offset),
        ORR | EOR if b.symbol.is_none() && b.offset == 0 => a,
        AND | ANDS if b.symbol.is_none() => masked(a, b.offset, bytes, nodes),
        BIC | BICS if b.symbol.is_none() => masked(a, !b.offset, bytes, nodes),
        ORR if b.symbol.is_none() => {
            let bits = b.offset & mask(bytes);
            let or = nodes.symbol(Node::Or { of: a.symbol, offset: a.offset, bits });
            Value { zero: a.zero & !bits, ..or }
        }
        ANDS => made(AND, a, b, bytes, nodes),
        BICS => made(BIC, a, b, bytes, nodes),
        other => made(other, a, b, bytes, nodes),
    }
}

fn masked(of: Value, bits: u64, bytes: usize, nodes: &mut Nodes) -> Value {
    let result = made(Opcode::AND, of, Value::constant(bits), bytes, nodes);
    Value { zero: of.zero | !bits, ..result }
}

/// What `ubfm` makes: the lowest bits alone, or a shift.
fn extracted(of: Value, bytes: usize, operands: &[Operand; 4], nodes: &mut Nodes) -> Option<Value> {
    let (Source::Number(from), Source::Number(last)) = (source(operands[2]), source(operands[3])) else { return None };
    if from == 0 && last < 63 {
        let bits = (2 << last) - 1;
        let is_there = of.zero & !bits == !bits;
        return Some(match of.symbol {
            None => Value::constant(of.offset & bits),
            // Nothing but what is there already.
            Some(_) if is_there => of,
            Some(_) => masked(of, bits, bytes, nodes),
        });
    }
    Some(made(Opcode::UBFM, of, Value::constant(from << 32 | last), bytes, nodes))
}

/// Loads and stores. Whether this was one.
fn moved(state: &mut State, at: u64, own: &Own, later: bool, nodes: &mut Nodes) -> bool {
    let inner = &own.inner;
    let is_pair = matches!(inner.opcode, Opcode::LDP | Opcode::STP | Opcode::LDNP | Opcode::STNP);
    if let Some((to, wide, bytes, signed)) = load(inner) {
        let from = match (inner.operands[1], place(inner.operands[1])) {
            (Operand::PCOffset(by), _) => Value::constant(at.wrapping_add_signed(by)),
            (_, Some(place)) => address(state, &place, at, nodes),
            _ => return false,
        };
        let value = state.load(from, bytes, nodes);
        let value = if signed && value.symbol.is_some() && bytes < wide {
            made(Opcode::SBFM, value, Value::constant(bytes as u64), wide, nodes)
        } else {
            narrowed(value, bytes)
        };
        write_back(state, inner.operands[1]);
        write(state, (to, wide), value);
    } else if let Some((from, bytes)) = store(inner) {
        let Some(place) = place(inner.operands[1]) else { return false };
        let to = address(state, &place, at, nodes);
        let value = match from {
            Some(from) => narrowed(read(state, from), bytes),
            None => nodes.symbol(Node::Result { at, register: STORED, later }),
        };
        state.store(to, bytes, value, nodes);
        write_back(state, inner.operands[1]);
    } else if is_pair && let Some(place) = place(inner.operands[2]) {
        let is_load = matches!(inner.opcode, Opcode::LDP | Opcode::LDNP);
        let first = address(state, &place, at, nodes);
        let bytes = super::access::pair_bytes(inner.operands[0]);
        let places = [first, first.plus(bytes as u64)];
        let both = [inner.operands[0], inner.operands[1]].map(register);
        if is_load {
            let values = places.map(|place| state.load(place, bytes, nodes));
            write_back(state, inner.operands[2]);
            for (to, value) in both.into_iter().zip(values) {
                if let Some(to) = to {
                    write(state, to, narrowed(value, bytes));
                }
            }
        } else {
            for (from, to) in both.into_iter().zip(places) {
                let value = match from {
                    Some((from, _)) => narrowed(read(state, from), bytes),
                    None => nodes.symbol(Node::Result { at, register: STORED, later }),
                };
                state.store(to, bytes, value, nodes);
            }
            write_back(state, inner.operands[2]);
        }
    } else {
        return false;
    }
    true
}

/// The base register behind a load or store that changes it.
fn write_back(state: &mut State, operand: Operand) {
    if let Some(Place { base, base_after: Some(by), .. }) = place(operand) {
        state.registers[base] = state.registers[base].plus(by as u64);
    }
}

/// What an instruction writes is unknown behind it.
fn forget(state: &mut State, at: u64, own: &Own, later: bool, nodes: &mut Nodes) {
    for operand in own.inner.operands {
        match operand {
            Operand::RegPreIndex(base, _, true)
            | Operand::RegPostIndex(base, _)
            | Operand::RegPostIndexReg(base, _) => {
                unknown(state, usize::from(base) & 31, at, later, nodes);
            }
            _ => {}
        }
    }
    for operand in &own.inner.operands[..super::access::written(own.inner.opcode)] {
        match *operand {
            // Two registers behind each other (`casp`).
            Operand::RegisterPair(_, first) => {
                (0..2).for_each(|more| unknown(state, usize::from(first) + more, at, later, nodes));
            }
            other => register(other).into_iter().for_each(|(number, _)| unknown(state, number, at, later, nodes)),
        }
    }
    if let Some(place) = super::access::other_store(own) {
        let to = address(state, &place, at, nodes);
        let value = nodes.symbol(Node::Result { at, register: STORED, later });
        state.store(to, super::access::OTHER_BYTES, value, nodes);
    }
}
