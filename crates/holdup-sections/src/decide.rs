//! From an atomic operation to the branch on its result: the side on which the lock is held, and the conditions before it.

use crate::arch::{Abi, Architecture, BranchOn, Change, Comparison, Flag, Flow, Instruction};
use crate::atomic::{Attempt, Test};
use crate::function::{Exit, Function, Index};
use crate::values::{State, Value, mask};
use holdup_model::sections::Condition;
use std::collections::BTreeMap;

/// The outcome of an attempt to take a lock.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// Instructions between the two: the lock was taken where all of these conditions hold, which are tested in this order.
    /// Empty where no condition is known.
    pub(crate) undecided: BTreeMap<Index, Vec<Condition>>,
    /// Edges (from, to) on which the lock is held, with the state there.
    pub(crate) success: Vec<(Index, Index, State)>,
    /// Edges without it.
    pub(crate) failure: Vec<(Index, Index, State)>,
}

/// What a flag or a register says of one of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sign {
    test: usize,
    /// The register, or the flags.
    register: u8,
    mask: u64,
    /// Whether the test is true where the masked bits are zero; else where they are not.
    when_zero: bool,
}

impl Sign {
    /// By a flag, which is clear where the test is true (`when_clear`), or set.
    fn of_flag(test: usize, flag: Flag, when_clear: bool, arch: &dyn Architecture) -> Self {
        Sign { test, register: arch.abi().machine.flags(), mask: mask_of(flag, arch.abi()), when_zero: when_clear }
    }

    /// Whether these bits of its register are zero or not as all of it: it is 0 or 1.
    fn shows_in(&self, bits: u64) -> bool {
        bits & 1 == 1 && bits & !self.mask == 0
    }

    fn condition(self) -> Condition {
        // A condition on one flag is written with the value that it has.
        let one_bit = self.mask.count_ones() == 1;
        let (value, differs) = match (self.when_zero, one_bit) {
            (true, _) => (0, false),
            (false, true) => (self.mask, false),
            (false, false) => (0, true),
        };
        Condition { register: self.register, mask: self.mask, value, differs }
    }
}

/// One path from the operation on.
#[derive(Clone)]
struct Path {
    at: Index,
    state: State,
    flags: Option<Sign>,
    /// Registers that hold the outcome of a test.
    signs: Vec<Sign>,
    /// Tests that are not decided yet.
    open: Vec<usize>,
}

/// More steps than this has no decision.
const MOST_STEPS: usize = 400;

/// Follows the outcome of the attempt at `site`; `state` is before it.
pub(crate) fn decide(
    function: &mut Function,
    site: Index,
    mut state: State,
    attempt: &Attempt,
) -> Result<Decision, String> {
    let operation = function.step(site).instruction;
    let access = function.arch.access(&operation, &state, &mut function.nodes);
    function.arch.step(&operation, &mut state, false, &mut function.nodes);
    let after = access.and_then(|access| access.old).map(|register| state.registers[register]);
    let expected = match access.map(|access| access.change) {
        Some(Change::CompareAndSwap { expected, .. }) => Some(expected),
        _ => None,
    };
    let old: Vec<Value> = after.into_iter().chain(expected.filter(|expected| expected.symbol.is_some())).collect();
    let (mut flags, mut signs) = (None, Vec::new());
    for (number, test) in attempt.tests.iter().enumerate() {
        match test {
            Test::ZeroFlag => flags = Some(Sign::of_flag(number, Flag::Zero, false, function.arch)),
            Test::NoCarry => flags = Some(Sign::of_flag(number, Flag::Carry, true, function.arch)),
            Test::Status => signs.extend(access.and_then(|access| access.status).map(|register| Sign {
                test: number,
                register: register as u8,
                mask: mask(STATUS_BYTES),
                when_zero: true,
            })),
            Test::OldBits(_) | Test::Expected => {}
        }
    }
    let elsewhere = access.and_then(|access| access.fails_to).and_then(|to| function.index(to));
    let swapped = after.zip(expected);
    let mut walk = Walk { function, attempt, old, swapped, decision: Decision::default(), paths: Vec::new() };
    let open: Vec<usize> = (0..attempt.tests.len()).collect();
    for at in walk.function.step(site).next.clone() {
        if Some(at) == elsewhere {
            walk.decision.failure.push((site, at, state.clone()));
        } else {
            walk.paths.push(Path { at, state: state.clone(), flags, signs: signs.clone(), open: open.clone() });
        }
    }
    walk.run(site)
}

/// Bytes of the register that says whether an exclusive store was made.
const STATUS_BYTES: usize = 4;

struct Walk<'f, 'a> {
    function: &'f mut Function,
    attempt: &'a Attempt,
    /// What the word held before, under all its names.
    old: Vec<Value>,
    /// What a compare-and-swap left in the register of the old value, and what it wanted there.
    swapped: Option<(Value, Value)>,
    decision: Decision,
    paths: Vec<Path>,
}

impl Walk<'_, '_> {
    fn run(mut self, site: Index) -> Result<Decision, String> {
        let mut steps = 0;
        let mut seen: BTreeMap<Index, usize> = BTreeMap::new();
        while let Some(path) = self.paths.pop() {
            steps += 1;
            let visits = seen.entry(path.at).or_default();
            *visits += 1;
            if path.at == site {
                self.decision.failure.push((site, site, path.state));
                continue;
            }
            if steps > MOST_STEPS || *visits > 4 {
                return Err("the branch on its result is too far away".to_owned());
            }
            self.go(path)?;
        }
        if self.decision.success.is_empty() { Err("no branch on its result".to_owned()) } else { Ok(self.decision) }
    }

    fn go(&mut self, mut path: Path) -> Result<(), String> {
        self.record(&path);
        let step = self.function.step(path.at);
        let (instruction, next, exit) = (step.instruction, step.next.clone(), step.exit);
        match exit {
            Exit::Returns | Exit::TailCall | Exit::Unknown => return Err("its result leaves the function".to_owned()),
            Exit::NotKnown => return Err(format!("the instruction at {:#x} is not known", instruction.ip)),
            Exit::Ends => return Ok(()),
            Exit::Stays => {}
        }
        let arch = self.function.arch;
        let is_operation = arch.may_acquire(&instruction);
        if let Flow::Branch(to) = instruction.flow
            && !is_operation
        {
            self.branch(&path, arch.branch_on(&instruction), to, &next);
            return Ok(());
        }
        let sign = arch.comparison(&instruction).and_then(|comparison| self.sign(&path, comparison));
        let sign = sign.or_else(|| self.sign_of_swap(&path, &instruction));
        let sign_of_copy = self.sign_of_copy(&path, &instruction);
        let before = path.state.registers;
        arch.step(&instruction, &mut path.state, false, &mut self.function.nodes);
        let after = &path.state.registers;
        path.signs.retain(|sign| before[usize::from(sign.register)].same(after[usize::from(sign.register)]));
        path.signs.extend(sign_of_copy);
        if sign.is_some() || arch.changes_flags(&instruction) {
            path.flags = sign;
        }
        for to in next {
            self.paths.push(Path { at: to, ..path.clone() });
        }
        Ok(())
    }

    /// Adds the conditions of this place.
    fn record(&mut self, path: &Path) {
        let mut conditions = Vec::new();
        for &test in &path.open {
            match self.sign_of(path, test) {
                Some(sign) => conditions.push(sign.condition()),
                None => {
                    conditions.clear();
                    break;
                }
            }
        }
        self.decision
            .undecided
            .entry(path.at)
            .and_modify(|before| {
                if *before != conditions {
                    before.clear();
                }
            })
            .or_insert(conditions);
    }

    fn sign_of(&self, path: &Path, test: usize) -> Option<Sign> {
        let by_flags = path.flags.filter(|sign| sign.test == test);
        let by_register = || path.signs.iter().find(|sign| sign.test == test).copied();
        by_flags.or_else(by_register).or_else(|| {
            let Test::OldBits(bits) = self.attempt.tests[test] else { return None };
            let register = path.state.registers.iter().position(|value| self.is_old(*value))?;
            Some(Sign { test, register: register as u8, mask: bits, when_zero: true })
        })
    }

    fn is_old(&self, value: Value) -> bool {
        self.old.iter().any(|old| old.same(value))
    }

    /// What the flags say behind a comparison.
    fn sign(&self, path: &Path, comparison: Comparison) -> Option<Sign> {
        let Comparison { register, bits, flag } = comparison;
        // The zero flag is set where the bits are zero, the carry flag where the bit is set.
        let when_clear = |yes: bool| if flag == Flag::Zero { !yes } else { yes };
        let arch = self.function.arch;
        let of_flag = |test, true_when_zero| Sign::of_flag(test, flag, when_clear(true_when_zero), arch);
        if let Some(copy) = path.signs.iter().find(|sign| usize::from(sign.register) == register) {
            return copy.shows_in(bits).then(|| of_flag(copy.test, copy.when_zero));
        }
        Some(of_flag(self.test_of(path, register, bits)?, true))
    }

    /// The test that these bits of a register decide by being zero: those of the old value.
    fn test_of(&self, path: &Path, register: usize, bits: u64) -> Option<usize> {
        let value = path.state.registers[register];
        // Bits that are zero anyway change nothing: a byte is tested in a register of 32 bits.
        let open = if value.symbol.is_some() { !value.zero } else { u64::MAX };
        let fits = |test: &usize| matches!(self.attempt.tests[*test], Test::OldBits(tested) if tested == bits || tested & open == bits & open);
        self.is_old(value).then(|| path.open.iter().copied().find(fits)).flatten()
    }

    /// What the flags say behind a comparison of the old value with the expected one.
    fn sign_of_swap(&mut self, path: &Path, instruction: &Instruction) -> Option<Sign> {
        let test = path.open.iter().copied().find(|test| self.attempt.tests[*test] == Test::Expected)?;
        let arch = self.function.arch;
        let (a, b) = arch.compared(instruction, &path.state, &mut self.function.nodes)?;
        let (old, expected) = self.swapped?;
        let is_it = a.same(old) && b.same(expected) || a.same(expected) && b.same(old);
        is_it.then(|| Sign::of_flag(test, Flag::Zero, false, arch))
    }

    /// The test that a branch decides, and whether the branch is taken where it is true.
    fn decided(&self, path: &Path, on: BranchOn) -> Option<(usize, bool)> {
        match on {
            BranchOn::Flag { flag, taken_when_set } => {
                let mask = mask_of(flag, self.function.arch.abi());
                let sign = path.flags.filter(|sign| sign.mask == mask && path.open.contains(&sign.test))?;
                Some((sign.test, taken_when_set != sign.when_zero))
            }
            BranchOn::Register { register, bits, taken_when_zero } => {
                let is_it = |sign: &&Sign| usize::from(sign.register) == register && path.open.contains(&sign.test);
                let copy = path.signs.iter().find(is_it).filter(|sign| sign.shows_in(bits));
                let by_copy = copy.map(|sign| (sign.test, taken_when_zero == sign.when_zero));
                by_copy.or_else(|| Some((self.test_of(path, register, bits)?, taken_when_zero)))
            }
        }
    }

    fn branch(&mut self, path: &Path, on: Option<BranchOn>, target: u64, next: &[Index]) {
        let taken = self.function.index(target).filter(|to| next.contains(to));
        let Some((test, taken_when_true)) = on.and_then(|on| self.decided(path, on)) else {
            self.paths.extend(next.iter().map(|to| Path { at: *to, ..path.clone() }));
            return;
        };
        for &to in next {
            let is_success = taken_when_true == (taken == Some(to));
            if !is_success {
                self.decision.failure.push((path.at, to, path.state.clone()));
                continue;
            }
            let open: Vec<usize> = path.open.iter().copied().filter(|open| *open != test).collect();
            if open.is_empty() {
                self.decision.success.push((path.at, to, path.state.clone()));
            } else {
                self.paths.push(Path { at: to, open, ..path.clone() });
            }
        }
    }

    /// What an instruction puts into a register that copies a flag.
    fn sign_of_copy(&self, path: &Path, instruction: &Instruction) -> Option<Sign> {
        let (sign, copy) = (path.flags?, self.function.arch.flag_copy(instruction)?);
        if sign.mask != mask_of(copy.flag, self.function.arch.abi()) {
            return None;
        }
        // The register is zero where the flag is clear, or the other way round.
        let when_zero = sign.when_zero == copy.when_set;
        Some(Sign { register: copy.register as u8, mask: copy.mask, when_zero, ..sign })
    }
}

fn mask_of(flag: Flag, abi: &Abi) -> u64 {
    match flag {
        Flag::Zero => abi.zero_flag,
        Flag::Carry => abi.carry_flag,
    }
}
