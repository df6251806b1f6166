//! What instructions of x86-64 do to memory.

use super::state::{address, operand};
use super::{RAX, number, width};
use crate::arch::{Access, Change, Flag, Shown};
use crate::values::{Nodes, State};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// See [`crate::arch::Architecture::may_acquire`].
pub(super) fn may_acquire(instruction: &Instruction) -> bool {
    let in_memory = |operand| instruction.op_count() > operand && instruction.op_kind(operand) == OpKind::Memory;
    match instruction.mnemonic() {
        Mnemonic::Xchg => in_memory(0) || in_memory(1),
        Mnemonic::Cmpxchg | Mnemonic::Bts | Mnemonic::Dec => in_memory(0) && instruction.has_lock_prefix(),
        _ => false,
    }
}

/// See [`crate::arch::Architecture::access`].
pub(super) fn access(instruction: &Instruction, state: &State, nodes: &mut Nodes) -> Option<Access> {
    if !may_write(instruction) {
        return None;
    }
    let bytes = width(instruction, 0);
    let is_atomic = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    let address = address(state, instruction, nodes);
    let change = change(instruction, bytes, state, nodes);
    let (old, shown) = match instruction.mnemonic() {
        Mnemonic::Xchg | Mnemonic::Xadd => (number(instruction.op1_register()), Shown::OldValue),
        Mnemonic::Cmpxchg => (Some(RAX), Shown::Flag(Flag::Zero)),
        Mnemonic::Dec => (None, Shown::Flag(Flag::Zero)),
        Mnemonic::Bts => (None, Shown::Flag(Flag::Carry)),
        _ => (None, Shown::OldValue),
    };
    Some(Access { address, bytes, change, is_atomic, old, shown, status: None, fails_to: None })
}

fn change(instruction: &Instruction, bytes: usize, state: &State, nodes: &mut Nodes) -> Change {
    let value = (instruction.op_count() > 1).then(|| operand(state, instruction, 1, nodes)).flatten();
    let known = value.and_then(|value| nodes.low(value, bytes));
    let is_number = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
    let bit = || known.map(|bit| 1u64 << (bit & if bytes == 8 { 63 } else { 31 }));
    match instruction.mnemonic() {
        Mnemonic::Mov => Change::Store { value, is_number },
        Mnemonic::Xchg => Change::Swap { new: value },
        Mnemonic::Cmpxchg => Change::CompareAndSwap { expected: state.registers[RAX], new: value },
        Mnemonic::And => Change::And { mask: value },
        Mnemonic::Btr => Change::Clear { bits: bit() },
        Mnemonic::Bts => Change::Set { bits: if is_number { bit() } else { None } },
        Mnemonic::Or => Change::Set { bits: None },
        Mnemonic::Add => Change::Count { by: known, is_up: true },
        Mnemonic::Sub => Change::Count { by: known, is_up: false },
        Mnemonic::Inc | Mnemonic::Xadd => Change::Count { by: None, is_up: true },
        Mnemonic::Dec => Change::Count { by: Some(1), is_up: false },
        _ => Change::Other,
    }
}

/// See [`crate::arch::Architecture::may_write`].
pub(super) fn may_write(instruction: &Instruction) -> bool {
    let has_operand = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory;
    let only_reads = matches!(
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
    );
    has_operand && !only_reads
}
