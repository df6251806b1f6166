//! What called functions do to locks: some take one for their caller, some release their caller's.

use crate::arch::{Abi, Access, Change, Flow, Instruction};
use crate::atomic::{Effect, Word, effect};
use crate::flood::Calls;
use crate::function::{Function, Index};
use crate::note::{Kind, Point};
use crate::program::Program;
use crate::shipped::{self, postgres};
use crate::values::{Node, State, Value, mask};
use std::collections::{BTreeMap, BTreeSet};

/// The lock that a function returns with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReturnedLock {
    place: LockAddress,
    bits: u64,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockAddress {
    /// At an offset from what a register held at entry.
    Argument(u8, u64),
    /// At one address.
    Fixed(u64),
    /// At an offset from what the function returns.
    Result(u64),
    /// As a note declares.
    Declared(usize),
}

impl ReturnedLock {
    /// What a function that returns `result` gives its caller, when it holds `word` then.
    pub(crate) fn of(function: &Function, word: &Word, result: Value) -> Option<Self> {
        let Word::Memory { address, bits, bytes } = *word else {
            let Word::Declared(lock) = *word else { return None };
            return Some(ReturnedLock { place: LockAddress::Declared(lock), bits: 0, bytes: 0 });
        };
        let place = match function.nodes.entry(address) {
            Some((register, offset)) if register != function.arch.abi().machine.stack() => {
                LockAddress::Argument(register, offset)
            }
            _ if address.symbol.is_none() => LockAddress::Fixed(address.offset),
            _ if address.symbol.is_some() && address.symbol == result.symbol => {
                LockAddress::Result(address.offset.wrapping_sub(result.offset))
            }
            _ => return None,
        };
        Some(ReturnedLock { place, bits, bytes })
    }

    /// True if the lock is reached through what the function returns.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self.place, LockAddress::Result(_))
    }
}

/// What the functions of a binary do to locks, and their names.
#[derive(Default)]
pub(crate) struct CallSummaries {
    /// Functions that take a lock for their caller.
    pub(crate) gives: BTreeMap<u64, ReturnedLock>,
    /// Functions that were read, and which of their instructions store where an argument leads.
    stores: BTreeMap<u64, Option<(Function, Vec<Index>)>>,
    /// Functions that release their caller's lock: where they still hold it.
    pub(crate) partial: BTreeMap<u64, BTreeSet<(u64, u64)>>,
    /// Names of functions without a symbol, found otherwise.
    names: BTreeMap<u64, String>,
    /// Names of the locks that functions take for their callers.
    labels: BTreeMap<u64, String>,
    /// Functions of these that wait in a loop with `pause`.
    pub(crate) spinning: BTreeSet<u64>,
    /// Declared locks: name and number.
    locks: Vec<(String, u32)>,
    /// Declared points by address.
    points: BTreeMap<u64, BTreeSet<(Kind, usize)>>,
}

impl CallSummaries {
    pub(crate) fn new(program: &Program<'_>) -> Self {
        let mut known = CallSummaries::default();
        let lock_of = |point: &Point| (point.section.clone(), point.lock);
        let locks: BTreeSet<(String, u32)> = program.image.points.iter().map(lock_of).collect();
        known.locks = locks.into_iter().collect();
        for point in &program.image.points {
            if let Ok(lock) = known.locks.binary_search(&lock_of(point)) {
                known.points.entry(point.address).or_default().insert((point.kind, lock));
            }
        }
        for (caller, called) in postgres::PASS_ON {
            known.names.extend(passed_on(program, caller).map(|entry| (entry, (*called).to_owned())));
        }
        known
    }

    /// Addresses and locks of the declared points of a kind.
    pub(crate) fn points(&self, kind: Kind) -> Vec<(u64, usize)> {
        let all = self.points.iter().flat_map(|(at, here)| here.iter().map(move |(kind, lock)| (*at, *kind, *lock)));
        all.filter(|point| point.1 == kind).map(|(at, _, lock)| (at, lock)).collect()
    }

    /// Where points of a kind and a lock lie in a function.
    pub(crate) fn indexes(&self, function: &Function, kind: Kind, lock: usize) -> BTreeSet<Index> {
        let points = self.points(kind).into_iter().filter(|point| point.1 == lock);
        points.filter_map(|(at, _)| function.index(at)).collect()
    }

    pub(crate) fn declared_name(&self, lock: usize) -> String {
        self.locks.get(lock).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// The name of a function, with what was found for those without a symbol.
    pub(crate) fn name_of(&self, program: &Program<'_>, function: u64) -> String {
        self.names.get(&function).cloned().unwrap_or_else(|| program.name(function))
    }

    /// The name of the lock that a function returns with.
    pub(crate) fn lock_label(&self, callee: u64) -> String {
        self.labels.get(&callee).cloned().unwrap_or_default()
    }

    /// Names the lock that a function returns with: like the one that it got `through` a call, or its own.
    pub(crate) fn label(&mut self, program: &Program<'_>, function: u64, through: Option<String>) {
        let name = self.name_of(program, function);
        let known = postgres::LOCKS.iter().find(|(lock, _)| name == *lock);
        let label = known.map(|(_, label)| (*label).to_owned()).or(through).unwrap_or(name);
        self.labels.insert(function, label);
    }

    /// Looks for the name of a function that has no symbol: PostgreSQL's spin delay and its error reports carry the name
    /// of the function in the source. The delay's is its own when it `takes` a lock itself; a report's may be that of an
    /// inlined function, and is only put behind the address.
    pub(crate) fn name(&mut self, program: &Program<'_>, function: &mut Function, takes: bool) {
        let fragment = program.image.fragment_at(function.entry);
        let large = function.steps.len() > MOST_CALLED;
        if large || self.names.contains_key(&function.entry) || fragment.is_none_or(|f| f.name.is_some()) {
            return;
        }
        let (mut delays, mut reports) = (BTreeSet::new(), BTreeSet::new());
        for place in 0..function.steps.len() as Index {
            let instruction = function.step(place).instruction;
            let name_at = |value: Value| match value.symbol {
                None => program.image.identifier(value.offset).map(str::to_owned),
                Some(_) => None,
            };
            if let Flow::Call(_) = instruction.flow {
                let Some(callee) = program.callee(&instruction) else { continue };
                if program.name(callee) == postgres::REPORT_ENDS
                    && let Some(state) = function.state(place)
                {
                    reports.extend(name_at(state.registers[function.arch.abi().arguments[2]]));
                }
            } else if function.arch.may_write(&instruction)
                && let Some(state) = function.state(place)
            {
                for access in accesses(function, &instruction, &state).into_iter().flatten() {
                    if let Access { bytes: 8, change: Change::Store { value: Some(value), is_number: false }, .. } =
                        access
                        && function.nodes.stack(access.address).is_some()
                    {
                        delays.extend(name_at(value));
                    }
                }
            }
        }
        if let (true, 1, Some(name)) = (takes, delays.len(), delays.first()) {
            self.names.insert(function.entry, name.clone());
        } else if let (1, Some(name)) = (reports.len(), reports.first()) {
            self.names.insert(function.entry, format!("{} ({name})", program.name(function.entry)));
        }
    }

    /// A called function and its stores through arguments or to fixed places.
    fn read(&mut self, program: &mut Program<'_>, entry: u64) -> Option<&mut (Function, Vec<Index>)> {
        let read = || {
            let mut function = Function::read(program, entry).ok().filter(|f| f.steps.len() <= MOST_CALLED)?;
            let stores = (0..function.steps.len() as Index).filter(|at| is_store(&mut function, *at)).collect();
            Some((function, stores))
        };
        self.stores.entry(entry).or_insert_with(read).as_mut()
    }

    /// Where a called function that gives the lock back still holds it.
    pub(crate) fn note_partial(&mut self, program: &Program<'_>, function: &mut Function, at: Index, word: &Word) {
        let instruction = function.step(at).instruction;
        let Some(callee) = program.callee(&instruction) else { return };
        let Some(state) = function.state(at) else { return };
        let Some(Some((called, _))) = self.stores.get_mut(&callee) else { return };
        let held = translate(function, called, &state, word).and_then(|word| {
            let start = called.index(called.entry)?;
            let state = called.state(start)?;
            let mut nothing = Nothing;
            crate::flood::held(called, &word, &[(start, state)], &mut nothing).ok()
        });
        let ranges = self.partial.entry(callee).or_default();
        let Some(held) = held.filter(|held| held.returned_at.is_empty()) else { return };
        let free = crate::flood::without(called, held.free_from.iter().copied(), &BTreeSet::new());
        ranges.extend(held.at.difference(&free).map(|at| {
            let instruction = &called.step(*at).instruction;
            (instruction.ip, instruction.next_ip())
        }));
    }
}

/// The one or two writes of an instruction.
pub(crate) fn accesses(function: &mut Function, instruction: &Instruction, state: &State) -> [Option<Access>; 2] {
    let (arch, nodes) = (function.arch, &mut function.nodes);
    [arch.access(instruction, state, nodes), arch.second_access(instruction, state, nodes)]
}

/// Larger called functions are not searched for a release.
const MOST_CALLED: usize = 3000;

fn is_store(function: &mut Function, at: Index) -> bool {
    let instruction = function.step(at).instruction;
    if !function.arch.may_write(&instruction) {
        return false;
    }
    let Some(state) = function.state(at) else { return false };
    let all = accesses(function, &instruction, &state);
    all.into_iter().flatten().any(|access| function.nodes.stack(access.address).is_none())
}

/// Called functions that do nothing to locks.
struct Nothing;

impl Calls for Nothing {
    fn releases(&mut self, _: &mut Function, _: Index, _: &State, _: &Word) -> bool {
        false
    }
    fn acquires(&mut self, _: &mut Function, _: Index, _: &State) -> Option<Word> {
        None
    }
    fn declared(&self, _: u64, _: &Word) -> Effect {
        Effect::None
    }
}

/// The same lock word as a called function sees it.
fn translate(caller: &Function, called: &mut Function, state: &State, word: &Word) -> Option<Word> {
    let Word::Memory { address, bits, bytes } = *word else { return Some(*word) };
    Some(Word::Memory { address: seen_by(caller, called, state, address, 4)?, bits, bytes })
}

/// A number below this is no address.
const LEAST_ADDRESS: u64 = 4096;

fn seen_by(caller: &Function, called: &mut Function, state: &State, value: Value, depth: u32) -> Option<Value> {
    for &register in caller.arch.abi().arguments {
        let argument = state.registers[register];
        // A fixed address is passed as itself, or as that of the structure around it.
        let fits = || argument.offset >= LEAST_ADDRESS && value.offset.wrapping_sub(argument.offset) < LEAST_ADDRESS;
        if argument.symbol == value.symbol && (value.symbol.is_some() || fits()) {
            let entry = called.nodes.symbol(Node::Entry(register as u8));
            return Some(entry.plus(value.offset.wrapping_sub(argument.offset)));
        }
    }
    let Some(symbol) = value.symbol else { return Some(value) };
    match caller.nodes.node(symbol)? {
        Node::Load { base, offset, bytes } if depth > 0 => {
            let base = Value { symbol: base, offset, zero: 0 };
            let base = seen_by(caller, called, state, base, depth - 1)?;
            let load = Node::Load { base: base.symbol, offset: base.offset, bytes };
            Some(called.nodes.symbol(load).plus(value.offset))
        }
        _ => None,
    }
}

/// The lock that is the first argument of a call.
pub(crate) fn spin_lock(state: &State, abi: &Abi) -> Word {
    Word::Memory {
        address: state.registers[abi.arguments[0]],
        bits: mask(shipped::SPIN_LOCK_BYTES),
        bytes: shipped::SPIN_LOCK_BYTES,
    }
}

/// What is known of called functions, for a flood.
pub(crate) struct View<'k, 'a> {
    pub(crate) known: &'k mut CallSummaries,
    pub(crate) program: &'k mut Program<'a>,
}

impl View<'_, '_> {
    /// True if a called function stores to the word so that the lock is free, itself or in what it calls.
    fn gives_back(&mut self, caller: &Function, call: &Instruction, state: &State, word: &Word, depth: u32) -> bool {
        let Some(callee) = self.program.callee(call) else { return false };
        if let Word::Declared(lock) = word {
            return self.declares_release(callee, *lock);
        }
        let Some((called, stores)) = self.known.read(self.program, callee) else { return false };
        let Some(word) = translate(caller, called, state, word) else { return false };
        for at in stores.iter().copied() {
            let Some(state) = called.state(at) else { continue };
            let instruction = called.step(at).instruction;
            let all = accesses(called, &instruction, &state);
            if all.iter().flatten().any(|access| effect(access, &word, &called.nodes) == Effect::Releases) {
                return true;
            }
        }
        if depth == 0 {
            return false;
        }
        // The function is taken out while those that it calls are looked at.
        let Some(Some(mut taken)) = self.known.stores.insert(callee, None) else { return false };
        let calls: Vec<Index> = (0..taken.0.steps.len() as Index)
            .filter(|at| matches!(taken.0.step(*at).instruction.flow, Flow::Call(_) | Flow::SystemCall))
            .take(64)
            .collect();
        let mut yes = false;
        for at in calls {
            let instruction = taken.0.step(at).instruction;
            let Some(state) = taken.0.state(at) else { continue };
            if self.gives_back(&taken.0, &instruction, &state, &word, depth - 1) {
                yes = true;
                break;
            }
        }
        self.known.stores.insert(callee, Some(taken));
        yes
    }

    fn declares_release(&self, callee: u64, lock: usize) -> bool {
        let image = &self.program.image;
        let Some(fragment) = image.fragment_at(callee) else { return false };
        let mut here = self.known.points.range(fragment.begin..fragment.end);
        here.any(|(_, points)| points.contains(&(Kind::Released, lock)))
    }
}

impl Calls for View<'_, '_> {
    fn releases(&mut self, function: &mut Function, at: Index, state: &State, word: &Word) -> bool {
        let instruction = function.step(at).instruction;
        let is_tail = function.step(at).exit == crate::function::Exit::TailCall;
        if self.program.import(&instruction) == Some(shipped::SPIN_UNLOCK) {
            return spin_lock(state, function.arch.abi()).alike(word);
        }
        (matches!(instruction.flow, Flow::Call(_)) || is_tail)
            && self.gives_back(function, &instruction, state, word, 1)
    }

    fn acquires(&mut self, function: &mut Function, at: Index, state: &State) -> Option<Word> {
        let instruction = function.step(at).instruction;
        if self.program.spin_lock(&instruction).is_some() {
            return Some(spin_lock(state, function.arch.abi()));
        }
        let Flow::Call(_) = instruction.flow else { return None };
        let given = *self.known.gives.get(&self.program.callee(&instruction)?)?;
        let address = match given.place {
            LockAddress::Declared(lock) => return Some(Word::Declared(lock)),
            LockAddress::Fixed(address) => Value::constant(address),
            LockAddress::Argument(register, offset) => state.registers[usize::from(register)].plus(offset),
            LockAddress::Result(offset) => {
                let mut after = state.clone();
                function.arch.step(&instruction, &mut after, false, &mut function.nodes);
                after.registers[function.arch.abi().result].plus(offset)
            }
        };
        Some(Word::Memory { address, bits: given.bits, bytes: given.bytes })
    }

    fn declared(&self, address: u64, word: &Word) -> Effect {
        let Word::Declared(lock) = word else { return Effect::None };
        let released = self.known.points.get(&address).is_some_and(|here| here.contains(&(Kind::Released, *lock)));
        if released { Effect::Releases } else { Effect::None }
    }
}

/// Where a function leads that is nothing but a jump, to one without a symbol.
fn passed_on(program: &Program<'_>, caller: &str) -> Option<u64> {
    let symbol = program.image.symbols.get(caller)?.first()?;
    let mut instructions = program.image.instructions(symbol.address)?;
    let first = instructions.find(|instruction| !program.image.arch.is_landing_pad(instruction))?;
    let Flow::Jump(entry) = first.flow else { return None };
    let fragment = program.image.fragment_at(entry)?;
    (fragment.begin == entry && fragment.name.is_none()).then_some(entry)
}
