//! Ticket locks: `lock xadd` draws a number from one counter, and the task whose number another counter shows has the lock
//! (Mellor-Crummey and Scott 1991, section 2.2).

use crate::analysis::Taken;
use crate::atomic::{Attempt, Test, Word};
use crate::decide::decide;
use crate::flood;
use crate::function::{Function, Index};
use crate::values::{Node, Nodes, State, Value, number};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// The two counters lie no further apart than this, bytes.
const FARTHEST: u64 = 4096;

/// A counter that gives out numbers.
struct Dispenser {
    address: Value,
    /// The number that was drawn.
    number: Value,
}

/// The comparisons of a function that a ticket lock is waited for by.
pub(crate) fn taken(function: &mut Function) -> Vec<Taken> {
    let dispensers = dispensers(function);
    if dispensers.is_empty() {
        return Vec::new();
    }
    let mut all = Vec::new();
    for place in 0..function.steps.len() as Index {
        let instruction = function.step(place).instruction;
        if instruction.mnemonic() != Mnemonic::Cmp {
            continue;
        }
        let Some(state) = function.state(place) else { continue };
        let Some(word) = turn(&instruction, &state, &dispensers, &mut function.nodes) else { continue };
        let attempt = Attempt { word, tests: vec![Test::ZeroFlag] };
        if let Ok(decision) = decide(function, place, state, &attempt) {
            all.push(Taken::here(place, word, decision));
        }
    }
    // A number that is compared once is no ticket.
    let is_waited_for = |one: &&Taken| {
        flood::waiting(function, &one.failures(), &one.attempts(&all)).is_ok_and(|waits| !waits.is_empty())
    };
    let awaited: Vec<Word> = all.iter().filter(is_waited_for).map(|one| one.word).collect();
    all.retain(|one| awaited.iter().any(|word| word.same(&one.word)));
    all
}

fn dispensers(function: &mut Function) -> Vec<Dispenser> {
    let mut all = Vec::new();
    for place in 0..function.steps.len() as Index {
        let instruction = function.step(place).instruction;
        if instruction.mnemonic() != Mnemonic::Xadd || !instruction.has_lock_prefix() {
            continue;
        }
        let (Some(state), Some(register)) = (function.state(place), number(instruction.op1_register())) else {
            continue;
        };
        let address = state.address(&instruction, &mut function.nodes);
        let mut after = state;
        after.step(&instruction, false, &mut function.nodes);
        all.push(Dispenser { address, number: after.registers[register] });
    }
    all
}

/// The counter that a drawn number is compared with.
fn turn(compare: &Instruction, state: &State, dispensers: &[Dispenser], nodes: &mut Nodes) -> Option<Word> {
    if compare.op0_kind() != OpKind::Register && compare.op1_kind() != OpKind::Register {
        return None;
    }
    let (a, b) = (state.operand(compare, 0, nodes)?, state.operand(compare, 1, nodes)?);
    dispensers.iter().find_map(|dispenser| {
        let counter = match (a.same(dispenser.number), b.same(dispenser.number)) {
            (true, false) => b,
            (false, true) => a,
            _ => return None,
        };
        let Node::Load { base, offset, bytes } = nodes.node(counter.symbol?)? else { return None };
        let apart = offset.wrapping_sub(dispenser.address.offset) as i64;
        let near = base == dispenser.address.symbol && apart != 0 && apart.unsigned_abs() <= FARTHEST;
        let address = Value { symbol: base, offset, zero: 0 };
        (near && counter.offset == 0).then_some(Word::Memory { address, bits: 0, bytes: usize::from(bytes) })
    })
}
