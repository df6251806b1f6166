//! What instructions of x86-64 leave in registers and stack slots.

use super::{OTHERS, RSP, number, width};
use crate::values::{Node, Nodes, State, Value, mask, sum};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::cell::RefCell;

thread_local! {
    /// The decoder's tables of what an instruction writes.
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

/// The address of an instruction's memory operand.
pub(super) fn address(state: &State, instruction: &Instruction, nodes: &mut Nodes) -> Value {
    if instruction.is_ip_rel_memory_operand() {
        return Value::constant(instruction.ip_rel_memory_address());
    }
    let unknown = Node::Result { at: instruction.ip(), register: 17, later: false };
    if matches!(instruction.memory_segment(), Register::FS | Register::GS) {
        return nodes.symbol(unknown);
    }
    let base = match instruction.memory_base() {
        Register::None => Value::constant(0),
        base => match number(base) {
            Some(base) => state.registers[base],
            None => return nodes.symbol(unknown),
        },
    };
    let base = base.plus(instruction.memory_displacement64());
    match instruction.memory_index() {
        Register::None => base,
        index => {
            let Some(index) = number(index) else { return nodes.symbol(unknown) };
            sum(base, state.registers[index], instruction.memory_index_scale() as u8, nodes)
        }
    }
}

/// The value of an operand that is a register, a number or memory.
pub(super) fn operand(state: &State, instruction: &Instruction, operand: u32, nodes: &mut Nodes) -> Option<Value> {
    match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            let value = state.registers[number(register)?];
            Some(match (value.symbol, register.size()) {
                (None, bytes) => Value::constant(value.offset & mask(bytes)),
                (Some(_), _) => value,
            })
        }
        OpKind::Memory => {
            let address = address(state, instruction, nodes);
            Some(state.load(address, width(instruction, operand), nodes))
        }
        _ => instruction.try_immediate(operand).ok().map(Value::constant),
    }
}

/// The value whose lowest bytes an operand has: what was stored to a stack slot, however few bytes of it.
pub(super) fn kept(state: &State, instruction: &Instruction, of: u32, nodes: &mut Nodes) -> Option<Value> {
    let slot = match instruction.op_kind(of) {
        OpKind::Memory => {
            let address = address(state, instruction, nodes);
            state.stored(address, width(instruction, of), nodes)
        }
        _ => None,
    };
    slot.or_else(|| operand(state, instruction, of, nodes))
}

fn set(state: &mut State, register: Register, value: Value, at: u64, nodes: &mut Nodes) {
    let Some(full) = number(register) else {
        if register.is_gpr() {
            unknown(state, register.full_register().number(), at, false, nodes);
        }
        return;
    };
    state.registers[full] = match (register.size(), value.symbol) {
        (8, _) => value,
        (4, None) => Value::constant(value.offset & mask(4)),
        (4, Some(_)) => Value { zero: value.zero | !mask(4), ..value },
        (1, None) => nodes.symbol(Node::Byte { byte: value.offset as u8, at }),
        // What is built for size keeps the byte that `xchg` stores in a separate register.
        (1, Some(_)) if let Some(byte) = nodes.low(value, 1) => nodes.symbol(Node::Byte { byte: byte as u8, at }),
        _ => nodes.symbol(Node::Result { at, register: full as u8, later: false }),
    };
}

fn unknown(state: &mut State, register: usize, at: u64, later: bool, nodes: &mut Nodes) {
    state.registers[register] = nodes.symbol(Node::Result { at, register: register as u8, later });
}

/// The state behind an instruction. `later`: whether this belongs to a flood.
pub(super) fn step(state: &mut State, instruction: &Instruction, later: bool, nodes: &mut Nodes) {
    if !known(state, instruction, nodes) {
        forget(state, instruction, later, nodes);
    }
}

/// Instructions whose result is an expression. Whether this was one.
fn known(state: &mut State, instruction: &Instruction, nodes: &mut Nodes) -> bool {
    let at = instruction.ip();
    let result = match instruction.mnemonic() {
        Mnemonic::Mov => operand(state, instruction, 1, nodes),
        Mnemonic::Movzx => zero_extended(state, instruction, nodes),
        Mnemonic::Movsxd if instruction.op1_kind() == OpKind::Register => operand(state, instruction, 1, nodes),
        Mnemonic::Lea => Some(address(state, instruction, nodes)),
        Mnemonic::Xor | Mnemonic::Sub if same_register(instruction) => Some(Value::constant(0)),
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::Inc | Mnemonic::Dec => added(state, instruction, nodes),
        Mnemonic::And | Mnemonic::Or | Mnemonic::Btr | Mnemonic::Bts => masked(state, instruction, nodes),
        Mnemonic::Push => return push(state, instruction, nodes),
        Mnemonic::Pop => return pop(state, instruction, nodes),
        Mnemonic::Leave => {
            state.registers[RSP] = state.registers[5];
            state.registers[5] = state.load(state.registers[RSP], 8, nodes);
            state.registers[RSP] = state.registers[RSP].plus(8);
            return true;
        }
        Mnemonic::Nop | Mnemonic::Endbr64 => return true,
        _ => None,
    };
    let Some(value) = result.or_else(|| made(state, instruction, nodes)) else { return false };
    match instruction.op0_kind() {
        OpKind::Register => set(state, instruction.op0_register(), value, at, nodes),
        OpKind::Memory => {
            let address = address(state, instruction, nodes);
            state.store(address, width(instruction, 0), value, nodes);
        }
        _ => return false,
    }
    true
}

/// The result of an operation that gives the same for the same operands.
fn made(state: &State, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
    use Mnemonic::{And, Imul, Movsx, Movsxd, Movzx, Neg, Not, Or, Sar, Shl, Shr, Sub, Xor};
    let one = matches!(instruction.mnemonic(), Movsx | Movsxd | Movzx);
    if !(one || matches!(instruction.mnemonic(), And | Imul | Neg | Not | Or | Sar | Shl | Shr | Sub | Xor))
        || instruction.has_lock_prefix()
        || width(instruction, 0) < 4
    {
        return None;
    }
    let operands = instruction.op_count();
    // With one operand `imul` writes rax and rdx.
    if instruction.mnemonic() == Imul && operands < 2 {
        return None;
    }
    let first = if one || operands == 3 { 1 } else { 0 };
    let of = operand(state, instruction, first, nodes)?;
    let and = if one || operands < 2 { Value::constant(0) } else { operand(state, instruction, operands - 1, nodes)? };
    let by = instruction.mnemonic() as u16;
    // The widths of both operands are part of the operation.
    let bytes = (width(instruction, 0) * 16 + width(instruction, first)) as u8;
    let (of, and) = ((of.symbol, of.offset), (and.symbol, and.offset));
    Some(nodes.symbol(Node::Made { by, of, and, bytes }))
}

fn zero_extended(state: &State, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
    let bytes = width(instruction, 1);
    let value = operand(state, instruction, 1, nodes)?;
    match nodes.low(value, bytes) {
        Some(number) => Some(Value::constant(number)),
        // The register may hold more than the bytes that are taken.
        None if instruction.op1_kind() == OpKind::Register => None,
        None => Some(Value { zero: value.zero | !mask(bytes), ..value }),
    }
}

fn added(state: &State, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
    if width(instruction, 0) < 4 || instruction.has_lock_prefix() {
        return None;
    }
    let before = operand(state, instruction, 0, nodes)?;
    let by = match instruction.mnemonic() {
        Mnemonic::Inc => Value::constant(1),
        Mnemonic::Dec => Value::constant(u64::MAX),
        _ => operand(state, instruction, 1, nodes)?,
    };
    match (instruction.mnemonic() == Mnemonic::Sub, by.symbol) {
        (true, None) => Some(before.plus(by.offset.wrapping_neg())),
        (true, Some(_)) => None,
        (false, _) => Some(sum(before, by, 1, nodes)),
    }
}

fn masked(state: &State, instruction: &Instruction, nodes: &mut Nodes) -> Option<Value> {
    if instruction.has_lock_prefix() || width(instruction, 0) < 4 {
        return None;
    }
    let (before, by) = (operand(state, instruction, 0, nodes)?, operand(state, instruction, 1, nodes)?);
    let (before, by) = if before.symbol.is_none() { (by, before) } else { (before, by) };
    if by.symbol.is_some() {
        return None;
    }
    let bit = 1u64 << (by.offset & if width(instruction, 0) == 8 { 63 } else { 31 });
    let bits = match instruction.mnemonic() {
        Mnemonic::And => by.offset,
        Mnemonic::Btr => !bit,
        Mnemonic::Bts => bit,
        _ => by.offset,
    };
    if matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Bts) {
        let bits = bits & mask(width(instruction, 0));
        let or = Node::Or { of: before.symbol, offset: before.offset, bits };
        return Some(Value { zero: before.zero & !bits, ..nodes.symbol(or) });
    }
    if before.symbol.is_none() {
        return Some(Value::constant(before.offset & bits));
    }
    let by = Mnemonic::And as u16;
    let (of, bytes) = ((before.symbol, before.offset), width(instruction, 0) as u8);
    let result = nodes.symbol(Node::Made { by, of, and: (None, bits), bytes });
    Some(Value { zero: before.zero | !bits, ..result })
}

fn push(state: &mut State, instruction: &Instruction, nodes: &mut Nodes) -> bool {
    let value = operand(state, instruction, 0, nodes);
    state.registers[RSP] = state.registers[RSP].plus(8u64.wrapping_neg());
    if let Some(value) = value {
        state.store(state.registers[RSP], 8, value, nodes);
    }
    true
}

fn pop(state: &mut State, instruction: &Instruction, nodes: &mut Nodes) -> bool {
    let value = state.load(state.registers[RSP], 8, nodes);
    state.registers[RSP] = state.registers[RSP].plus(8);
    if instruction.op0_kind() == OpKind::Register {
        set(state, instruction.op0_register(), value, instruction.ip(), nodes);
    }
    true
}

/// What an instruction writes is unknown behind it.
fn forget(state: &mut State, instruction: &Instruction, later: bool, nodes: &mut Nodes) {
    let at = instruction.ip();
    if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
        && !instruction.is_jmp_short_or_near()
    {
        for register in OTHERS {
            unknown(state, *register, at, later, nodes);
        }
        return;
    }
    let stack = state.registers[RSP];
    let written = written(instruction);
    for (register, _) in written.iter().enumerate().filter(|(_, written)| **written) {
        unknown(state, register, at, later, nodes);
    }
    if super::access::may_write(instruction) {
        let address = address(state, instruction, nodes);
        let value = nodes.symbol(Node::Result { at, register: 18, later });
        state.store(address, width(instruction, 0), value, nodes);
    }
    if written[RSP] && instruction.is_stack_instruction() {
        state.registers[RSP] = stack.plus(i64::from(instruction.stack_pointer_increment()) as u64);
    }
}

/// The general registers that an instruction writes.
fn written(instruction: &Instruction) -> [bool; 16] {
    let mut written = [false; 16];
    FACTORY.with_borrow_mut(|factory| {
        for used in factory.info(instruction).used_registers() {
            let writes = !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead);
            if writes && used.register().is_gpr() {
                written[used.register().full_register().number()] = true;
            }
        }
    });
    written
}

fn same_register(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
        && instruction.op0_register().size() >= 4
}
