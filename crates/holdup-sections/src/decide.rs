//! From an atomic operation to the branch on its result: the side on which the lock is held, and the conditions before it.

use crate::atomic::{Attempt, Test, old_value};
use crate::function::{Exit, Function, Index};
use crate::values::{RAX, State, Value, mask, number, width};
use holdup_model::sections::Condition;
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};
use std::collections::BTreeMap;

/// The zero flag and the carry flag in rflags (Intel SDM volume 1, 3.4.3).
const ZERO_FLAG: u64 = 1 << 6;
/// See [`ZERO_FLAG`].
const CARRY_FLAG: u64 = 1;

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
    /// The register, or rflags.
    register: u8,
    mask: u64,
    /// Whether the test is true where the masked bits are zero; else where they are not.
    when_zero: bool,
}

impl Sign {
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
    /// Registers that hold the outcome of a test as a byte.
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
    let expected = state.registers[RAX];
    state.step(&operation, false, &mut function.nodes);
    let after = old_value(&operation).map(|register| state.registers[register]);
    let old: Vec<Value> = match operation.mnemonic() {
        Mnemonic::Cmpxchg => after.into_iter().chain([expected]).collect(),
        _ => after.into_iter().collect(),
    };
    let flags = attempt.tests.iter().position(|test| !matches!(test, Test::OldBits(_))).map(|test| {
        let zero = attempt.tests[test] == Test::ZeroFlag;
        let mask = if zero { ZERO_FLAG } else { CARRY_FLAG };
        Sign { test, register: Condition::FLAGS, mask, when_zero: !zero }
    });
    let mut walk = Walk { function, attempt, old, decision: Decision::default(), paths: Vec::new() };
    let open: Vec<usize> = (0..attempt.tests.len()).collect();
    for next in walk.function.step(site).next.clone() {
        walk.paths.push(Path { at: next, state: state.clone(), flags, signs: Vec::new(), open: open.clone() });
    }
    walk.run(site)
}

struct Walk<'f, 'a> {
    function: &'f mut Function,
    attempt: &'a Attempt,
    /// What the word held before, under all its names.
    old: Vec<Value>,
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
            Exit::Ends => return Ok(()),
            Exit::Stays => {}
        }
        if instruction.is_jcc_short_or_near() {
            self.branch(&path, &instruction, &next);
            return Ok(());
        }
        let sign = self.sign(&path, &instruction);
        let sign_of_byte = sign_of_byte(&path, &instruction);
        let before = path.state.registers;
        path.state.step(&instruction, false, &mut self.function.nodes);
        let after = &path.state.registers;
        path.signs.retain(|sign| before[usize::from(sign.register)].same(after[usize::from(sign.register)]));
        path.signs.extend(sign_of_byte);
        if sign.is_some() || instruction.rflags_modified() != 0 || instruction.is_call_near() {
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
        let by_byte = || path.signs.iter().find(|sign| sign.test == test).copied();
        by_flags.or_else(by_byte).or_else(|| {
            let Test::OldBits(bits) = self.attempt.tests[test] else { return None };
            let register = path.state.registers.iter().position(|value| self.is_old(*value))?;
            Some(Sign { test, register: register as u8, mask: bits, when_zero: true })
        })
    }

    fn is_old(&self, value: Value) -> bool {
        self.old.iter().any(|old| old.same(value))
    }

    /// What the flags say behind an instruction.
    fn sign(&self, path: &Path, instruction: &Instruction) -> Option<Sign> {
        use Mnemonic::{And, Bt, Cmp, Test as TestBits};
        if !matches!(instruction.mnemonic(), And | Bt | Cmp | TestBits) || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let register = number(instruction.op0_register())?;
        let wide = mask(width(instruction, 0));
        let same = instruction.op1_kind() == OpKind::Register;
        if same && instruction.op1_register() != instruction.op0_register() {
            return None;
        }
        let number = if same { wide } else { instruction.try_immediate(1).ok()? & wide };
        let (bits, flag) = match instruction.mnemonic() {
            Cmp if !same && number == 0 => (wide, ZERO_FLAG),
            Cmp => return None,
            Bt if !same => (1u64 << (number & 63), CARRY_FLAG),
            Bt => return None,
            _ => (number, ZERO_FLAG),
        };
        // ZF is set where the bits are zero, CF where the bit is set.
        let when_clear = |yes: bool| if flag == ZERO_FLAG { !yes } else { yes };
        let flags = |test, true_when_zero| Sign {
            test,
            register: Condition::FLAGS,
            mask: flag,
            when_zero: when_clear(true_when_zero),
        };
        if let Some(byte) = path.signs.iter().find(|sign| usize::from(sign.register) == register) {
            return (bits & 0xff == 0xff && width(instruction, 0) == 1 || bits == 1)
                .then(|| flags(byte.test, byte.when_zero));
        }
        if !self.is_old(path.state.registers[register]) {
            return None;
        }
        let test = path.open.iter().copied().find(|test| self.attempt.tests[*test] == Test::OldBits(bits))?;
        Some(flags(test, true))
    }

    fn branch(&mut self, path: &Path, instruction: &Instruction, next: &[Index]) {
        let taken = self.function.index(instruction.near_branch_target()).filter(|to| next.contains(to));
        let flag = match instruction.condition_code() {
            ConditionCode::e | ConditionCode::ne => Some(ZERO_FLAG),
            ConditionCode::b | ConditionCode::ae => Some(CARRY_FLAG),
            _ => None,
        };
        let sign = path.flags.filter(|sign| Some(sign.mask) == flag && path.open.contains(&sign.test));
        let Some(sign) = sign else {
            self.paths.extend(next.iter().map(|to| Path { at: *to, ..path.clone() }));
            return;
        };
        let taken_when_clear = matches!(instruction.condition_code(), ConditionCode::ne | ConditionCode::ae);
        for &to in next {
            let is_success = (taken_when_clear == sign.when_zero) == (taken == Some(to));
            if !is_success {
                self.decision.failure.push((path.at, to, path.state.clone()));
                continue;
            }
            let open: Vec<usize> = path.open.iter().copied().filter(|test| *test != sign.test).collect();
            if open.is_empty() {
                self.decision.success.push((path.at, to, path.state.clone()));
            } else {
                self.paths.push(Path { at: to, open, ..path.clone() });
            }
        }
    }
}

/// What a `setcc` puts into a register.
fn sign_of_byte(path: &Path, instruction: &Instruction) -> Option<Sign> {
    let sign = path.flags?;
    let set_when_flag_is_set = match (instruction.mnemonic(), sign.mask) {
        (Mnemonic::Sete, ZERO_FLAG) | (Mnemonic::Setb, CARRY_FLAG) => true,
        (Mnemonic::Setne, ZERO_FLAG) | (Mnemonic::Setae, CARRY_FLAG) => false,
        _ => return None,
    };
    let register = number(instruction.op0_register())?;
    // The byte is zero where the flag is clear, or the other way round.
    Some(Sign { register: register as u8, mask: 0xff, when_zero: sign.when_zero == set_when_flag_is_set, ..sign })
}
