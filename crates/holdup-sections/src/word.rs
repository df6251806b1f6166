//! How the address of a lock's word shows in the registers of a task.

use crate::arch::Abi;
use crate::atomic::Word;
use crate::values::{Node, Nodes, State, Symbol, Value, mask};
use holdup_model::sections::{LockWord, WordBase};

/// The address of the word as a task in this state has it; `None` where no register leads there. What is reached by the stack
/// pointer comes first, which is known of callers too; then what calls keep, which ways that meet have alike more often.
pub(crate) fn shown(word: &Word, state: &State, abi: &Abi, nodes: &Nodes) -> Option<LockWord> {
    let Word::Memory { address, .. } = *word else {
        return Some(LockWord { base: WordBase::Section, offset: 0, load: None });
    };
    let plain = |(base, offset)| LockWord { base, offset, load: None };
    let known = reached(address, state, &[usize::from(abi.machine.stack())]).map(plain).or_else(|| {
        let (offset, kept) = state.kept_on_stack(address, nodes)?;
        let load = Some(address.offset.wrapping_sub(kept.offset) as i64);
        Some(LockWord { base: WordBase::Register(abi.machine.stack()), offset, load })
    });
    let pointer = match nodes.node(address.symbol.unwrap_or(Symbol::MAX)) {
        Some(Node::Load { base, offset, bytes: 8 }) => Some(Value { symbol: base, offset, zero: 0 }),
        _ => None,
    };
    let by = |registers: &[usize]| {
        let loaded = |(base, offset)| LockWord { base, offset, load: Some(address.offset as i64) };
        let by_pointer = || pointer.and_then(|pointer| reached(pointer, state, registers)).map(loaded);
        reached(address, state, registers).map(plain).or_else(by_pointer)
    };
    known.or_else(|| by(abi.kept)).or_else(|| by(abi.others))
}

/// An address as it is, or by one of these registers.
fn reached(address: Value, state: &State, registers: &[usize]) -> Option<(WordBase, i64)> {
    let Some(symbol) = address.symbol else { return Some((WordBase::File, address.offset as i64)) };
    let leads = |register: &&usize| {
        let value = state.registers[**register];
        value.symbol == Some(symbol) && value.zero & !mask(4) == 0
    };
    let register = *registers.iter().find(leads)?;
    let offset = address.offset.wrapping_sub(state.registers[register].offset) as i64;
    Some((WordBase::Register(register as u8), offset))
}
