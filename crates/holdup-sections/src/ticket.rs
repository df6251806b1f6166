//! Ticket locks: an atomic addition draws a number from one counter, and the task whose number another counter shows has the lock
//! (Mellor-Crummey and Scott 1991, section 2.2).

use crate::analysis::Taken;
use crate::arch::{Access, Change};
use crate::atomic::{Attempt, Test, Word};
use crate::decide::decide;
use crate::function::{Function, Index};
use crate::values::{Node, Nodes, Value};

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
        let Some(state) = function.state(place) else { continue };
        let Some(compared) = function.arch.compared(&instruction, &state, &mut function.nodes) else { continue };
        let Some(word) = turn(compared, &dispensers, &function.nodes) else { continue };
        let attempt = Attempt { word, tests: vec![Test::ZeroFlag] };
        if let Ok(decision) = decide(function, place, state, &attempt) {
            all.push(Taken::here(place, word, decision));
        }
    }
    all
}

fn dispensers(function: &mut Function) -> Vec<Dispenser> {
    let mut all = Vec::new();
    for place in 0..function.steps.len() as Index {
        let instruction = function.step(place).instruction;
        if !function.arch.may_count(&instruction) {
            continue;
        }
        let Some(mut state) = function.state(place) else { continue };
        let access = function.arch.access(&instruction, &state, &mut function.nodes);
        let Some(Access { address, change: Change::Count { .. }, old: Some(old), .. }) = access else { continue };
        function.arch.step(&instruction, &mut state, false, &mut function.nodes);
        all.push(Dispenser { address, number: state.registers[old] });
    }
    all
}

/// The counter that a drawn number is compared with.
fn turn((a, b): (Value, Value), dispensers: &[Dispenser], nodes: &Nodes) -> Option<Word> {
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
