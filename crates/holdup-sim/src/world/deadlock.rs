//! What stops a machine: deadlocks, programs in which no time passes, the end of the clock.

use super::task::State;
use super::{Mode, Policy, SLOTS, Then, World};
use crate::names::Names;
use crate::program::Op;
use holdup_model::Problem;

/// The longest that a machine can run, ns: 13 days. What accounting multiplies times with has room beside it.
const MOST_TIME_NS: u64 = 1 << 50;
/// The least time between two searches for deadlocks, ns.
const SEARCH_NS: u64 = 10_000_000;
/// A search costs a step for each task: in a long run this share of its time passes between two of them.
const SEARCH_SHARE: u64 = 16;
/// The most tasks of a chain that an error names.
const MOST_NAMED: usize = 8;

/// Why a machine stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Tasks wait for one another, or for something that cannot come: each with what it waits for, the first ones first.
    Deadlock(Vec<Waits>),
    /// A task runs without end, and no time passes.
    NoTime {
        task: u32,
        /// Its place in the code.
        pc: u32,
    },
    /// A task names the channel of a task that has none.
    NoChannel {
        task: u32,
        /// Its place in the code.
        pc: u32,
    },
    /// The time asked for is beyond what the machine's clock can count.
    Clock {
        /// The time, ns.
        asked_ns: u64,
        last_ns: u64,
    },
}

/// A task that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    pub task: u32,
    pub on: WaitsFor,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// A lock, and its holder, where that is known.
    Lock(u32, Option<u32>),
    /// A free lock, and no task will wake this one.
    FreeLock(u32),
    /// A CPU that a real-time task occupies.
    Cpu(u32, u32),
    Message,
    /// Room in a channel.
    Room,
    Children,
    /// The write of a log.
    Log,
    /// Nothing: it ended.
    Ended,
    /// Nothing: it can run.
    Nothing,
}

impl World {
    /// Executes every event until a time, and searches for deadlocks now and then.
    pub fn advance(&mut self, until_ns: u64) -> Result<(), Failure> {
        self.reaches(until_ns)?;
        while self.now < until_ns && self.failure.is_none() {
            let look_at = self.looked_at + SEARCH_NS.max(self.looked_at / SEARCH_SHARE);
            self.run_until(until_ns.min(look_at.max(self.now)));
            if self.failure.is_none() && self.now >= look_at {
                self.looked_at = self.now;
                self.failure = self.deadlock();
            }
        }
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Something is wrong: the run ends with the event under way.
    #[cold]
    pub(crate) fn fails(&mut self, failure: Failure) {
        self.end = 0;
        self.failure.get_or_insert(failure);
    }

    /// Whether the clock reaches a time.
    ///
    /// # Errors
    /// When it ends before.
    pub fn reaches(&self, until_ns: u64) -> Result<(), Failure> {
        let last_ns = self.agenda.last_time_ns().min(MOST_TIME_NS);
        if until_ns <= last_ns { Ok(()) } else { Err(Failure::Clock { asked_ns: until_ns, last_ns }) }
    }

    /// Checks that time has passed since the last call, a great many events ago.
    #[cold]
    pub(super) fn time_passes(&mut self) {
        let before = std::mem::replace(&mut self.counted_at, self.now);
        let cpu = self.slot / SLOTS;
        if before == self.now
            && let Some(task) = self.cpus.get(cpu).map(|c| c.current).filter(|task| (*task as usize) < self.tasks.len())
        {
            self.fails(Failure::NoTime { task, pc: self.tasks[task as usize].pc });
        }
    }

    /// Tasks that wait for something that never comes. A lock in the chain is enough; tasks that wait for messages alone may
    /// do so while any other task can run, as servers do.
    pub fn deadlock(&self) -> Option<Failure> {
        if !self.is_suspicious() {
            return None;
        }
        let can_run = self.which_can_run();
        let none_can = !can_run.contains(&true);
        let stuck = |task: &u32| !can_run[*task as usize] && self.tasks[*task as usize].state != State::Dead;
        let stuck: Vec<u32> = (0..self.tasks.len() as u32).filter(stuck).collect();
        let by_lock = |task: &&u32| {
            matches!(self.waits_on(**task), WaitsFor::Lock(..) | WaitsFor::FreeLock(_) | WaitsFor::Cpu(..))
        };
        let first = stuck.iter().find(by_lock).or(stuck.first().filter(|_| none_can))?;
        let chain = self.chain(*first);
        let stopped =
            match none_can && !matches!(chain[0].on, WaitsFor::Lock(..) | WaitsFor::FreeLock(_) | WaitsFor::Cpu(..)) {
                // No lock is involved: all tasks are named.
                true => stuck.iter().map(|task| Waits { task: *task, on: self.waits_on(*task) }).collect(),
                false => chain,
            };
        Some(Failure::Deadlock(stopped))
    }

    /// True if a search is due: a task waits for one that waits or has ended, or no task can run.
    fn is_suspicious(&self) -> bool {
        let mut any_can = false;
        for task in 0..self.tasks.len() as u32 {
            match self.waits_on(task) {
                WaitsFor::Nothing => any_can = true,
                WaitsFor::Lock(_, None) | WaitsFor::FreeLock(_) | WaitsFor::Cpu(..) => return true,
                WaitsFor::Lock(_, Some(holder)) if self.waits_on(holder) != WaitsFor::Nothing => return true,
                _ => {}
            }
        }
        !any_can
    }

    /// What a task waits for, as far as that can only come from another task.
    fn waits_on(&self, task: u32) -> WaitsFor {
        let t = &self.tasks[task as usize];
        let is_blocked = t.state == State::Blocked;
        if t.state == State::Dead {
            return WaitsFor::Ended;
        }
        if let Some(lock) = self.locks.get(t.waiting.wanted as usize) {
            let id = t.waiting.wanted;
            return match lock.inside {
                // It was handed over, or its waiter sees it soon.
                [0, 0] if is_blocked && !self.has_timer(task) => WaitsFor::FreeLock(id),
                [0, 0] => WaitsFor::Nothing,
                [0, _] => WaitsFor::Lock(id, None),
                _ => WaitsFor::Lock(id, Some(lock.holder).filter(|holder| (*holder as usize) < self.tasks.len())),
            };
        }
        if t.state == State::Runnable
            && let Some(cpu) = self.kept_from(task)
        {
            return WaitsFor::Cpu(cpu, self.cpus[cpu as usize].current);
        }
        if !is_blocked || self.has_timer(task) || t.device != u32::MAX {
            return WaitsFor::Nothing;
        }
        match t.segment.then {
            Then::Sends => WaitsFor::Room,
            Then::Receives => WaitsFor::Message,
            Then::Flushes => WaitsFor::Log,
            _ if t.joins => WaitsFor::Children,
            // A sleep, or a lock's own business.
            _ => WaitsFor::Nothing,
        }
    }

    fn has_timer(&self, task: u32) -> bool {
        self.agenda.at(self.timer_slot(task)).is_some()
    }

    /// The CPU that a task can have no other one than, and that a real-time task before it spins on.
    fn kept_from(&self, task: u32) -> Option<u32> {
        let t = &self.tasks[task as usize];
        let cpu = if self.cpus.len() == 1 { 0 } else { t.pinned };
        let c = self.cpus.get(cpu as usize)?;
        let other = self.tasks.get(c.current as usize)?;
        let Policy::Fifo(priority) = other.policy else { return None };
        let is_before = self.priority(task).is_none_or(|own| own <= priority);
        (is_before && other.segment.mode == Mode::Spin && other.segment.left == u64::MAX).then_some(cpu)
    }

    /// By task: whether it can run, now or after others did.
    fn which_can_run(&self) -> Vec<bool> {
        let waits: Vec<WaitsFor> = (0..self.tasks.len() as u32).map(|task| self.waits_on(task)).collect();
        let mut can: Vec<bool> = waits.iter().map(|on| *on == WaitsFor::Nothing).collect();
        loop {
            let any_can = can.contains(&true);
            let any = |is: &dyn Fn(usize) -> bool| (0..can.len()).any(|task| can[task] && is(task));
            let sends = any(&|task| self.can_come_to(task, &|op| matches!(op, Op::Send { .. } | Op::Transmit { .. })));
            let receives = any(&|task| self.can_come_to(task, &|op| matches!(op, Op::Receive(_) | Op::Take { .. })));
            let holders = any(&|task| self.tasks[task].held > 0);
            let parents: Vec<u32> =
                (0..can.len()).filter(|task| can[*task]).map(|task| self.tasks[task].parent).collect();
            let goes = |task: usize| match waits[task] {
                WaitsFor::Nothing => true,
                WaitsFor::Ended => false,
                WaitsFor::Lock(_, Some(holder)) => can.get(holder as usize).copied().unwrap_or(true),
                WaitsFor::Lock(_, None) => holders,
                WaitsFor::Cpu(_, other) => can[other as usize],
                WaitsFor::FreeLock(_) | WaitsFor::Log => any_can,
                WaitsFor::Message => sends,
                WaitsFor::Room => receives,
                WaitsFor::Children => parents.contains(&(task as u32)),
            };
            let next: Vec<bool> = (0..can.len()).map(|task| can[task] || goes(task)).collect();
            if next == can {
                return can;
            }
            can = next;
        }
    }

    /// True if a task's program, or one that it may make a task of, has such an operation.
    fn can_come_to(&self, task: usize, is: &dyn Fn(&Op) -> bool) -> bool {
        let mut open = vec![self.tasks[task].program as usize];
        let mut done = vec![false; self.entry.len()];
        while let Some(program) = open.pop() {
            if std::mem::replace(&mut done[program], true) {
                continue;
            }
            let begin = self.entry[program] as usize;
            let end = self.entry.get(program + 1).map_or(self.code.len(), |end| *end as usize);
            let code = &self.code[begin..end];
            if code.iter().any(is) {
                return true;
            }
            open.extend(code.iter().filter_map(|op| if let Op::Fork(made) = op { Some(*made as usize) } else { None }));
        }
        false
    }

    /// From a task on: which task waits for which, up to the first that comes again.
    fn chain(&self, first: u32) -> Vec<Waits> {
        let mut chain: Vec<Waits> = Vec::new();
        let mut task = first;
        loop {
            if let Some(begin) = chain.iter().position(|waits| waits.task == task) {
                // What led into the cycle is not part of it.
                return chain.split_off(begin);
            }
            let on = self.waits_on(task);
            chain.push(Waits { task, on });
            task = match on {
                WaitsFor::Lock(_, Some(holder)) => holder,
                WaitsFor::Cpu(_, other) => other,
                _ => return chain,
            };
        }
    }

    /// The program of a place in the code, and the number of the operation there.
    fn operation_at(&self, pc: u32) -> (u32, u32) {
        let program = self.entry.partition_point(|entry| *entry <= pc).saturating_sub(1);
        (program as u32, pc - self.entry.get(program).copied().unwrap_or(0))
    }

    /// The failure as an error for users.
    pub fn problem(&self, failure: &Failure, names: &Names) -> Problem {
        let at = format!("{}.{:03} ms of simulated time", self.now / 1_000_000, self.now / 1_000 % 1_000);
        let place = |pc| {
            let (program, op) = self.operation_at(pc);
            names.operation(program, op)
        };
        match failure {
            Failure::Deadlock(chain) => deadlock(chain, names, &at),
            Failure::NoTime { task, pc } => Problem::trial(
                format!("{}: task {} at {at}", place(*pc), names.task(*task)),
                "the loop runs without any time passing",
            )
            .hint("let something in the loop take time: compute, sleep, a lock or a system call"),
            Failure::NoChannel { task, pc } => Problem::trial(
                format!("{}: task {} at {at}", place(*pc), names.task(*task)),
                "the task whose channel it names has none",
            )
            .hint("give the task an inbox or a peer; `sender` is the task that sent the last message received"),
            Failure::Clock { asked_ns, last_ns } => Problem::trial(
                format!("{} s of simulated time", asked_ns / 1_000_000_000),
                format!("the clock of this machine ends at {} s", last_ns / 1_000_000_000),
            )
            .hint("simulate a shorter time, or fewer tasks and CPUs"),
        }
    }
}

fn deadlock(chain: &[Waits], names: &Names, at: &str) -> Problem {
    let describe = |waits: &Waits| {
        let task = names.task(waits.task);
        match waits.on {
            WaitsFor::Lock(lock, Some(holder)) if holder == waits.task => {
                format!("{task} waits for {}, which it holds itself", names.lock(lock))
            }
            WaitsFor::Lock(lock, Some(holder)) => {
                format!("{task} waits for {}, which {} holds", names.lock(lock), names.task(holder))
            }
            WaitsFor::Lock(lock, None) => format!("{task} waits for {}, which others hold shared", names.lock(lock)),
            WaitsFor::FreeLock(lock) => {
                format!("{task} sleeps for {}, which is free, and no task wakes it", names.lock(lock))
            }
            WaitsFor::Cpu(cpu, other) => {
                format!("{task} waits for cpu {cpu}, which {} occupies", names.task(other))
            }
            WaitsFor::Message => format!("{task} waits for a message that no task sends"),
            WaitsFor::Room => format!("{task} waits for room in a channel that no task reads"),
            WaitsFor::Children => format!("{task} waits for its children"),
            WaitsFor::Log => format!("{task} waits for a log that no task writes"),
            WaitsFor::Ended => format!("{task} has ended"),
            WaitsFor::Nothing => format!("{task} can run"),
        }
    };
    let mut waits: Vec<String> = chain.iter().take(MOST_NAMED).map(describe).collect();
    if chain.len() > MOST_NAMED {
        waits.push(format!("and {} more", chain.len() - MOST_NAMED));
    }
    let hint = match chain {
        [one] if matches!(one.on, WaitsFor::Lock(_, Some(holder)) if holder == one.task) => {
            "give the lock back before taking it again"
        }
        [.., last] if last.on == WaitsFor::Ended => "give every lock back before the program ends",
        _ if chain.iter().any(|waits| matches!(waits.on, WaitsFor::Cpu(..))) => {
            "do not let a real-time task spin for a lock whose holder waits for the same CPU"
        }
        _ if chain.iter().all(|waits| matches!(waits.on, WaitsFor::Lock(..))) => {
            "take locks in the same order everywhere"
        }
        _ => "every message that a task waits for must be sent: keep a task running that wakes the others",
    };
    Problem::trial(format!("deadlock, found at {at}"), waits.join("; ")).hint(hint)
}
