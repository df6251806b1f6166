//! Checks a load: everything that a program names exists, and locks are held when they are released.

use crate::agenda::MOST_SLOTS;
use crate::machine::Machine;
use crate::names::Names;
use crate::program::{COUNTERS, Channel, LockId, Op, Operand};
use crate::random::Span;
use crate::world::{Load, Policy, SLOTS};
use holdup_model::Problem;
use std::collections::BTreeMap;

/// The longest time that a program can name, ns: eleven days.
const MOST_SPAN_NS: u64 = 1_000_000_000_000_000;
/// The most pages of one operation: it is one step of the simulation.
const MOST_PAGES: u32 = 1 << 16;
/// The most locks that a task holds at the same time.
const MOST_HELD: u8 = 100;

/// The most operations that are followed until nothing new is found.
const MOST_STEPS: u32 = 1_000_000;

/// How often each lock is held at an operation: at least and at most. A lock that is not named is not held.
type Held = BTreeMap<LockId, (u8, u8)>;

impl Load {
    /// Checks it against a machine.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place: a jump out of its program, a lock, region, channel, device, log, program,
    /// group or CPU that does not exist, a lock that is given back and not held, one that a loop takes and never gives
    /// back, times and numbers beyond what the simulation can count.
    pub fn check(&self, machine: &Machine, names: &Names) -> Result<(), Problem> {
        for (number, program) in self.programs.iter().enumerate() {
            for (at, op) in program.ops.iter().enumerate() {
                self.operation(*op, program.ops.len())
                    .map_err(|why| Problem::usage(names.operation(number as u32, at as u32), why))?;
            }
            held(&program.ops).map_err(|(at, lock, why)| {
                let place = names.operation(number as u32, at);
                Problem::usage(format!("{place}: {}", names.lock(lock)), why)
            })?;
        }
        let cpus = machine.topology.cpus();
        for (number, task) in self.tasks.iter().enumerate() {
            let wrong = |why: String| Err(Problem::usage(names.task_place(number as u32), why));
            if task.program as usize >= self.programs.len() {
                return wrong(format!("there is no program {}", task.program));
            }
            if let Some(cpu) = task.pinned.filter(|cpu| *cpu >= cpus) {
                return wrong(format!("there is no cpu {cpu}: the machine has {cpus}, from 0 on"));
            }
            if task.group.is_some_and(|group| group as usize >= self.groups.len()) {
                return wrong("there is no such group".to_owned());
            }
            let channels = [task.inbox, task.peer];
            if channels.into_iter().flatten().any(|channel| channel as usize >= self.channels.len()) {
                return wrong("there is no such channel".to_owned());
            }
            let priority = match task.policy {
                Policy::Fifo(priority) | Policy::Rr(priority) => priority,
                _ => 1,
            };
            if !(1..=99).contains(&priority) || task.weight == 0 {
                return wrong("priorities go from 1 to 99, and a weight is not 0".to_owned());
            }
        }
        self.sizes(cpus)
    }

    fn sizes(&self, cpus: u32) -> Result<(), Problem> {
        let slots = cpus as usize * SLOTS + self.groups.len() + self.tasks.len().max(self.most_tasks);
        if slots > MOST_SLOTS {
            let why = format!("{cpus} CPUs and these tasks need {slots} slots for events, the most is {MOST_SLOTS}");
            return Err(Problem::usage("the simulated machine", why).hint("simulate fewer tasks"));
        }
        if self.regions.iter().any(|region| region.steps == 0) {
            return Err(Problem::usage("a region of memory", "its pages have no steps"));
        }
        if self.logs.iter().any(|log| log.device as usize >= self.devices.len()) {
            return Err(Problem::usage("a log", "its device does not exist"));
        }
        if self.logs.iter().filter_map(|log| log.lock).any(|lock| lock as usize >= self.locks.len()) {
            return Err(Problem::usage("a log", "its lock does not exist"));
        }
        if let Some(name) = self.locks.iter().find(|name| crate::locks::id(name).is_none()) {
            return Err(Problem::usage(format!("lock algorithm {name}"), "there is no such algorithm"));
        }
        let after = |(at, parent): (usize, Option<u32>)| parent.is_some_and(|parent| parent as usize >= at);
        if self.groups.iter().map(|group| group.parent).enumerate().any(after) {
            return Err(Problem::usage("a group", "it stands in one that does not come before it"));
        }
        Ok(())
    }

    fn operation(&self, mut op: Op, len: usize) -> Result<(), String> {
        let mut wrong = None;
        op.operands(&mut |operand| {
            let (id, count, what) = match operand {
                Operand::Lock(id) => (*id, self.locks.len(), "lock"),
                Operand::Region(id) => (*id, self.regions.len(), "region"),
                Operand::Device(id) => (*id, self.devices.len(), "device"),
                Operand::Log(id) => (*id, self.logs.len(), "log"),
                Operand::Mark(id) => (u32::from(*id), self.marks, "mark"),
                Operand::Program(id) => (*id, self.programs.len(), "program"),
                Operand::Channel(Channel::Of(id)) => (*id, self.channels.len(), "channel"),
                // Whether a task has such a channel is known when it uses it.
                Operand::Channel(_) => return,
                // The end of the list is a target too: the program ends there.
                Operand::Target(to) => {
                    if *to as usize > len {
                        let why = format!("the jump leads out of the program, to operation {}", u64::from(*to) + 1);
                        wrong = Some(why);
                    }
                    return;
                }
            };
            if id as usize >= count {
                wrong = wrong.take().or_else(|| Some(format!("there is no such {what}")));
            }
        });
        if let Some(why) = wrong {
            return Err(why);
        }
        match op {
            Op::Compute(span) | Op::Sleep(span) | Op::System { work: span, .. } | Op::Io { work: span, .. } => {
                time(span)
            }
            Op::Touch { pages, .. } if pages > MOST_PAGES => {
                Err(format!("{pages} pages are more than the {MOST_PAGES} of one operation"))
            }
            Op::Repeat { counter, .. } if counter as usize >= COUNTERS => {
                Err(format!("there are {COUNTERS} loop counters"))
            }
            Op::NextMoment { interval_ns, .. } if !(1..=MOST_SPAN_NS).contains(&interval_ns) => {
                Err(format!("an interval of {interval_ns} ns is not possible"))
            }
            _ => Ok(()),
        }
    }
}

fn time(span: Span) -> Result<(), String> {
    let most_ns = match span {
        Span::None => 0,
        Span::Fixed(ns) | Span::Exponential(ns) | Span::Uniform(_, ns) => ns,
    };
    match span {
        _ if most_ns > MOST_SPAN_NS => Err(format!("{most_ns} ns are longer than the longest time, {MOST_SPAN_NS} ns")),
        Span::Uniform(least, most) if least > most => Err("its range is empty".to_owned()),
        _ => Ok(()),
    }
}

/// Follows every way through a program: a lock that is given back must be held whichever way led there.
fn held(ops: &[Op]) -> Result<(), (u32, LockId, String)> {
    let mut before: Vec<Option<Held>> = vec![None; ops.len()];
    let mut open = vec![(0, Held::new())];
    let mut steps_left = MOST_STEPS;
    while let Some((at, arrives)) = open.pop() {
        // After the last operation the task ends.
        let Some(there) = before.get_mut(at) else { continue };
        let mut held = match there {
            None => arrives,
            Some(there) => either(there, &arrives),
        };
        if there.as_ref() == Some(&held) {
            continue;
        }
        *there = Some(held.clone());
        let wrong = |lock, why: &str| Err((at as u32, lock, why.to_owned()));
        match ops[at] {
            Op::Lock(lock) | Op::LockShared(lock) => {
                let times = held.entry(lock).or_default();
                *times = (times.0.saturating_add(1), times.1.saturating_add(1));
                if times.1 > MOST_HELD {
                    return wrong(lock, "a loop takes it again and again and does not give it back");
                }
            }
            Op::Unlock(lock) => match held.get_mut(&lock) {
                None | Some((_, 0)) => return wrong(lock, "it is given back and not held"),
                Some((0, _)) => return wrong(lock, "it is given back, and on one of the ways to here it is not held"),
                Some(times) => *times = (times.0 - 1, times.1 - 1),
            },
            _ => {}
        }
        steps_left -= 1;
        if steps_left == 0 {
            let lock = held.keys().next().copied().unwrap_or(0);
            return wrong(lock, "there are too many ways through the program to follow which locks are held");
        }
        if let Some(to) = ops[at].target() {
            open.push((to as usize, held.clone()));
        }
        if !matches!(ops[at], Op::Exit | Op::Jump(_)) {
            open.push((at + 1, held));
        }
    }
    Ok(())
}

/// What is held where two ways meet.
fn either(a: &Held, b: &Held) -> Held {
    let times = |held: &Held, lock| held.get(lock).copied().unwrap_or_default();
    let both = a.keys().chain(b.keys());
    both.map(|lock| {
        let (a, b) = (times(a, lock), times(b, lock));
        (*lock, (a.0.min(b.0), a.1.max(b.1)))
    })
    .collect()
}
