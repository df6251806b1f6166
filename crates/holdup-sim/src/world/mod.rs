//! The simulated machine at work.

mod cpu;
mod execute;
mod place;
mod switch;
mod task;
mod wait;

pub(crate) use cpu::IDLE;
pub use task::Mode;
pub(crate) use task::{Segment, Task, Then};

use crate::agenda::Agenda;
use crate::locks::{self, Lock};
use crate::machine::Machine;
use crate::program::{Inside, Op, Program};
use crate::random::Random;
use crate::sched::eevdf::Fair;
use crate::seen::{LockSeen, MarkSeen, RoleSeen, Seen};
use cpu::Cpu;
use holdup_model::Histogram;

/// All that runs on a machine.
#[derive(Debug, Clone, Default)]
pub struct Load {
    /// The programs; a task names one by its number.
    pub programs: Vec<Program>,
    /// The tasks that are there from the begin.
    pub tasks: Vec<TaskSpec>,
    /// The locks, each with the name of its algorithm. What was seen of them comes in the same order; after them come
    /// the locks inside of them, in the order of those that have one.
    pub locks: Vec<&'static str>,
    /// Memory that tasks touch.
    pub regions: Vec<RegionSpec>,
    /// How many messages each channel holds.
    pub channels: Vec<u32>,
    /// How many requests each device works on at once.
    pub devices: Vec<u32>,
    /// How many marks are counted.
    pub marks: usize,
}

/// A task that is there from the begin.
#[derive(Debug, Clone, Copy)]
pub struct TaskSpec {
    /// Its program.
    pub program: u32,
    /// Its weight to the fair class; 1024 for nice 0.
    pub weight: u64,
    /// The CPU that it stays on.
    pub pinned: Option<u32>,
    /// The process that it belongs to: tasks of a process share page tables.
    pub process: u32,
}

/// Memory that tasks touch.
#[derive(Debug, Clone, Copy)]
pub struct RegionSpec {
    /// Its pages.
    pub pages: u32,
    /// Whether they are huge.
    pub huge: bool,
    /// Steps of 4 KB of a page: 1, or 512 of a huge one.
    pub steps: u32,
}

/// A machine with its load.
#[derive(Debug)]
pub struct World {
    pub(crate) now: u64,
    pub(crate) agenda: Agenda,
    pub(crate) machine: Machine,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) fair: Fair,
    pub(crate) locks: Vec<Lock>,
    /// PostgreSQL's estimate of the whole server, which backends hand on.
    pub(crate) spins_per_delay: u32,
    pub(crate) code: Vec<Op>,
    pub(crate) entry: Vec<u32>,
    pub(crate) random: Random,
    pub(crate) seen: Seen,
    pub(crate) regions: Vec<RegionSpec>,
    /// By process and region: how far the touches have come, in steps.
    pub(crate) touched: Vec<u32>,
    /// CPUs without a task, by last level cache.
    pub(crate) idle: Vec<Vec<u64>>,
    /// CPUs with a task that waits, by last level cache.
    pub(crate) crowded: Vec<Vec<u64>>,
}

/// Events of a CPU, as offsets of its four slots.
pub(crate) const WORK: usize = 0;
pub(crate) const TICK: usize = 1;
pub(crate) const IPI: usize = 2;
const SLOTS: usize = 4;

impl World {
    /// A machine with its load, at time 0; all tasks can run.
    pub fn new(machine: &Machine, load: &Load, seed: u64) -> Self {
        let cpus = machine.topology.cpus() as usize;
        let mut code = Vec::new();
        let mut entry = Vec::new();
        for program in &load.programs {
            let base = code.len() as u32;
            entry.push(base);
            code.extend(program.ops.iter().map(|op| moved(*op, base)));
            code.push(Op::Exit);
        }
        let processes = load.tasks.iter().map(|t| t.process + 1).max().unwrap_or(0) as usize;
        let words = machine.topology.cpus_of_llc().div_ceil(64) as usize;
        let llcs = cpus / machine.topology.cpus_of_llc() as usize;
        let locks = locks::build(&load.locks);
        let mut world = World {
            now: 0,
            agenda: Agenda::new(cpus * SLOTS + load.tasks.len()),
            cpus: vec![Cpu::NEW; cpus],
            tasks: Vec::with_capacity(load.tasks.len()),
            fair: Fair::new(machine.kernel.fair, cpus),
            seen: nothing_seen(load, locks.len()),
            locks,
            spins_per_delay: wait::DEFAULT_SPINS_PER_DELAY,
            code,
            entry,
            random: Random::new(seed, 0),
            regions: load.regions.clone(),
            touched: vec![0; processes * load.regions.len()],
            idle: vec![vec![0; words]; llcs],
            crowded: vec![vec![0; words]; llcs],
            machine: machine.clone(),
        };
        for cpu in 0..cpus as u32 {
            world.set_idle(cpu, true);
        }
        for (number, spec) in load.tasks.iter().enumerate() {
            world.fair.add(spec.weight, None);
            let entry = world.entry[spec.program as usize];
            world.tasks.push(Task::new(spec, entry));
            world.backend_begins(number as u32);
            // Tasks begin one after the other, so that they do not all meet in the first nanosecond.
            let at = number as u64 * START_NS + world.random.below(START_NS);
            world.agenda.set(cpus * SLOTS + number, at);
        }
        world
    }

    /// Carries out every event until a time.
    pub fn run_until(&mut self, until_ns: u64) {
        let timers = self.cpus.len() * SLOTS;
        while let Some((at, slot)) = self.agenda.next() {
            if at > until_ns {
                break;
            }
            debug_assert!(at >= self.now, "time goes back");
            self.now = at;
            self.seen.events += 1;
            if slot < timers {
                let cpu = (slot / SLOTS) as u32;
                match slot % SLOTS {
                    WORK => self.over(cpu),
                    TICK => self.tick(cpu),
                    _ => self.interrupt(cpu),
                }
            } else {
                self.timer((slot - timers) as u32);
            }
        }
        self.now = until_ns;
    }

    /// The time, ns.
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// Forgets what was seen so far: the window opens.
    pub fn open(&mut self) {
        let fresh = |_: &RoleSeen| RoleSeen::new();
        let seen = &mut self.seen;
        seen.roles = seen.roles.iter().map(fresh).collect();
        for mark in &mut seen.marks {
            *mark = MarkSeen { count: 0, lengths: Histogram::new() };
        }
        for lock in &mut seen.locks {
            *lock = lock_seen();
        }
        seen.by_task.fill(0);
        (seen.events, seen.switches, seen.wakeups, seen.idle_ns) = (0, 0, 0, 0);
        (seen.ipis, seen.grants, seen.grants_expired) = (0, 0, 0);
        for cpu in &mut self.cpus {
            cpu.idle_since = cpu.idle_since.max(self.now);
        }
    }

    /// What was seen since the window opened.
    pub fn close(&mut self) -> &Seen {
        for cpu in 0..self.cpus.len() as u32 {
            let c = &mut self.cpus[cpu as usize];
            if c.current == IDLE {
                self.seen.idle_ns += self.now - c.idle_since;
                c.idle_since = self.now;
            } else {
                self.stop(cpu);
                self.arm(cpu);
            }
        }
        &self.seen
    }

    pub(crate) fn timer_slot(&self, task: u32) -> usize {
        self.cpus.len() * SLOTS + task as usize
    }

    /// What moving a cache line from one CPU to another takes.
    pub(crate) fn transfer_ns(&self, from: u32, to: u32) -> u64 {
        self.machine.costs.transfer_ns[self.machine.topology.distance(from, to) as usize]
    }

    /// A stretch of kernel code that can be left as the model allows.
    pub(crate) fn kernel(left: u64, inside: Inside, then: Then) -> Segment {
        Segment { left, done: 0, mode: Mode::Kernel, inside, then }
    }
}

/// The time within which one task after the other begins, ns.
const START_NS: u64 = 1_000;

fn lock_seen() -> LockSeen {
    LockSeen {
        acquisitions: 0,
        contended: 0,
        waits: Histogram::new(),
        holder_preempted: Histogram::new(),
        sleeps: 0,
        stuck: 0,
    }
}

fn nothing_seen(load: &Load, locks: usize) -> Seen {
    Seen {
        roles: load.programs.iter().map(|_| RoleSeen::new()).collect(),
        marks: (0..load.marks).map(|_| MarkSeen { count: 0, lengths: Histogram::new() }).collect(),
        locks: (0..locks).map(|_| lock_seen()).collect(),
        by_task: vec![0; load.tasks.len()],
        events: 0,
        switches: 0,
        wakeups: 0,
        idle_ns: 0,
        ipis: 0,
        grants: 0,
        grants_expired: 0,
    }
}

/// An operation of a program whose first one stands at `base`.
fn moved(op: Op, base: u32) -> Op {
    match op {
        Op::Jump(to) => Op::Jump(to + base),
        Op::Repeat { to, counter, times } => Op::Repeat { to: to + base, counter, times },
        Op::Chance { of, to } => Op::Chance { of, to: to + base },
        other => other,
    }
}
