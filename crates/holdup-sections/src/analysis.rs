//! The whole analysis: every function that takes a lock, and those that get one from a function that they call.

use crate::arch::{Change, Flow, Instruction};
use crate::atomic::{Attempt, Word};
use crate::calls::CallSummaries;
use crate::decide::{Decision, decide};
use crate::flood::{self, Calls, Held};
use crate::function::{Function, Index};
use crate::note::Kind;
use crate::program::Program;
use crate::shipped::postgres;
use crate::values::State;
use holdup_model::sections::{Condition, LockWord, SectionRole, WordBase};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A piece of a section: from `begin` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) role: SectionRole,
    pub(crate) when: Option<Condition>,
    /// Which lock it is.
    pub(crate) word: Option<LockWord>,
}

/// One place that takes a lock, and where the lock is held from there.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The function that the place lies in.
    pub(crate) function: u64,
    /// The function whose source it is, when another was inlined.
    pub(crate) source: Option<String>,
    /// The instruction that takes it.
    pub(crate) taken_at: u64,
    /// What the lock is called behind the function's name.
    pub(crate) lock: String,
    /// The section's name, where a note declares it.
    pub(crate) declared: Option<String>,
    /// True if the lock is waited for in a loop with `pause`, or by a library's function for spin locks.
    pub(crate) spins: bool,
    /// In the order in which they are to be asked.
    pub(crate) pieces: Vec<Piece>,
    /// Addresses at which the lock is given back; empty where another function does that.
    pub(crate) released_at: Vec<u64>,
    /// Calls inside, by the address of the instruction.
    pub(crate) calls: Vec<u64>,
}

impl Found {
    fn waits(&self) -> bool {
        self.pieces.iter().any(|piece| piece.role == SectionRole::Waiter)
    }

    /// Becomes a part of a declared section, whose places are all one lock.
    pub(crate) fn join_declared(&mut self, section: String) {
        self.declared = Some(section);
        for piece in &mut self.pieces {
            piece.word = Some(LockWord { base: WordBase::Section, offset: 0, load: None });
        }
    }
}

/// The analysis of one binary.
pub(crate) struct Analysis<'a> {
    pub(crate) program: Program<'a>,
    pub(crate) known: CallSummaries,
    pub(crate) found: BTreeMap<u64, Vec<Found>>,
    /// By function: what was given up, and why.
    pub(crate) given_up: BTreeMap<u64, BTreeSet<String>>,
    /// Functions that take a lock for their callers, and as which declared lock each caller (the second) has it.
    received: BTreeMap<(u64, u64), BTreeSet<Option<usize>>>,
    rounds: BTreeMap<u64, u32>,
    open: VecDeque<u64>,
}

/// One place that takes a lock.
pub(crate) struct Taken {
    pub(crate) place: Index,
    pub(crate) word: Word,
    pub(crate) decision: Decision,
    /// The called function that takes it.
    by_call: Option<u64>,
    /// The called function of a library that takes it.
    by_import: Option<&'static str>,
}

impl Taken {
    /// One that the function takes itself.
    pub(crate) fn here(place: Index, word: Word, decision: Decision) -> Self {
        Taken { place, word, decision, by_call: None, by_import: None }
    }

    /// Where control continues when an attempt fails.
    pub(crate) fn failures(&self) -> BTreeSet<Index> {
        self.decision.failure.iter().map(|(_, to, _)| *to).collect()
    }

    /// Every place that takes the same lock.
    pub(crate) fn attempts(&self, all: &[Taken]) -> BTreeSet<Index> {
        all.iter().filter(|t| t.word.same(&self.word)).map(|t| t.place).collect()
    }
}

/// A function is looked at again when a function that it calls turns out to take a lock for it, so often.
const MOST_ROUNDS: u32 = 4;

/// More places of one function are not followed.
const MOST_TAKEN: usize = 200;

impl<'a> Analysis<'a> {
    /// The binary, with nothing looked at yet.
    pub(crate) fn without_locks(program: Program<'a>) -> Self {
        let known = CallSummaries::new(&program);
        let (found, given_up, received) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Analysis { program, known, found, given_up, received, rounds: BTreeMap::new(), open: VecDeque::new() }
    }

    /// Looks at every function of the binary that may take a lock; with `only_declared` at those alone that declare a
    /// point or spin, and at callers that get a lock from them. A large program has thousands of atomic operations, and to follow
    /// them all takes seconds: far too long for nothing, and minutes where the CPU is emulated.
    pub(crate) fn run(program: Program<'a>, only_declared: bool) -> Self {
        let mut analysis = Self::without_locks(program);
        let points = analysis.program.image.points.iter().filter_map(|p| analysis.program.image.fragment(p.address));
        let spinning = &analysis.program.spinning;
        let atomic = analysis.program.atomic.iter().filter(|it| !only_declared || spinning.contains(it));
        let calling = spinning.iter().filter(|it| !analysis.program.atomic.contains(it));
        let atomic = atomic.chain(calling).copied();
        let fragments: BTreeSet<usize> = atomic.chain(points).collect();
        let functions: BTreeSet<u64> =
            fragments.iter().flat_map(|fragment| analysis.program.owners(*fragment)).collect();
        // Functions that return with a lock first: their callers are then analysed once.
        for (name, _) in postgres::LOCKS {
            let symbols = analysis.program.image.symbols.get(*name).into_iter().flatten();
            analysis.open.extend(symbols.map(|symbol| symbol.address));
        }
        analysis.open.extend(functions.iter().filter(|f| !analysis.open.contains(f)).copied().collect::<Vec<_>>());
        while let Some(function) = analysis.open.pop_front() {
            let rounds = analysis.rounds.entry(function).or_default();
            *rounds += 1;
            if *rounds <= MOST_ROUNDS {
                analysis.analyse(function);
            }
        }
        analysis.join_what_callers_declare();
        analysis
    }

    fn give_up(&mut self, function: u64, why: String) {
        self.given_up.entry(function).or_default().insert(why);
    }

    fn analyse(&mut self, entry: u64) {
        self.given_up.remove(&entry);
        let mut function = match Function::read(&mut self.program, entry) {
            Ok(function) => function,
            Err(why) => return self.give_up(entry, why),
        };
        let taken = self.taken(&mut function);
        let takes = taken.iter().any(|one| one.by_call.is_none());
        self.known.name(&self.program, &mut function, takes);
        let mut found: Vec<(Found, &Taken)> = Vec::new();
        let cut = |word: &Word| -> BTreeSet<(Index, Index)> {
            let alike = taken.iter().filter(|t| t.word.alike(word));
            alike.flat_map(|t| t.decision.success.iter().map(|(from, to, _)| (*from, *to))).collect()
        };
        for one in &taken {
            match self.section(&mut function, one, &taken, &cut(&one.word)) {
                Ok(section) => found.push((section, one)),
                Err(why) => {
                    let at = function.step(one.place).instruction.ip;
                    self.give_up(entry, format!("the lock taken at {at:#x}: {why}"));
                }
            }
        }
        let found = self.join_declared(&function, found, &taken);
        self.found.insert(entry, found);
    }

    /// A lock that a note declares and that was also found is one: the note says where it is held, and what was found where it is
    /// waited for if the note does not.
    fn join_declared(&mut self, function: &Function, all: Vec<(Found, &Taken)>, taken: &[Taken]) -> Vec<Found> {
        self.received.retain(|(_, caller), _| *caller != function.entry);
        let points: Vec<(Index, usize)> = self
            .known
            .points(Kind::Acquired)
            .into_iter()
            .filter_map(|(at, lock)| Some((function.index(at)?, lock)))
            .collect();
        let declared_at = |one: &Taken| {
            let at_point = |(_, to, _): &(Index, Index, State)| {
                points.iter().find(|(point, _)| leads_straight(function, *to, *point)).map(|(_, lock)| *lock)
            };
            one.decision.success.iter().find_map(at_point)
        };
        let mut locks: Vec<(Word, usize)> = Vec::new();
        for one in taken.iter().filter(|one| matches!(one.word, Word::Memory { .. })) {
            let lock = declared_at(one);
            locks.extend(lock.map(|lock| (one.word, lock)));
            if let Some(callee) = one.by_call {
                self.received.entry((callee, function.entry)).or_default().insert(lock);
            }
        }
        let has_waits: BTreeSet<usize> = all
            .iter()
            .filter_map(|(found, one)| match one.word {
                Word::Declared(lock) if found.waits() => Some(lock),
                _ => None,
            })
            .collect();
        let joined = |(mut found, one): (Found, &Taken)| {
            let Some((_, lock)) = locks.iter().find(|(word, _)| word.same(&one.word)) else { return Some(found) };
            found.pieces.retain(|piece| piece.role == SectionRole::Waiter && piece.when.is_none());
            found.join_declared(self.known.declared_name(*lock));
            (!has_waits.contains(lock)).then_some(found)
        };
        all.into_iter().filter_map(joined).collect()
    }

    /// What takes a lock for its callers, all of which declare it as the same lock, waits for that lock.
    fn join_what_callers_declare(&mut self) {
        let callees: BTreeSet<u64> = self.received.keys().map(|(callee, _)| *callee).collect();
        for callee in callees {
            let of_callee = self.received.range((callee, 0)..=(callee, u64::MAX));
            let locks: BTreeSet<Option<usize>> = of_callee.flat_map(|(_, locks)| locks.iter().copied()).collect();
            if let [Some(lock)] = locks.into_iter().collect::<Vec<_>>()[..] {
                let section = self.known.declared_name(lock);
                let found = self.found.get_mut(&callee).into_iter().flatten();
                found.filter(|found| found.declared.is_none()).for_each(|found| found.join_declared(section.clone()));
            }
        }
    }

    /// Every place of a function that takes a lock.
    fn taken(&mut self, function: &mut Function) -> Vec<Taken> {
        let mut all = Vec::new();
        for place in 0..function.steps.len() as Index {
            let instruction = function.step(place).instruction;
            if function.arch.may_acquire(&instruction) {
                let Some(state) = function.state(place) else { continue };
                let access = function.arch.access(&instruction, &state, &mut function.nodes);
                let attempt = access.and_then(|access| crate::atomic::attempt(&access, &function.nodes));
                let Some(attempt) = attempt else { continue };
                match decide(function, place, state, &attempt) {
                    Ok(decision) => all.push(Taken::here(place, attempt.word, decision)),
                    // Bits that are set are a lock only where a branch looks at what they were.
                    Err(_) if access.is_some_and(|access| matches!(access.change, Change::Set { .. })) => {}
                    Err(why) => {
                        self.give_up(function.entry, format!("the atomic operation at {:#x}: {why}", instruction.ip));
                    }
                }
            } else if self.is_taking_call(&instruction)
                && let Some(state) = function.state(place)
                && let Some(word) = self.view().acquires(function, place, &state)
            {
                let mut after = state;
                function.arch.step(&instruction, &mut after, false, &mut function.nodes);
                let next = function.step(place).next.clone();
                let success = next.into_iter().map(|to| (place, to, after.clone())).collect();
                let decision = Decision { success, ..Decision::default() };
                let by_import = self.program.spin_lock(&instruction);
                all.push(Taken { place, word, decision, by_call: self.program.callee(&instruction), by_import });
            }
        }
        all.extend(crate::ticket::taken(function));
        only_awaited(function, &mut all);
        all.extend(self.declared(function));
        if all.len() > MOST_TAKEN {
            self.give_up(
                function.entry,
                format!("only {MOST_TAKEN} of {} places that take a lock are followed", all.len()),
            );
            all.truncate(MOST_TAKEN);
        }
        all
    }

    /// True if a call takes a lock for its caller.
    fn is_taking_call(&self, call: &Instruction) -> bool {
        let gives = |callee| self.known.gives.contains_key(&callee);
        matches!(call.flow, Flow::Call(_)) && self.program.callee(call).is_some_and(gives)
            || self.program.spin_lock(call).is_some()
    }

    /// The points of the note that lie in a function.
    fn declared(&mut self, function: &mut Function) -> Vec<Taken> {
        let mut all = Vec::new();
        let points: Vec<(u64, usize)> = self.known.points(Kind::Acquired);
        for (address, lock) in points {
            let Some(point) = function.index(address) else { continue };
            let word = Word::Declared(lock);
            let deciding = leading_to(function, point, &word);
            if !deciding.is_empty() {
                all.extend(deciding.into_iter().map(|(place, decision)| Taken::here(place, word, decision)));
            } else if let Some(state) = function.state(point) {
                let decision = Decision { success: vec![(point, point, state)], ..Decision::default() };
                all.push(Taken::here(point, word, decision));
            }
        }
        all
    }

    fn view(&mut self) -> crate::calls::View<'_, 'a> {
        crate::calls::View { known: &mut self.known, program: &mut self.program }
    }

    /// Where the lock of one place is held, and where it is waited for.
    fn section(
        &mut self,
        function: &mut Function,
        one: &Taken,
        all: &[Taken],
        cut: &BTreeSet<(Index, Index)>,
    ) -> Result<Found, String> {
        let starts: Vec<(Index, State)> = one.decision.success.iter().map(|(_, to, s)| (*to, s.clone())).collect();
        let mut held = flood::held(function, &one.word, &starts, &mut self.view())?;
        let entry = function.index(function.entry);
        let free = flood::without(function, entry.into_iter().chain(held.free_from.iter().copied()), cut);
        let waits = self.waits(function, one, one.attempts(all));
        let pauses = waits.iter().any(|at| function.arch.is_pause(&function.step(*at).instruction));
        let spins = pauses || one.by_import.is_some() || one.by_call.is_some_and(|f| self.known.spinning.contains(&f));
        if !held.returned_at.is_empty() {
            match self.returns_with_it(function, one, &held, &free) {
                Ok(()) if spins => _ = self.known.spinning.insert(function.entry),
                Ok(()) => {}
                // Points are exact up to where the ways with and without the lock meet; its callers may get it or not.
                Err(why) if matches!(one.word, Word::Declared(_)) => {
                    held.at.retain(|at| !free.contains(at));
                    self.give_up(function.entry, why);
                }
                Err(why) => return Err(why),
            }
        }
        // Where paths with and without the lock meet, the address does not decide. A note's points are exact.
        if !matches!(one.word, Word::Declared(_)) {
            let both = held.at.intersection(&free).count();
            if both > 0 {
                self.give_up(function.entry, format!("{both} instructions are reached with and without the lock"));
            }
            held.at.retain(|at| !free.contains(at));
        }
        for at in &held.released_by_call {
            self.known.note_partial(&self.program, function, *at, &one.word);
        }
        let mut found = Found {
            function: function.entry,
            taken_at: function.step(one.place).instruction.ip,
            source: self.source(function, one, all, &waits),
            lock: self.label(one).unwrap_or_default(),
            spins,
            declared: match one.word {
                Word::Declared(lock) => Some(self.known.declared_name(lock)),
                Word::Memory { .. } => None,
            },
            pieces: Vec::new(),
            released_at: Vec::new(),
            calls: Vec::new(),
        };
        pieces(function, one, &held, &waits, &mut found);
        Ok(found)
    }

    /// What the lock is called that another function takes.
    fn label(&self, one: &Taken) -> Option<String> {
        let by_call = || one.by_call.map(|callee| self.known.lock_label(callee));
        one.by_import.map(str::to_owned).or_else(by_call)
    }

    /// A function that always returns with the lock takes it for its caller.
    fn returns_with_it(
        &mut self,
        function: &mut Function,
        one: &Taken,
        held: &Held,
        free: &BTreeSet<Index>,
    ) -> Result<(), String> {
        let (place, result) = held.returned_at[0];
        let at = function.step(place).instruction.ip;
        if held.returned_at.iter().any(|(place, _)| free.contains(place)) {
            // Where a release of the same word is known, the way that misses it is one that a condition, the same as that
            // of the acquire, forbids; instructions that are also reached without the lock are left out anyway.
            if held.free_from.is_empty() {
                return Err(format!("the function returns at {at:#x} with it or without"));
            }
            return Ok(());
        }
        let given = crate::calls::ReturnedLock::of(function, &one.word, result);
        let Some(given) = given else { return Err(format!("the function returns at {at:#x} before a release")) };
        if !given.is_result() && !held.free_from.is_empty() {
            return Err(format!("the function returns at {at:#x} with it, and elsewhere releases it"));
        }
        let through = self.label(one);
        self.known.label(&self.program, function.entry, through);
        if self.known.gives.insert(function.entry, given).is_none() {
            let callers: Vec<u64> = self.program.callers(function.entry).collect();
            let fragments: BTreeSet<usize> =
                callers.iter().filter_map(|caller| self.program.image.fragment(*caller)).collect();
            for owner in fragments.into_iter().flat_map(|fragment| self.program.owners(fragment)) {
                if !self.open.contains(&owner) {
                    self.open.push_back(owner);
                }
            }
        }
        Ok(())
    }

    /// Where a failed attempt waits for the next.
    fn waits(&mut self, function: &mut Function, one: &Taken, mut again: BTreeSet<Index>) -> BTreeSet<Index> {
        let mut failures = one.failures();
        if let Word::Declared(lock) = one.word {
            failures = self.known.indexes(function, Kind::Waiting, lock);
            again = self.known.indexes(function, Kind::Acquired, lock);
            again.extend(self.known.indexes(function, Kind::NotWaiting, lock));
        } else if postgres::WAITS_FROM_ENTRY.contains(&self.program.name(function.entry).as_str()) {
            failures.extend(function.index(function.entry));
        }
        // The next attempt is itself waiting but for a declared point, which is reached when it is over.
        let declared = matches!(one.word, Word::Declared(_));
        match flood::waiting(function, &failures, &again) {
            Ok(waits) if declared => waits.difference(&again).copied().collect(),
            Ok(waits) => waits,
            Err(why) => {
                self.give_up(function.entry, why);
                BTreeSet::new()
            }
        }
    }

    /// The function whose source takes the lock: its argument of `s_lock`.
    fn source(&self, function: &mut Function, one: &Taken, all: &[Taken], waits: &BTreeSet<Index>) -> Option<String> {
        let calls = all.iter().filter(|t| t.by_call.is_some() && t.word.same(&one.word));
        let near: Vec<(Index, u64)> = calls.filter_map(|t| Some((t.place, t.by_call?))).collect();
        let own = |place: &Index| *place == one.place || waits.contains(place);
        let own = near.iter().find(|(place, _)| own(place)).or(near.first())?;
        if !postgres::WAITS_FROM_ENTRY.contains(&self.program.name(own.1).as_str()) {
            return None;
        }
        let register = function.arch.abi().arguments[postgres::NAME_ARGUMENT];
        let name = function.state(own.0)?.registers[register];
        if name.symbol.is_some() {
            return None;
        }
        let name = self.program.image.identifier(name.offset)?;
        (!postgres::INLINED.contains(&name)).then(|| name.to_owned())
    }

    /// The stack pointer's distance from the return address at every instruction of a function, bytes.
    pub(crate) fn stack_depths(&mut self, entry: u64) -> BTreeMap<u64, i64> {
        let Ok(mut function) = Function::read(&mut self.program, entry) else { return BTreeMap::new() };
        let mut depths = BTreeMap::new();
        let stack = usize::from(function.arch.abi().machine.stack());
        function.visit(|instruction, state, nodes| {
            if let Some(offset) = nodes.stack(state.registers[stack]) {
                depths.insert(instruction.ip, offset.wrapping_neg());
            }
        });
        depths
    }
}

/// Leaves out numbers that are compared, or counted down to zero, only once: those are no locks.
fn only_awaited(function: &Function, all: &mut Vec<Taken>) {
    let is_counter = |one: &Taken| matches!(one.word, Word::Memory { bits: 0, .. }) && one.by_call.is_none();
    let is_awaited = |one: &&Taken| {
        flood::waiting(function, &one.failures(), &one.attempts(all)).is_ok_and(|waits| !waits.is_empty())
    };
    let awaited: Vec<Word> = all.iter().filter(|one| is_counter(one)).filter(is_awaited).map(|one| one.word).collect();
    all.retain(|one| !is_counter(one) || awaited.iter().any(|word| word.same(&one.word)));
}

/// How many instructions may lie between the way that an atomic operation's success takes and a declared point.
const MOST_TO_A_POINT: usize = 24;

/// The atomic operations whose success leads straight to a declared point (the first try, and that of the loop that waits),
/// and what becomes of each: the lock is held from there, not from the point on.
fn leading_to(function: &mut Function, point: Index, word: &Word) -> Vec<(Index, Decision)> {
    let mut all = Vec::new();
    for place in 0..function.steps.len() as Index {
        let instruction = function.step(place).instruction;
        if !function.arch.may_acquire(&instruction) {
            continue;
        }
        let Some(state) = function.state(place) else { continue };
        let Some(access) = function.arch.access(&instruction, &state, &mut function.nodes) else { continue };
        let tests = match crate::atomic::attempt(&access, &function.nodes) {
            Some(attempt) => attempt.tests,
            None => crate::atomic::default_tests(&access, None),
        };
        let Ok(mut decision) = decide(function, place, state, &Attempt { word: *word, tests }) else { continue };
        decision.success.retain(|(_, to, _)| leads_straight(function, *to, point));
        if !decision.success.is_empty() {
            all.push((place, decision));
        }
    }
    all
}

fn leads_straight(function: &Function, from: Index, point: Index) -> bool {
    let mut at = from;
    for _ in 0..MOST_TO_A_POINT {
        if at == point {
            return true;
        }
        let step = function.step(at);
        match step.next[..] {
            [next] if !step.instruction.is_call() => at = next,
            _ => return false,
        }
    }
    false
}

/// How the lock's address shows, at every instruction of holders and waiters.
fn words(function: &mut Function, one: &Taken, held: &Held, waits: &BTreeSet<Index>) -> BTreeMap<Index, LockWord> {
    let abi = function.arch.abi();
    let mut words = held.words(&one.word, abi, &function.nodes);
    for at in waits.iter().chain(one.decision.undecided.keys()).chain(held.perhaps.keys()) {
        if !held.at.contains(at)
            && let Some(state) = function.state(*at)
            && let Some(word) = crate::word::shown(&one.word, &state, abi, &function.nodes)
        {
            words.insert(*at, word);
        }
    }
    words
}

/// The pieces of holders and waiters: first those with a condition, then the others.
fn pieces(function: &mut Function, one: &Taken, held: &Held, waits: &BTreeSet<Index>, found: &mut Found) {
    let words = words(function, one, held, waits);
    let function = &*function;
    let piece = |at: Index, role, when| {
        let instruction = &function.step(at).instruction;
        Piece { begin: instruction.ip, end: instruction.next_ip(), role, when, word: words.get(&at).copied() }
    };
    let failing_waits = one.decision.failure.iter().any(|(_, to, _)| waits.contains(to));
    for (&at, conditions) in &one.decision.undecided {
        if held.at.contains(&at) {
            continue;
        }
        let Some((last, before)) = conditions.split_last() else { continue };
        if failing_waits || waits.contains(&at) {
            let not = |c: &Condition| Condition { differs: !c.differs, ..*c };
            found.pieces.extend(before.iter().map(|c| piece(at, SectionRole::Waiter, Some(not(c)))));
        } else if !before.is_empty() {
            // Without a waiter before it, a second condition cannot be expressed.
            continue;
        }
        found.pieces.push(piece(at, SectionRole::Holder, Some(*last)));
        if failing_waits && !waits.contains(&at) {
            found.pieces.push(piece(at, SectionRole::Waiter, None));
        }
    }
    for (at, conditions) in &held.perhaps {
        if let [condition] = conditions[..]
            && !held.at.contains(at)
        {
            found.pieces.push(piece(*at, SectionRole::Holder, Some(condition)));
        }
    }
    if held.returned_at.is_empty() {
        found.released_at = held.released_at.iter().map(|at| function.step(*at).instruction.ip).collect();
        found.released_at.sort_unstable();
    }
    found.pieces.extend(held.at.iter().map(|at| piece(*at, SectionRole::Holder, None)));
    found.pieces.extend(waits.difference(&held.at).map(|at| piece(*at, SectionRole::Waiter, None)));
    found.calls.extend(one.by_import.map(|_| function.step(one.place).instruction.ip));
    for at in held.at.union(waits) {
        let step = function.step(*at);
        if (step.instruction.is_call() || matches!(step.instruction.flow, Flow::Helper(_)))
            && step.exit == crate::function::Exit::Stays
        {
            found.calls.push(step.instruction.ip);
        }
    }
}
