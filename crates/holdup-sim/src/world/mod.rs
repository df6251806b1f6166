//! The simulated machine at work.

mod balance;
mod bits;
mod channel;
mod class;
mod cpu;
mod deadlock;
mod device;
mod execute;
mod invariants;
mod lock_wait;
mod lookahead;
mod recording;
mod replay;
mod select_cpu;
mod slice_extension;
mod switch;
mod task;
mod trace;

pub use class::Policy;
pub(crate) use cpu::IDLE;
pub use deadlock::Failure;
pub use invariants::InvariantReport;
pub(crate) use replay::PHASES;
pub use task::Mode;
pub(crate) use task::{Segment, Task, Then};
pub use trace::{Event, PreemptedAt, ReschedRequest, SwitchReason, TraceEntry};

use crate::agenda::Agenda;
use crate::combine::Part;
use crate::locking::{self, Lock};
use crate::machine::Machine;
use crate::program::{MarkId, Op, Preemption, Program};
use crate::random::{Random, Span, Stream, mixed};
use crate::record::Recorder;
use crate::sched::fair::Fair;
use crate::sched::group::GroupSpec;
use crate::sched::rt::Rt;
use crate::stats::{LockStats, MarkStats, ProgramStats, WindowStats};
use bits::{Bits, Counts};
use cpu::Cpu;
use holdup_model::{Replay, SparseHistogram};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All that runs on a machine.
#[derive(Debug, Clone, Default)]
pub struct Load {
    /// The programs; a task names one by its number.
    pub programs: Vec<Program>,
    /// The tasks that exist in the beginning.
    pub tasks: Vec<TaskSpec>,
    /// The locks, each with the name of its algorithm. Their stats come in the same order, and after them those of the locks
    /// inside of them.
    pub locks: Vec<&'static str>,
    /// Memory that tasks touch.
    pub regions: Vec<RegionSpec>,
    /// What messages go through.
    pub channels: Vec<ChannelSpec>,
    /// How many requests each device serves at the same time.
    pub devices: Vec<u32>,
    /// The logs, each with its device and how long that takes to write.
    pub logs: Vec<LogSpec>,
    /// The most tasks that are alive at the same time; 0 for as many as there are in the beginning.
    pub most_tasks: usize,
    /// Groups that share CPU time as one.
    pub groups: Vec<GroupSpec>,
    /// How many marks are counted.
    pub marks: usize,
    /// Marks that are counted by task as the first one is ([`WindowStats::by_task`]): the first ones of further workloads.
    pub by_task: Vec<MarkId>,
    /// What belongs to which workload, where there are several.
    pub parts: Vec<Part>,
    /// The trace that all tasks follow, in the order of its tasks.
    pub replay: Option<Arc<Replay>>,
}

impl Load {
    /// The same with a group for each session, of tasks that are in none (kernel/sched/autogroup.c, v6.18).
    fn by_session(&self) -> Load {
        let mut load = self.clone();
        let mut groups: BTreeMap<u32, u32> = BTreeMap::new();
        // Threads of the kernel stay in the root group.
        for task in load.tasks.iter_mut().filter(|task| task.group.is_none() && !task.kernel) {
            let group = *groups.entry(task.session).or_insert_with(|| {
                load.groups.push(GroupSpec::new(&format!("session {}", task.session)));
                load.groups.len() as u32 - 1
            });
            task.group = Some(group);
        }
        load
    }
}

/// What messages go through: a socket, a pipe, the queue of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSpec {
    /// The most messages in it.
    pub most: u32,
    /// Tasks that wait for room are all woken when only this number of messages is left; `None`: each message that is taken
    /// wakes one of them.
    pub refills_at: Option<u32>,
    /// The mark whose begin a message carries: the receiver has then begun the mark when the sender did.
    pub carries: Option<MarkId>,
}

impl From<u32> for ChannelSpec {
    /// A channel with room for this number of messages that wakes one writer for each that is taken.
    fn from(most: u32) -> Self {
        ChannelSpec { most, refills_at: None, carries: None }
    }
}

/// A task that exists in the beginning.
#[derive(Debug, Clone, Copy)]
pub struct TaskSpec {
    pub program: u32,
    /// Its weight to the fair class; 1024 for nice 0 ([`crate::sched::weight::of_nice`]).
    pub weight: u64,
    /// How it is scheduled.
    pub policy: Policy,
    /// The slice that it asks for, ns (`sched_attr.sched_runtime`, from 6.12 on).
    pub slice_ns: Option<u64>,
    /// Its group; `None`: the root.
    pub group: Option<u32>,
    /// Its session (setsid()): those of the load that holdup starts are in session 0.
    pub session: u32,
    /// The CPU that it stays on.
    pub pinned: Option<u32>,
    /// The process that it belongs to: tasks of a process share page tables.
    pub process: u32,
    /// Its own channel.
    pub inbox: Option<u32>,
    /// Its peer's channel.
    pub peer: Option<u32>,
    /// True if it is a kernel thread: its operations enter no kernel, and between them it reschedules where
    /// `cond_resched()` does.
    pub kernel: bool,
    /// When it begins, ns; `None`: in the first microseconds, one after the other.
    pub begins_ns: Option<u64>,
}

impl TaskSpec {
    /// A task of nice 0 that runs a program, in a process.
    pub fn new(program: u32, process: u32) -> Self {
        TaskSpec { program, process, ..TaskSpec::default() }
    }
}

/// A log on a device.
#[derive(Debug, Clone, Copy)]
pub struct LogSpec {
    pub device: u32,
    /// How long it takes to write what is there.
    pub write: Span,
    /// The LWLock that the writer holds and the others wait for (WALWriteLock); `None`: they wait in a queue without a
    /// lock.
    pub lock: Option<u32>,
}

impl Default for TaskSpec {
    /// Program 0 of process 0 under SCHED_OTHER with nice 0, wherever there is room.
    fn default() -> Self {
        TaskSpec {
            program: 0,
            weight: crate::sched::weight::NICE_0,
            policy: Policy::Other,
            slice_ns: None,
            group: None,
            session: 0,
            pinned: None,
            process: 0,
            inbox: None,
            peer: None,
            kernel: false,
            begins_ns: None,
        }
    }
}

/// Memory that tasks touch.
#[derive(Debug, Clone, Copy)]
pub struct RegionSpec {
    /// True if its pages are huge.
    pub huge: bool,
    /// Steps of a page: 1 for touches of 4 KB steps of 4 KB pages, 512 of huge ones; for a region that all walk through
    /// together, how many of its members lie in a page.
    pub steps: u32,
    /// True if all tasks walk through it together, each touch the next step of all: a list of free buffers. A page faults
    /// when the task that touches it did not touch it last; otherwise each process walks through it alone.
    pub together: bool,
    /// How many steps there are before the region is used up and touches do nothing; 0 for no end.
    pub end: u64,
    /// True if every task has its page table entries from the beginning, so that no touch is a fault.
    pub mapped: bool,
}

/// A machine with its load.
#[derive(Debug)]
pub struct World {
    pub(crate) now: u64,
    /// The slot of the event under way.
    pub(crate) slot: usize,
    pub(crate) opened_at: u64,
    pub(crate) agenda: Agenda,
    pub(crate) machine: Machine,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) fair: Fair,
    pub(crate) rt: Rt,
    /// CPUs whose last task was no real-time one.
    pub(crate) not_rt: Bits,
    pub(crate) locks: Vec<Lock>,
    /// PostgreSQL's estimate of the whole server, which backends hand on.
    pub(crate) spins_per_delay: u32,
    pub(crate) code: Vec<Op>,
    pub(crate) entry: Vec<u32>,
    /// What the machine draws; what programs draw is their tasks'.
    pub(crate) random: Random,
    pub(crate) seen: WindowStats,
    /// The marks that are counted by task, as bits.
    pub(crate) by_task: u64,
    pub(crate) regions: Vec<RegionSpec>,
    /// By process and region: how far the touches have come, in steps.
    pub(crate) touched: Vec<u32>,
    /// By region: how far all together have come.
    pub(crate) cursors: Vec<u64>,
    pub(crate) channels: Vec<channel::Buffer>,
    pub(crate) devices: Vec<device::Device>,
    pub(crate) logs: Vec<device::Log>,
    pub(crate) most_tasks: usize,
    /// Tasks that ended, whose places can be taken.
    pub(crate) free_tasks: Vec<u32>,
    /// CPUs without a task, and cores of which all are.
    pub(crate) idle: Bits,
    pub(crate) idle_cores: Bits,
    /// CPUs with a task that waits.
    pub(crate) crowded: Bits,
    /// Tasks of each CPU that can run.
    pub(crate) counts: Counts,
    /// The trace, where one was asked for.
    pub(crate) trace: Option<Box<trace::Trace>>,
    /// The first time that is not reached any more, ns; 0 when something went wrong.
    pub(crate) end: u64,
    pub(crate) failure: Option<Failure>,
    /// When deadlocks were searched last, ns.
    pub(crate) looked_at: u64,
    /// The time of the last check that time passes, ns; `u64::MAX` before.
    pub(crate) counted_at: u64,
    /// The record, where one was asked for.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// How far the tasks of a trace have come, where they follow one.
    followers: Option<Box<replay::Followers>>,
    #[cfg(test)]
    pub(crate) each_stretch: bool,
}

/// The most marks of a load.
pub const MOST_MARKS: usize = task::MOST_BEGUN;

/// Events of a CPU, as offsets of its slots. WORK is the one that the agenda knows to be set often.
pub(crate) const WORK: usize = 0;
pub(crate) const TICK: usize = 1;
pub(crate) const IPI: usize = 2;
pub(crate) const HRTICK: usize = 3;
pub(crate) const GRANT: usize = 4;
pub(crate) const SLOTS: usize = 5;

impl World {
    /// A machine with its load, at time 0; all tasks can run.
    pub fn new(machine: &Machine, load: &Load, seed: u64) -> Self {
        let load = &*if machine.kernel.autogroup { Cow::Owned(load.by_session()) } else { Cow::Borrowed(load) };
        let cpus = machine.topology.cpus() as usize;
        let mut code = Vec::new();
        let mut entry = Vec::new();
        for program in &load.programs {
            let base = code.len() as u32;
            entry.push(base);
            code.extend(program.ops.iter().map(|op| op.with_target(op.target().unwrap_or(0) + base)));
            code.push(Op::Exit);
        }
        let processes = load.tasks.iter().map(|t| t.process + 1).max().unwrap_or(0) as usize;
        let locks = locking::build(&load.locks);
        let most_tasks = load.tasks.len().max(load.most_tasks);
        let mut world = World {
            now: 0,
            slot: 0,
            opened_at: 0,
            agenda: Agenda::with_often(cpus * SLOTS + load.groups.len() + most_tasks, SLOTS, cpus),
            cpus: vec![Cpu::idle(2 * machine.kernel.migration_cost_ns); cpus],
            tasks: Vec::with_capacity(load.tasks.len()),
            fair: class::fair_of(&machine.kernel, cpus, load),
            rt: Rt::new(cpus),
            not_rt: Bits::new(cpus),
            seen: empty_stats(load, locks.len()),
            locks,
            spins_per_delay: lock_wait::DEFAULT_SPINS_PER_DELAY,
            code,
            entry,
            random: Random::new(seed, 0),
            by_task: load.by_task.iter().fold(1, |bits, mark| bits | 1 << mark),
            regions: load.regions.clone(),
            touched: vec![0; processes * load.regions.len()],
            cursors: vec![0; load.regions.len()],
            channels: channel::build(load),
            devices: load.devices.iter().map(|at_once| device::Device::new(*at_once)).collect(),
            logs: load.logs.iter().map(|spec| device::Log::new(*spec)).collect(),
            most_tasks,
            free_tasks: Vec::new(),
            idle: Bits::new(cpus),
            idle_cores: Bits::new(cpus),
            crowded: Bits::new(cpus),
            counts: Counts::new(cpus),
            trace: None,
            end: 0,
            failure: None,
            looked_at: 0,
            counted_at: u64::MAX,
            recorder: None,
            followers: None,
            #[cfg(test)]
            each_stretch: false,
            machine: machine.clone(),
        };
        world.boot(load, seed);
        world
    }

    /// All CPUs are idle, and tasks and groups have their first events.
    fn boot(&mut self, load: &Load, seed: u64) {
        for cpu in 0..self.cpus.len() as u32 {
            self.set_idle(cpu, true);
            self.not_rt.set(cpu, true);
        }
        for (number, group) in load.groups.iter().enumerate().filter(|(_, group)| group.quota_ns > 0) {
            self.agenda.set(self.cpus.len() * SLOTS + number, group.period_ns.max(1));
        }
        for (number, spec) in load.tasks.iter().enumerate() {
            self.fair.add(&class::share_of(spec));
            let stream = Stream::new(mixed(mixed(seed) ^ number as u64));
            self.tasks.push(Task::new(spec, self.entry[spec.program as usize], stream));
            self.backend_begins(number as u32);
            // Tasks begin one after the other, so that they do not all meet in the first nanosecond.
            let at = number as u64 * START_NS + self.random.below(START_NS);
            let at = spec.begins_ns.unwrap_or(at);
            let slot = self.timer_slot(number as u32);
            self.agenda.set(slot, at);
        }
        self.begin_replay(load);
    }

    /// Executes every event until a time, or until something goes wrong ([`World::advance`] returns what).
    pub fn run_until(&mut self, until_ns: u64) {
        if let Err(failure) = self.reaches(until_ns) {
            self.fails(failure);
        }
        if self.failure.is_some() {
            return;
        }
        self.end = until_ns + 1;
        let (groups, timers) = (self.cpus.len() * SLOTS, self.timer_slot(0));
        while let Some((at, slot)) = self.agenda.next() {
            if at >= self.end {
                break;
            }
            debug_assert!(at >= self.now, "time goes back");
            (self.now, self.slot) = (at, slot);
            self.seen.events += 1;
            if self.seen.events.is_multiple_of(MOST_AT_ONE_TIME) {
                self.time_passes();
            }
            if slot < groups {
                let cpu = (slot / SLOTS) as u32;
                match slot % SLOTS {
                    WORK => self.over(cpu),
                    TICK => self.tick(cpu),
                    HRTICK => self.hrtick(cpu),
                    GRANT => self.grant_expires(cpu),
                    _ => self.interrupt(cpu),
                }
            } else if slot < timers {
                self.period((slot - groups) as u32);
            } else {
                self.timer((slot - timers) as u32);
            }
        }
        if self.failure.is_some() {
            return;
        }
        // All events of this time are carried out.
        (self.now, self.slot) = (until_ns, usize::MAX);
    }

    /// The time, ns.
    pub fn now_ns(&self) -> u64 {
        self.now
    }

    /// Opens the window: resets the counters.
    pub fn open(&mut self) {
        self.opened_at = self.now;
        for lock in &mut self.locks {
            lock.behind_since = lock.behind_since.map(|_| self.now);
        }
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE {
                self.stop(cpu);
                self.arm(cpu);
            }
        }
        let seen = &mut self.seen;
        seen.roles.fill(ProgramStats::default());
        for mark in &mut seen.marks {
            *mark = MarkStats { before: mark.before + mark.count, ..MarkStats::default() };
        }
        seen.locks.fill(LockStats::default());
        seen.by_task.fill(0);
        seen.cpu_ns.fill(0);
        if let Some(replay) = &mut seen.replay {
            replay.waits.fill(SparseHistogram::new());
        }
        self.fair.open(self.now);
        let seen = &mut self.seen;
        (seen.events, seen.switches, seen.wakeups, seen.idle_ns) = (0, 0, 0, 0);
        (seen.ipis, seen.grants, seen.grants_expired, seen.overhead_ns) = (0, 0, 0, 0);
        for cpu in &mut self.cpus {
            cpu.idle_since = cpu.idle_since.max(self.now);
            // What a switch under way still costs belongs to the window.
            if cpu.current != IDLE {
                self.seen.overhead_ns += cpu.busy_from.saturating_sub(self.now);
            }
        }
        if self.recorder.is_some() {
            self.record_begins();
        }
    }

    /// The counters since the window opened.
    pub fn close(&mut self) -> &WindowStats {
        for lock in 0..self.locks.len() as u32 {
            self.count_behind(lock);
        }
        for cpu in 0..self.cpus.len() as u32 {
            let c = &mut self.cpus[cpu as usize];
            if c.current == IDLE {
                self.seen.idle_ns += self.now.saturating_sub(c.idle_since);
                c.idle_since = c.idle_since.max(self.now);
            } else {
                let left_ns = c.busy_from.saturating_sub(self.now);
                self.seen.overhead_ns = self.seen.overhead_ns.saturating_sub(left_ns);
                self.stop(cpu);
                self.arm(cpu);
            }
        }
        self.seen.groups = self.fair.seen(self.now);
        &self.seen
    }

    /// Events since the window opened.
    pub fn events(&self) -> u64 {
        self.seen.events
    }

    pub(crate) fn timer_slot(&self, task: u32) -> usize {
        self.cpus.len() * SLOTS + self.fair.groups.len() + task as usize
    }

    /// The time to move a cache line from one CPU to another.
    pub(crate) fn transfer_ns(&self, from: u32, to: u32) -> u64 {
        self.machine.costs.transfer_ns[self.machine.topology.distance(from, to) as usize]
    }
}

/// If no time passes in this number of events, none ever will: a power of two.
const MOST_AT_ONE_TIME: u64 = 1 << 20;

/// The time within which one task after the other begins, ns.
const START_NS: u64 = 1_000;

fn empty_stats(load: &Load, locks: usize) -> WindowStats {
    WindowStats {
        roles: vec![ProgramStats::default(); load.programs.len()],
        marks: vec![MarkStats::default(); load.marks],
        locks: vec![LockStats::default(); locks],
        by_task: vec![0; load.tasks.len()],
        cpu_ns: vec![0; load.tasks.len()],
        parts: load.parts.clone(),
        ..WindowStats::default()
    }
}
