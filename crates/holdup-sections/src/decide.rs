//! From an atomic operation to the branch on its result: the side on which the lock is held, and the conditions before it.

use crate::arch::{Abi, Architecture, BranchOn, ByteCopy, Change, Comparison, Flag, Flow, Instruction};
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

/// Bits of a flag or a value that say how one of the tests ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sign {
    test: usize,
    mask: u64,
    /// Bits that can be set at all.
    possible: u64,
    /// True if the test is true where the masked bits are zero; else where they are not.
    when_zero: bool,
}

impl Sign {
    /// By a flag, which is clear where the test is true (`when_clear`), or set.
    fn of_flag(test: usize, flag: Flag, when_clear: bool, arch: &dyn Architecture) -> Self {
        let mask = mask_of(flag, arch.abi());
        Sign { test, mask, possible: mask, when_zero: when_clear }
    }

    /// True of bits that are zero exactly where all are that can be set.
    fn shows_in(&self, bits: u64) -> bool {
        bits & self.possible == self.possible && bits & !self.mask == 0
    }

    /// Signs go along with copies.
    fn copied(self, copy: ByteCopy) -> Option<Self> {
        let kept = self.mask & mask(copy.bytes);
        let is_one_bit = self.possible.is_power_of_two();
        match copy.inverted & kept {
            _ if self.possible & !kept != 0 => None,
            0 => Some(Sign { mask: kept | copy.zero, ..self }),
            bits if is_one_bit && bits & self.possible != 0 => {
                let mask = if bits == self.possible { kept | copy.zero } else { self.possible };
                Some(Sign { mask, when_zero: !self.when_zero, ..self })
            }
            _ => None,
        }
    }

    /// As a condition on the register, or the flags, that have it.
    fn condition(self, register: u8) -> Condition {
        // A condition on one flag is written with the value that it has.
        let one_bit = self.mask.count_ones() == 1;
        let (value, differs) = match (self.when_zero, one_bit) {
            (true, _) => (0, false),
            (false, true) => (self.mask, false),
            (false, false) => (0, true),
        };
        Condition { register, mask: self.mask, value, differs }
    }
}

/// One path from the operation on.
#[derive(Clone)]
struct Path {
    at: Index,
    state: State,
    flags: Option<Sign>,
    /// Values that hold the outcome of a test.
    signs: Vec<(Value, Sign)>,
    /// Tests that are not decided yet.
    open: Vec<usize>,
}

impl Path {
    fn sign_in(&self, value: Value) -> Option<Sign> {
        self.signs
            .iter()
            .find(|(other, sign)| other.same(value) && self.open.contains(&sign.test))
            .map(|(_, sign)| *sign)
    }
}

/// More steps than this has no decision.
const MOST_STEPS: usize = 400;

/// Instructions of a way that [`rejoins`].
const MOST_APART: u32 = 4;

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
            Test::Status => signs.extend(access.and_then(|access| access.status).map(|register| {
                let (mask, when_zero) = (mask(STATUS_BYTES), true);
                (state.registers[register], Sign { test: number, mask, possible: 1, when_zero })
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
        let comparison = arch.comparison(&instruction, &path.state, &mut self.function.nodes);
        let compared = comparison.and_then(|comparison| self.sign(&path, comparison));
        let sign = compared.or_else(|| self.sign_of_swap(&path, &instruction));
        let flag_copy = self.sign_of_copy(&path, &instruction);
        let copied = arch.copied(&instruction, &path.state, &mut self.function.nodes);
        let copied = copied.and_then(|copy| {
            let sign = self.sign_in(&path, copy.value)?.copied(copy)?;
            Some((copy.register, sign))
        });
        let result = comparison.zip(compared).and_then(|(comparison, sign)| {
            let Comparison { bits, flag, result, .. } = comparison;
            // The flag is set where the bits are zero.
            let when_zero = !sign.when_zero;
            Some((result.filter(|_| flag == Flag::Zero)?, Sign { mask: u64::MAX, possible: bits, when_zero, ..sign }))
        });
        arch.step(&instruction, &mut path.state, false, &mut self.function.nodes);
        for (register, sign) in [flag_copy, copied, result].into_iter().flatten() {
            let value = path.state.registers[register];
            path.signs.retain(|(other, _)| !other.same(value));
            path.signs.push((value, sign));
        }
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
            match self.condition(path, test) {
                Some(condition) => conditions.push(condition),
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

    /// Where the outcome of a test shows: in the flags or in a register.
    fn condition(&self, path: &Path, test: usize) -> Option<Condition> {
        let abi = self.function.arch.abi();
        if let Some(sign) = path.flags.filter(|sign| sign.test == test) {
            return Some(sign.condition(abi.machine.flags()));
        }
        let of_test = |value: Value| self.sign_in(path, value).filter(|sign| sign.test == test);
        let mut registers = path.state.registers.iter().enumerate().take(abi.registers);
        registers.find_map(|(register, value)| Some(of_test(*value)?.condition(register as u8)))
    }

    /// The outcome of a test that a value shows: a copy of a flag, or the old value itself.
    fn sign_in(&self, path: &Path, value: Value) -> Option<Sign> {
        path.sign_in(value).or_else(|| {
            let old = self.is_old(value).then_some(&path.open)?;
            old.iter().find_map(|&test| match self.attempt.tests[test] {
                Test::OldBits(mask) => Some(Sign { test, mask, possible: mask, when_zero: true }),
                _ => None,
            })
        })
    }

    fn is_old(&self, value: Value) -> bool {
        self.old.iter().any(|old| old.same(value))
    }

    /// What the flags say behind a comparison.
    fn sign(&self, path: &Path, comparison: Comparison) -> Option<Sign> {
        let Comparison { value, bits, flag, .. } = comparison;
        // The zero flag is set where the bits are zero, the carry flag where the bit is set.
        let when_clear = |yes: bool| if flag == Flag::Zero { !yes } else { yes };
        let arch = self.function.arch;
        let of_flag = |test, true_when_zero| Sign::of_flag(test, flag, when_clear(true_when_zero), arch);
        if let Some(copy) = path.sign_in(value) {
            return copy.shows_in(bits).then(|| of_flag(copy.test, copy.when_zero));
        }
        Some(of_flag(self.test_of(path, value, bits)?, true))
    }

    /// The test that these bits of a value decide by being zero: those of the old value.
    fn test_of(&self, path: &Path, value: Value, bits: u64) -> Option<usize> {
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
                let value = path.state.registers[register];
                let copy = path.sign_in(value).filter(|sign| sign.shows_in(bits));
                let by_copy = copy.map(|sign| (sign.test, taken_when_zero == sign.when_zero));
                by_copy.or_else(|| Some((self.test_of(path, value, bits)?, taken_when_zero)))
            }
        }
    }

    fn branch(&mut self, path: &Path, on: Option<BranchOn>, target: u64, next: &[Index]) {
        let taken = self.function.index(target).filter(|to| next.contains(to));
        // An outcome that is kept is looked at again where both ways meet a few instructions later.
        let is_kept = |test| path.signs.iter().any(|(_, sign)| sign.test == test) && rejoins(self.function, next);
        let decided = on.and_then(|on| self.decided(path, on)).filter(|(test, _)| !is_kept(*test));
        let Some((test, taken_when_true)) = decided else {
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
    fn sign_of_copy(&self, path: &Path, instruction: &Instruction) -> Option<(usize, Sign)> {
        let (sign, copy) = (path.flags?, self.function.arch.flag_copy(instruction)?);
        if sign.mask != mask_of(copy.flag, self.function.arch.abi()) {
            return None;
        }
        // The register is zero where the flag is clear, or the other way round.
        let when_zero = sign.when_zero == copy.when_set;
        Some((copy.register, Sign { mask: copy.mask, possible: 1, when_zero, ..sign }))
    }
}

/// True where one way of a branch leads straight to the other, within a few instructions: code that keeps an old value where an exchange
/// failed.
fn rejoins(function: &Function, next: &[Index]) -> bool {
    let [one, other] = *next else { return false };
    let leads = |from, to| {
        let mut at = from;
        (0..MOST_APART).any(|_| {
            let next = &function.step(at).next;
            at = if let [next] = next[..] { next } else { at };
            at == to
        })
    };
    leads(one, other) || leads(other, one)
}

fn mask_of(flag: Flag, abi: &Abi) -> u64 {
    match flag {
        Flag::Zero => abi.zero_flag,
        Flag::Carry => abi.carry_flag,
    }
}
