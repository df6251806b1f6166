//! From an acquire to the releases of the same lock, along every path; and from a failed attempt to the next.

use crate::arch::{Abi, Access, BranchOn, Change, Comparison, Flag, Flow};
use crate::atomic::{Attempt, Effect, Test, Word, attempt, default_tests, effect};
use crate::calls::accesses;
use crate::decide::decide;
use crate::function::{Exit, Function, Index};
use crate::values::{JoinedStates, Nodes, State, Value};
use holdup_model::sections::{Condition, LockWord};
use std::collections::{BTreeMap, BTreeSet};

/// What a called function does to a lock that its caller holds or wants.
pub(crate) trait Calls {
    /// True if the call at an instruction gives the lock back (or may).
    fn releases(&mut self, function: &mut Function, at: Index, state: &State, word: &Word) -> bool;
    /// The lock that the call at an instruction takes for its caller; `state` is before it.
    fn acquires(&mut self, function: &mut Function, at: Index, state: &State) -> Option<Word>;
    /// Whether a note declares that the lock is given back (or taken) at an address.
    fn declared(&self, address: u64, word: &Word) -> Effect;
}

/// Where a lock is held.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Instructions.
    pub(crate) at: BTreeSet<Index>,
    /// What is known there.
    states: JoinedStates,
    /// Where control continues without it.
    pub(crate) free_from: BTreeSet<Index>,
    /// Instructions between an atomic operation that may have given it back and the branch on that: it is still held where
    /// all of these conditions hold.
    pub(crate) perhaps: BTreeMap<Index, Vec<Condition>>,
    /// Calls that give it back.
    pub(crate) released_by_call: BTreeSet<Index>,
    /// Instructions that give it back, or declared points from which on it is not held.
    pub(crate) released_at: BTreeSet<Index>,
    /// Where the function returns with it, and what it returns there.
    pub(crate) returned_at: Vec<(Index, Value)>,
}

/// More instructions than this between an acquire and its release are not believed.
const MOST_HELD: usize = 3000;

/// A flood on its way.
struct Flood<'w> {
    word: &'w Word,
    held: Held,
    states: JoinedStates,
    waiting: BTreeSet<Index>,
    /// Branches that no program takes.
    never: BTreeSet<(Index, Index)>,
}

/// Follows every path from `starts`.
pub(crate) fn held(
    function: &mut Function,
    word: &Word,
    starts: &[(Index, State)],
    calls: &mut dyn Calls,
) -> Result<Held, String> {
    let (held, states) = (Held::default(), JoinedStates::default());
    let mut flood = Flood { word, held, states, waiting: BTreeSet::new(), never: BTreeSet::new() };
    for (number, (at, state)) in starts.iter().enumerate() {
        // Starts have numbers that no instruction has.
        flood.arrive(function, (Index::MAX - number as Index, *at), state);
    }
    let mut rounds = 0;
    while let Some(at) = flood.waiting.pop_first() {
        rounds += 1;
        if flood.states.len() > MOST_HELD || rounds > 8 * MOST_HELD {
            return Err(format!("no release within {MOST_HELD} instructions"));
        }
        let Some(state) = flood.states.get(at).cloned() else { continue };
        if !flood.ends(function, at, &state, calls)? {
            flood.advance(function, at, state)?;
        }
    }
    let (mut held, states) = (flood.held, flood.states);
    held.returned_at.dedup_by_key(|returned| returned.0);
    held.at = states.places().collect();
    held.states = states;
    Ok(held)
}

impl Held {
    /// How the lock's address shows where it is held.
    pub(crate) fn words(&self, word: &Word, abi: &Abi, nodes: &Nodes) -> BTreeMap<Index, LockWord> {
        let shown = |at: &Index| Some((*at, crate::word::shown(word, self.states.get(*at)?, abi, nodes)?));
        self.at.iter().filter_map(shown).collect()
    }
}

impl Flood<'_> {
    /// Whether the lock is given back at an instruction.
    fn ends(
        &mut self,
        function: &mut Function,
        at: Index,
        state: &State,
        calls: &mut dyn Calls,
    ) -> Result<bool, String> {
        let instruction = function.step(at).instruction;
        if calls.declared(instruction.ip, self.word) == Effect::Releases {
            // From this instruction on it is not held.
            self.states.remove(at);
            self.held.free_from.insert(at);
            self.held.released_at.insert(at);
            return Ok(true);
        }
        let [access, second] = accesses(function, &instruction, state);
        let of = |access| effect(access, self.word, &function.nodes);
        let effect = [access, second].iter().flatten().map(of).max().unwrap_or(Effect::None);
        match (effect, access) {
            (Effect::Releases, Some(access)) if may_fail(&access) => {
                self.held.released_at.insert(at);
                self.exchange(function, at, state, &access)?;
                return Ok(true);
            }
            // What may release another lock of the kind ends the section too: a section that is too short is better than one that is too long.
            (Effect::Releases | Effect::MayRelease, _) => {
                self.held.released_at.insert(at);
                self.held.free_from.extend(&function.step(at).next);
                return Ok(true);
            }
            (Effect::None, _) => {}
        }
        if access.and_then(|access| attempt(&access, &function.nodes)).is_some_and(|a| a.word.overlaps(self.word))
            || calls.acquires(function, at, state).is_some_and(|other| other.same(self.word))
        {
            return Err(format!("it is taken again at {:#x} before a release", instruction.ip));
        }
        let by_call = calls.releases(function, at, state, self.word);
        if by_call {
            self.held.free_from.extend(&function.step(at).next);
            self.held.released_by_call.insert(at);
            self.held.released_at.insert(at);
        }
        Ok(by_call)
    }

    fn advance(&mut self, function: &mut Function, at: Index, mut state: State) -> Result<(), String> {
        let (instruction, exit) = (function.step(at).instruction, function.step(at).exit);
        let ip = instruction.ip;
        match exit {
            Exit::Returns => self.held.returned_at.push((at, state.registers[function.arch.abi().result])),
            Exit::TailCall => return Err(format!("another function is entered at {ip:#x} before a release")),
            Exit::Unknown => return Err(format!("the jump at {ip:#x} leads to an unknown place")),
            Exit::NotKnown => return Err(format!("the instruction at {ip:#x} is not known")),
            Exit::Stays | Exit::Ends => {}
        }
        self.never.extend(impossible(function, at, &state, self.word));
        function.arch.step(&instruction, &mut state, true, &mut function.nodes);
        for next in function.step(at).next.clone() {
            if !self.never.contains(&(at, next)) {
                self.arrive(function, (at, next), &state);
            }
        }
        Ok(())
    }

    /// An operation that gives the lock back where it succeeds.
    fn exchange(&mut self, function: &mut Function, at: Index, state: &State, access: &Access) -> Result<(), String> {
        let ip = function.step(at).instruction.ip;
        let tests = if is_swap(access) { default_tests(access, None) } else { vec![Test::Status] };
        let release = Attempt { word: *self.word, tests };
        let decision = decide(function, at, state.clone(), &release)
            .map_err(|why| format!("whether {ip:#x} releases it: {why}"))?;
        for (place, conditions) in decision.undecided {
            let still = conditions.iter().map(|c| Condition { differs: !c.differs, ..*c }).collect();
            self.held.perhaps.insert(place, still);
        }
        self.held.free_from.extend(decision.success.into_iter().map(|(_, to, _)| to));
        for (_, to, state) in decision.failure {
            self.arrive(function, (at, to), &state);
        }
        Ok(())
    }

    fn arrive(&mut self, function: &mut Function, (from, to): (Index, Index), state: &State) {
        let ip = function.step(to).instruction.ip;
        let from = (from, function.repeats(from, to));
        if self.states.arrive(from, (to, ip), state, true, &mut function.nodes) {
            self.waiting.insert(to);
        }
    }
}

fn is_swap(access: &Access) -> bool {
    matches!(access.change, Change::CompareAndSwap { .. })
}

/// True if an operation may leave memory as it is.
fn may_fail(access: &Access) -> bool {
    is_swap(access) || access.status.is_some()
}

/// The way of a branch on the lock's own address being null, which is never taken: no lock lies at null.
fn impossible(function: &mut Function, at: Index, state: &State, word: &Word) -> Option<(Index, Index)> {
    let Word::Memory { address, .. } = word else { return None };
    let (instruction, arch) = (function.step(at).instruction, function.arch);
    let comparison = arch.comparison(&instruction, state, &mut function.nodes);
    let (value, branch, taken_when_null) = match (comparison, arch.branch_on(&instruction)) {
        (_, Some(BranchOn::Register { register, bits: u64::MAX, taken_when_zero })) => {
            (state.registers[register], at, taken_when_zero)
        }
        (Some(Comparison { value, bits: u64::MAX, flag: Flag::Zero, .. }), _) => {
            let [branch] = function.step(at).next[..] else { return None };
            let on = arch.branch_on(&function.step(branch).instruction)?;
            let BranchOn::Flag { flag: Flag::Zero, taken_when_set } = on else { return None };
            (value, branch, taken_when_set)
        }
        _ => return None,
    };
    let near =
        value.symbol.is_some() && value.symbol == address.symbol && address.offset.wrapping_sub(value.offset) < 1 << 16;
    let jump = &function.step(branch).instruction;
    let Flow::Branch(target) = jump.flow else { return None };
    let when_null = if taken_when_null { target } else { jump.next_ip() };
    Some((branch, near.then(|| function.index(when_null)).flatten()?))
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

/// Instructions on the paths from failed attempts to the next attempt (`again`), those included.
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
