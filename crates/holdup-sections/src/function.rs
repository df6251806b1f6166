//! One function's control flow, with the parts of it that the compiler moved elsewhere.

use crate::arch::{Architecture, Flow, Instruction};
use crate::program::Program;
use crate::shipped::postgres;
use crate::values::{JoinedStates, Nodes, State};
use std::collections::BTreeMap;

/// Number of an instruction in its function.
pub(crate) type Index = u32;

/// How control leaves the function at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It does not.
    Stays,
    /// To the caller.
    Returns,
    /// Into another function, which returns to our caller.
    TailCall,
    /// To an unknown address: a jump through a register that is no known table.
    Unknown,
    /// To nowhere: a call that never returns, a trap.
    Ends,
    /// The bytes are no instruction that is known.
    NotKnown,
}

/// An instruction with what follows.
pub(crate) struct Step {
    pub(crate) instruction: Instruction,
    pub(crate) next: Vec<Index>,
    pub(crate) exit: Exit,
}
pub(crate) struct Function {
    pub(crate) arch: &'static dyn Architecture,
    pub(crate) entry: u64,
    /// Sorted by address.
    pub(crate) steps: Vec<Step>,
    /// The state before each instruction that is the first of a basic block.
    states: JoinedStates,
    /// The first instruction of the block that an instruction lies in.
    blocks: Vec<Option<Index>>,
    pub(crate) nodes: Nodes,
}

/// Larger functions are not analysed.
pub(crate) const MOST_INSTRUCTIONS: usize = 40_000;

/// How often a basic block may be gone through until its state stands, per block, before the function is given up.
const MOST_ROUNDS: usize = 60;

impl Function {
    /// Follows the control flow from an entry.
    pub(crate) fn read(program: &mut Program<'_>, entry: u64) -> Result<Self, String> {
        let steps = Reader::new(program, entry).read()?;
        let arch = program.image.arch;
        let mut function = Function {
            arch,
            entry,
            blocks: vec![None; steps.len()],
            steps,
            states: JoinedStates::default(),
            nodes: Nodes::new(arch.abi()),
        };
        function.find_states()?;
        Ok(function)
    }
    pub(crate) fn index(&self, at: u64) -> Option<Index> {
        self.steps.binary_search_by_key(&at, |step| step.instruction.ip).ok().map(|index| index as Index)
    }
    pub(crate) fn step(&self, index: Index) -> &Step {
        &self.steps[index as usize]
    }

    fn find_states(&mut self) -> Result<(), String> {
        let Some(entry) = self.index(self.entry) else { return Err("its entry is not code".to_owned()) };
        let leaders = self.leaders(entry);
        let mut nodes = std::mem::take(&mut self.nodes);
        let mut states = JoinedStates::default();
        let first = State::entry(self.arch.abi(), &mut nodes);
        states.arrive((Index::MAX, false), (entry, self.entry), &first, false, &mut nodes);
        let mut waiting = std::collections::BTreeSet::from([entry]);
        let mut rounds = 0;
        while let Some(begin) = waiting.pop_first() {
            rounds += 1;
            if rounds > MOST_ROUNDS.saturating_mul(leaders.len() + 10) {
                return Err("its values do not converge".to_owned());
            }
            let Some(mut state) = states.get(begin).cloned() else { continue };
            let mut at = begin;
            loop {
                self.blocks[at as usize] = Some(begin);
                let step = &self.steps[at as usize];
                self.arch.step(&step.instruction, &mut state, false, &mut nodes);
                if let [next] = step.next[..]
                    && leaders.binary_search(&next).is_err()
                {
                    at = next;
                    continue;
                }
                for &next in &step.next {
                    let ip = self.steps[next as usize].instruction.ip;
                    let from = (at, self.repeats(at, next));
                    let changed = states.arrive(from, (next, ip), &state, false, &mut nodes);
                    if changed {
                        waiting.insert(next);
                    }
                }
                break;
            }
        }
        self.states = states;
        self.nodes = nodes;
        Ok(())
    }

    /// True if a branch leads back to the instruction right before it.
    pub(crate) fn repeats(&self, branch: Index, to: Index) -> bool {
        let Some(step) = self.steps.get(branch as usize) else { return false };
        let to = &self.step(to).instruction;
        to.next_ip() == step.instruction.ip && step.instruction.flow == Flow::Branch(to.ip)
    }

    /// The first instructions of basic blocks, sorted.
    fn leaders(&self, entry: Index) -> Vec<Index> {
        let mut entered = vec![0u8; self.steps.len()];
        let mut leader = vec![false; self.steps.len()];
        for step in &self.steps {
            for &next in &step.next {
                entered[next as usize] = entered[next as usize].saturating_add(1);
                leader[next as usize] |= step.next.len() > 1 || entered[next as usize] > 1;
            }
        }
        leader[entry as usize] = true;
        (0..self.steps.len()).filter(|i| leader[*i]).map(|i| i as Index).collect()
    }

    /// The state before an instruction; `None` for one that no path from the entry reaches.
    pub(crate) fn state(&mut self, index: Index) -> Option<State> {
        let mut at = (*self.blocks.get(index as usize)?)?;
        let mut state = self.states.get(at)?.clone();
        while at != index {
            let step = &self.steps[at as usize];
            self.arch.step(&step.instruction, &mut state, false, &mut self.nodes);
            at = *step.next.first()?;
        }
        Some(state)
    }
}

impl Function {
    /// Visits every instruction that a path from the entry reaches, with the state before it.
    pub(crate) fn visit(&mut self, mut see: impl FnMut(&Instruction, &State, &Nodes)) {
        let begins: Vec<Index> = self.states.places().collect();
        for begin in begins {
            let Some(mut state) = self.states.get(begin).cloned() else { continue };
            let mut at = begin;
            while self.blocks[at as usize] == Some(begin) {
                let step = &self.steps[at as usize];
                see(&step.instruction, &state, &self.nodes);
                self.arch.step(&step.instruction, &mut state, false, &mut self.nodes);
                match step.next[..] {
                    [next] if next != begin => at = next,
                    _ => break,
                }
            }
        }
    }
}

/// Follows the control flow.
struct Reader<'p, 'a> {
    program: &'p mut Program<'a>,
    entry: u64,
    found: BTreeMap<u64, (Instruction, Vec<u64>, Exit)>,
    /// Where to continue, and the level of the error report that was begun on the way.
    waiting: Vec<(u64, Option<u64>)>,
}

impl<'p, 'a> Reader<'p, 'a> {
    fn new(program: &'p mut Program<'a>, entry: u64) -> Self {
        Reader { program, entry, found: BTreeMap::new(), waiting: vec![(entry, None)] }
    }

    fn read(mut self) -> Result<Vec<Step>, String> {
        while let Some((at, level)) = self.waiting.pop() {
            self.straight(at, level)?;
        }
        let places: Vec<u64> = self.found.keys().copied().collect();
        let index = |at: &u64| places.binary_search(at).ok().map(|index| index as Index);
        Ok(self
            .found
            .into_values()
            .map(|(instruction, next, exit)| Step { instruction, next: next.iter().filter_map(index).collect(), exit })
            .collect())
    }

    /// Reads on until control goes elsewhere.
    fn straight(&mut self, begin: u64, mut level: Option<u64>) -> Result<(), String> {
        let image = &self.program.image;
        let Some(end) = image.fragment_at(begin).map(|fragment| fragment.end) else { return Ok(()) };
        let (mut first_argument, arch) = (None, image.arch);
        for instruction in image.instructions(begin).into_iter().flatten() {
            let at = instruction.ip;
            if self.found.contains_key(&at) {
                return Ok(());
            }
            if self.found.len() >= MOST_INSTRUCTIONS {
                return Err(format!("it has more than {MOST_INSTRUCTIONS} instructions"));
            }
            if let Some(number) = arch.first_argument(&instruction) {
                first_argument = number;
            }
            let behind = instruction.next_ip();
            let (mut next, exit) = self.leads(&instruction, level);
            if instruction.is_call() && self.is_named(&instruction, postgres::REPORT_BEGINS) {
                level = first_argument;
            }
            // A fall through the end of the code is no way that a program takes.
            next.retain(|to| *to != behind || behind < end);
            let exit = if next.is_empty() && exit == Exit::Stays { Exit::Ends } else { exit };
            let goes_on = next.contains(&behind);
            self.waiting.extend(next.iter().filter(|to| **to != behind).map(|to| (*to, level)));
            self.found.insert(at, (instruction, next, exit));
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Where control goes from an instruction.
    fn leads(&mut self, instruction: &Instruction, level: Option<u64>) -> (Vec<u64>, Exit) {
        let behind = instruction.next_ip();
        match instruction.flow {
            Flow::Next | Flow::Helper(_) => (vec![behind], Exit::Stays),
            Flow::Call(_) | Flow::CallSlot(_) | Flow::CallUnknown | Flow::SystemCall => {
                let final_report = level.is_some_and(|level| level >= postgres::LEAST_FINAL_LEVEL)
                    && self.is_named(instruction, &[postgres::REPORT_ENDS]);
                if final_report || self.program.never_returns(instruction) || self.is_dead_end(instruction) {
                    (Vec::new(), Exit::Ends)
                } else {
                    (vec![behind], Exit::Stays)
                }
            }
            Flow::Branch(to) if self.is_inside(to) => (vec![behind, to], Exit::Stays),
            Flow::Branch(_) => (vec![behind], Exit::TailCall),
            Flow::Jump(to) if self.is_inside(to) => (vec![to], Exit::Stays),
            Flow::Jump(_) | Flow::JumpSlot(_) => (Vec::new(), Exit::TailCall),
            Flow::JumpUnknown => match self.table(instruction) {
                Some(targets) => (targets, Exit::Stays),
                None => (Vec::new(), Exit::Unknown),
            },
            Flow::Return => (Vec::new(), Exit::Returns),
            Flow::Ends => (Vec::new(), Exit::Ends),
            Flow::NotKnown => (Vec::new(), Exit::NotKnown),
        }
    }

    fn is_named(&self, call: &Instruction, names: &[&str]) -> bool {
        let Some(at) = self.program.callee(call) else { return false };
        self.program.image.fragment_at(at).and_then(|f| f.name.as_deref()).is_some_and(|name| names.contains(&name))
    }

    /// True if a jump there stays in the function.
    fn is_inside(&self, to: u64) -> bool {
        let image = &self.program.image;
        let Some(number) = image.fragment(to) else { return false };
        image.fragment(self.entry) == Some(number) || self.program.is_part(to)
    }

    /// Whether a called function of this binary, and what it calls, has no way back.
    fn is_dead_end(&mut self, call: &Instruction) -> bool {
        let Some(at) = self.program.callee(call) else { return false };
        !returns(self.program, at, 3)
    }

    /// The targets of a jump through a table.
    fn table(&self, jump: &Instruction) -> Option<Vec<u64>> {
        let mut at = jump.ip;
        let mut before = Vec::new();
        for (_, (instruction, ..)) in self.found.range(..jump.ip).rev().take(24) {
            if instruction.next_ip() != at {
                break;
            }
            at = instruction.ip;
            before.push(instruction);
        }
        let image = &self.program.image;
        let mut targets = image.arch.jump_table(image, jump, &before, &|to| self.is_inside(to));
        targets.sort_unstable();
        targets.dedup();
        (!targets.is_empty()).then_some(targets)
    }
}

/// True if a function ever returns, followed through calls up to a depth; true where that is not known.
fn returns(program: &mut Program<'_>, at: u64, depth: u32) -> bool {
    if let Some(known) = program.returns.get(&at) {
        return *known;
    }
    // Until it is known otherwise, and for functions that call themselves.
    program.returns.insert(at, true);
    let known = depth == 0 || comes_back(program, at, depth);
    program.returns.insert(at, known);
    known
}

fn comes_back(program: &mut Program<'_>, entry: u64, depth: u32) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut waiting = vec![entry];
    while let Some(begin) = waiting.pop() {
        let Some(instructions) = program.image.instructions(begin) else { return true };
        for instruction in instructions {
            if !seen.insert(instruction.ip) {
                break;
            }
            // Long functions come back: this only looks for small ones that end the program.
            if seen.len() > 400 {
                return true;
            }
            match instruction.flow {
                Flow::Return | Flow::JumpSlot(_) | Flow::JumpUnknown => return true,
                Flow::Call(_) | Flow::CallSlot(_) if program.never_returns(&instruction) => break,
                Flow::Call(_) => {
                    if let Some(callee) = program.callee(&instruction)
                        && !returns(program, callee, depth - 1)
                    {
                        break;
                    }
                }
                Flow::Jump(to) | Flow::Branch(to) => {
                    let inside = program.image.fragment(to) == program.image.fragment(entry) || program.is_part(to);
                    if !inside {
                        return true;
                    }
                    waiting.push(to);
                    if instruction.flow == Flow::Jump(to) {
                        break;
                    }
                }
                Flow::Ends => break,
                Flow::NotKnown => return true,
                _ => {}
            }
        }
    }
    false
}
