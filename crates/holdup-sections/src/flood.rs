//! From where a lock is held to where it is given back, along every way; and from a failed attempt to the next.

use crate::atomic::{Attempt, Effect, Test, Word, attempt, effect};
use crate::decide::decide;
use crate::function::{Exit, Function, Index};
use crate::values::{Places, State, Value, number};
use holdup_model::sections::Condition;
use iced_x86::{ConditionCode, Mnemonic, OpKind};
use std::collections::{BTreeMap, BTreeSet};

/// What a called function does to a lock that its caller holds or wants.
pub(crate) trait Calls {
    /// Whether the call at an instruction gives the lock back (or may).
    fn releases(&mut self, function: &mut Function, at: Index, state: &State, word: &Word) -> bool;
    /// The lock that the call at an instruction takes for its caller; `state` is what is known before it.
    fn acquires(&mut self, function: &mut Function, at: Index, state: &State) -> Option<Word>;
    /// Whether a note declares that the lock is given back (or taken) at an address.
    fn declared(&self, address: u64, word: &Word) -> Effect;
}

/// Where a lock is held.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Instructions.
    pub(crate) at: BTreeSet<Index>,
    /// Where control goes on without it.
    pub(crate) free_from: BTreeSet<Index>,
    /// Instructions between an atomic operation that may have given it back and the branch on that: it is still held where
    /// all of these conditions hold.
    pub(crate) perhaps: BTreeMap<Index, Vec<Condition>>,
    /// Calls that give it back.
    pub(crate) released_by_call: BTreeSet<Index>,
    /// Where the function returns with it, and what rax is there.
    pub(crate) returned_at: Vec<(Index, Value)>,
}

/// More instructions than this between an acquire and its release are not believed.
const MOST_HELD: usize = 3000;

/// Follows every way from `starts`.
///
/// # Errors
/// Why it cannot be told where the lock is given back.
pub(crate) fn held(
    function: &mut Function,
    word: &Word,
    starts: &[(Index, State)],
    calls: &mut dyn Calls,
) -> Result<Held, String> {
    let mut held = Held::default();
    let mut states = Places::default();
    let mut waiting = BTreeSet::new();
    for (number, (at, state)) in starts.iter().enumerate() {
        // Starts are told apart from instructions by numbers that none has.
        arrive(function, &mut states, &mut waiting, (Index::MAX - number as Index, *at), state);
    }
    let mut never: BTreeSet<(Index, Index)> = BTreeSet::new();
    let mut rounds = 0;
    while let Some(at) = waiting.pop_first() {
        rounds += 1;
        let ip = function.step(at).instruction.ip();
        if states.len() > MOST_HELD || rounds > 8 * MOST_HELD {
            return Err(format!("no release within {MOST_HELD} instructions"));
        }
        let Some(mut state) = states.get(at).cloned() else { continue };
        let (instruction, exit) = (function.step(at).instruction, function.step(at).exit);
        if calls.declared(ip, word) == Effect::Releases {
            // From this instruction on it is not held.
            states.remove(at);
            held.free_from.insert(at);
            continue;
        }
        match effect(&instruction, word, &state, &mut function.nodes) {
            Effect::Releases => {
                if instruction.mnemonic() == Mnemonic::Cmpxchg {
                    let (free, still) = exchange(function, at, state, word, &mut held)?;
                    held.free_from.extend(free);
                    for (to, state) in still {
                        arrive(function, &mut states, &mut waiting, (at, to), &state);
                    }
                } else {
                    held.free_from.extend(&function.step(at).next);
                }
                continue;
            }
            // It may be another lock of the kind: then the end of this section is missed, which is better than to go on.
            Effect::MayRelease => {
                held.free_from.extend(&function.step(at).next);
                continue;
            }
            Effect::None => {}
        }
        if attempt(&instruction, &state, &mut function.nodes).is_some_and(|a| a.word.same(word))
            || calls.acquires(function, at, &state).is_some_and(|other| other.same(word))
        {
            return Err(format!("it is taken again at {ip:#x} before a release"));
        }
        if calls.releases(function, at, &state, word) {
            held.free_from.extend(&function.step(at).next);
            held.released_by_call.insert(at);
            continue;
        }
        match exit {
            Exit::Returns => held.returned_at.push((at, state.registers[crate::values::RAX])),
            Exit::TailCall => return Err(format!("another function is entered at {ip:#x} before a release")),
            Exit::Unknown => return Err(format!("the jump at {ip:#x} leads to an unknown place")),
            Exit::Stays | Exit::Ends => {}
        }
        if let Some(to) = impossible(function, at, &state, word)
            && let [branch] = function.step(at).next[..]
        {
            never.insert((branch, to));
        }
        state.step(&instruction, true, &mut function.nodes);
        for next in function.step(at).next.clone() {
            if never.contains(&(at, next)) {
                continue;
            }
            arrive(function, &mut states, &mut waiting, (at, next), &state);
        }
    }
    held.returned_at.dedup_by_key(|returned| returned.0);
    held.at = states.places().collect();
    Ok(held)
}

/// A compare-and-swap that gives the lock back where it succeeds: where control goes on without it, and where with it.
fn exchange(
    function: &mut Function,
    at: Index,
    state: State,
    word: &Word,
    held: &mut Held,
) -> Result<(Vec<Index>, Vec<(Index, State)>), String> {
    let ip = function.step(at).instruction.ip();
    let release = Attempt { word: *word, tests: vec![Test::ZeroFlag] };
    let decision =
        decide(function, at, state, &release).map_err(|why| format!("whether {ip:#x} releases it: {why}"))?;
    for (place, conditions) in decision.undecided {
        let still = conditions.iter().map(|c| Condition { differs: !c.differs, ..*c }).collect();
        held.perhaps.insert(place, still);
    }
    let free = decision.success.into_iter().map(|(_, to, _)| to).collect();
    Ok((free, decision.failure.into_iter().map(|(_, to, state)| (to, state)).collect()))
}

/// The way of two that a test of the lock's own address for null would take if it were: nobody holds a lock at null.
fn impossible(function: &Function, at: Index, state: &State, word: &Word) -> Option<Index> {
    let Word::Memory { address, .. } = word else { return None };
    let test = &function.step(at).instruction;
    let compares = match test.mnemonic() {
        Mnemonic::Test => test.op0_register() == test.op1_register(),
        Mnemonic::Cmp => {
            test.op1_kind() != OpKind::Memory && test.op1_kind() != OpKind::Register && test.immediate(1) == 0
        }
        _ => false,
    };
    if !compares || test.op0_kind() != OpKind::Register || test.op0_register().size() != 8 {
        return None;
    }
    let value = state.registers[number(test.op0_register())?];
    let [branch] = function.step(at).next[..] else { return None };
    let near =
        value.symbol.is_some() && value.symbol == address.symbol && address.offset.wrapping_sub(value.offset) < 1 << 16;
    let jump = &function.step(branch).instruction;
    let when_null = match jump.condition_code() {
        ConditionCode::e => jump.near_branch_target(),
        ConditionCode::ne => jump.next_ip(),
        _ => return None,
    };
    near.then(|| function.index(when_null)).flatten()
}

fn arrive(
    function: &mut Function,
    states: &mut Places,
    waiting: &mut BTreeSet<Index>,
    (from, to): (Index, Index),
    state: &State,
) {
    let ip = function.step(to).instruction.ip();
    if states.arrive(from, (to, ip), state, true, &mut function.nodes) {
        waiting.insert(to);
    }
}

/// Instructions that can be reached without the lock: from the entry, and from where it is given back, but not over the
/// ways in `cut`.
pub(crate) fn without(
    function: &Function,
    starts: impl IntoIterator<Item = Index>,
    cut: &BTreeSet<(Index, Index)>,
) -> BTreeSet<Index> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<Index> = starts.into_iter().collect();
    while let Some(at) = waiting.pop() {
        if seen.insert(at) {
            let next = function.step(at).next.iter().copied();
            waiting.extend(next.filter(|to| !cut.contains(&(at, *to))));
        }
    }
    seen
}

/// More instructions than this between two attempts are no waiting.
const MOST_WAITING: usize = 400;

/// Instructions on the ways from failed attempts to the next attempt (`again`), those included.
///
/// # Errors
/// When the next attempt is too far away.
pub(crate) fn waiting(
    function: &Function,
    failures: &BTreeSet<Index>,
    again: &BTreeSet<Index>,
) -> Result<BTreeSet<Index>, String> {
    let mut before: BTreeMap<Index, Vec<Index>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<Index> = failures.iter().copied().collect();
    let mut ends = Vec::new();
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        if seen.len() > MOST_WAITING {
            return Err(format!("no further attempt within {MOST_WAITING} instructions"));
        }
        if again.contains(&at) {
            ends.push(at);
            continue;
        }
        for &next in &function.step(at).next {
            before.entry(next).or_default().push(at);
            open.push(next);
        }
    }
    let mut waits = BTreeSet::new();
    while let Some(at) = ends.pop() {
        if seen.contains(&at) && waits.insert(at) {
            ends.extend(before.get(&at).into_iter().flatten().copied());
        }
    }
    Ok(waits)
}
