//! Whether everything can go on: deadlocks, programs in which no time passes, the end of the clock.

use super::task::State;
use super::{Mode, Policy, SLOTS, Then, World};
use crate::names::Names;
use crate::program::Op;
use holdup_model::Problem;

/// The longest that a machine can run, ns: 13 days. What accounting multiplies times with has room beside it.
const MOST_TIME_NS: u64 = 1 << 50;
/// The least time between two looks at who waits for whom, ns.
const LOOK_NS: u64 = 10_000_000;
/// A look costs a step for each task: in a long run this share of its time passes between two of them.
const LOOK_SHARE: u64 = 16;
/// The most tasks of a chain that are told.
const MOST_TOLD: usize = 8;

/// What keeps a machine from going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Tasks wait for one another, or for something that cannot come: each with what it waits for, the first ones first.
    Deadlock(Vec<Waits>),
    /// A task goes on and on, and no time passes.
    NoTime {
        /// The task.
        task: u32,
        /// Its place in the code.
        pc: u32,
    },
    /// A task names the channel of a task that has none.
    NoChannel {
        /// The task.
        task: u32,
        /// Its place in the code.
        pc: u32,
    },
    /// The time asked for is beyond what the machine's clock can count.
    Clock {
        /// The time, ns.
        asked_ns: u64,
        /// The last one, ns.
        last_ns: u64,
    },
}

/// A task that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// The task.
    pub task: u32,
    /// For what.
    pub on: On,
}

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A lock, and who holds it, where that is known.
    Lock(u32, Option<u32>),
    /// A lock that nobody holds, without anybody who would wake the task.
    FreeLock(u32),
    /// A CPU that a real-time task does not leave.
    Cpu(u32, u32),
    /// A message.
    Message,
    /// Room in a channel.
    Room,
    /// The tasks that it made.
    Children,
    /// Somebody who writes a log.
    Log,
    /// Nothing: it ended.
    Ended,
    /// Nothing: it can go on.
    Nothing,
}

impl World {
    /// Carries out every event until a time, and looks now and then whether everything can go on.
    ///
    /// # Errors
    /// What keeps it from going on.
    pub fn advance(&mut self, until_ns: u64) -> Result<(), Trouble> {
        self.reaches(until_ns)?;
        while self.now < until_ns && self.trouble.is_none() {
            let look_at = self.looked_at + LOOK_NS.max(self.looked_at / LOOK_SHARE);
            self.run_until(until_ns.min(look_at.max(self.now)));
            if self.trouble.is_none() && self.now >= look_at {
                self.looked_at = self.now;
                self.trouble = self.deadlock();
            }
        }
        self.trouble.clone().map_or(Ok(()), Err)
    }

    /// Something is wrong: the run ends with the event under way.
    #[cold]
    pub(crate) fn fails(&mut self, trouble: Trouble) {
        self.end = 0;
        self.trouble.get_or_insert(trouble);
    }

    /// Whether the clock reaches a time.
    ///
    /// # Errors
    /// When it ends before.
    pub fn reaches(&self, until_ns: u64) -> Result<(), Trouble> {
        let last_ns = self.agenda.last_time_ns().min(MOST_TIME_NS);
        if until_ns <= last_ns { Ok(()) } else { Err(Trouble::Clock { asked_ns: until_ns, last_ns }) }
    }

    /// A great many events have passed since the last call: whether any time has.
    #[cold]
    pub(super) fn time_passes(&mut self) {
        let before = std::mem::replace(&mut self.counted_at, self.now);
        let cpu = self.slot / SLOTS;
        if before == self.now
            && let Some(task) = self.cpus.get(cpu).map(|c| c.current).filter(|task| (*task as usize) < self.tasks.len())
        {
            self.fails(Trouble::NoTime { task, pc: self.tasks[task as usize].pc });
        }
    }

    /// Who waits for somebody that never comes. A lock in the chain is enough; tasks that wait for messages alone may do so
    /// while anybody else can go on, as servers do.
    pub fn deadlock(&self) -> Option<Trouble> {
        if !self.is_suspicious() {
            return None;
        }
        let can_go_on = self.those_that_can_go_on();
        let nobody = !can_go_on.contains(&true);
        let stuck = |task: &u32| !can_go_on[*task as usize] && self.tasks[*task as usize].state != State::Dead;
        let stuck: Vec<u32> = (0..self.tasks.len() as u32).filter(stuck).collect();
        let by_lock = |task: &&u32| matches!(self.waits_on(**task), On::Lock(..) | On::FreeLock(_) | On::Cpu(..));
        let first = stuck.iter().find(by_lock).or(stuck.first().filter(|_| nobody))?;
        let chain = self.chain(*first);
        let told = match nobody && !matches!(chain[0].on, On::Lock(..) | On::FreeLock(_) | On::Cpu(..)) {
            // Nobody holds anything: all of them are told.
            true => stuck.iter().map(|task| Waits { task: *task, on: self.waits_on(*task) }).collect(),
            false => chain,
        };
        Some(Trouble::Deadlock(told))
    }

    /// Whether a closer look is due: somebody waits for one that waits or is gone, or nobody can go on.
    fn is_suspicious(&self) -> bool {
        let mut anybody = false;
        for task in 0..self.tasks.len() as u32 {
            match self.waits_on(task) {
                On::Nothing => anybody = true,
                On::Lock(_, None) | On::FreeLock(_) | On::Cpu(..) => return true,
                On::Lock(_, Some(holder)) if self.waits_on(holder) != On::Nothing => return true,
                _ => {}
            }
        }
        !anybody
    }

    /// What a task waits for, as far as that can only come from another task.
    fn waits_on(&self, task: u32) -> On {
        let t = &self.tasks[task as usize];
        let is_blocked = t.state == State::Blocked;
        if t.state == State::Dead {
            return On::Ended;
        }
        if let Some(lock) = self.locks.get(t.waiting.wanted as usize) {
            let id = t.waiting.wanted;
            return match lock.inside {
                // It was handed over, or its waiter sees it soon.
                [0, 0] if is_blocked && !self.has_timer(task) => On::FreeLock(id),
                [0, 0] => On::Nothing,
                [0, _] => On::Lock(id, None),
                _ => On::Lock(id, Some(lock.holder).filter(|holder| (*holder as usize) < self.tasks.len())),
            };
        }
        if t.state == State::Runnable
            && let Some(cpu) = self.kept_from(task)
        {
            return On::Cpu(cpu, self.cpus[cpu as usize].current);
        }
        if !is_blocked || self.has_timer(task) || t.device != u32::MAX {
            return On::Nothing;
        }
        match t.segment.then {
            Then::Sends => On::Room,
            Then::Receives => On::Message,
            Then::Flushes => On::Log,
            _ if t.joins => On::Children,
            // A sleep, or a lock's own business.
            _ => On::Nothing,
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

    /// By task: whether it can go on, now or when others did.
    fn those_that_can_go_on(&self) -> Vec<bool> {
        let waits: Vec<On> = (0..self.tasks.len() as u32).map(|task| self.waits_on(task)).collect();
        let mut can: Vec<bool> = waits.iter().map(|on| *on == On::Nothing).collect();
        loop {
            let anybody = can.contains(&true);
            let any = |is: &dyn Fn(usize) -> bool| (0..can.len()).any(|task| can[task] && is(task));
            let sends = any(&|task| self.can_come_to(task, &|op| matches!(op, Op::Send { .. } | Op::Transmit { .. })));
            let receives = any(&|task| self.can_come_to(task, &|op| matches!(op, Op::Receive(_) | Op::Take { .. })));
            let holders = any(&|task| self.tasks[task].held > 0);
            let parents: Vec<u32> =
                (0..can.len()).filter(|task| can[*task]).map(|task| self.tasks[task].parent).collect();
            let goes = |task: usize| match waits[task] {
                On::Nothing => true,
                On::Ended => false,
                On::Lock(_, Some(holder)) => can.get(holder as usize).copied().unwrap_or(true),
                On::Lock(_, None) => holders,
                On::Cpu(_, other) => can[other as usize],
                On::FreeLock(_) | On::Log => anybody,
                On::Message => sends,
                On::Room => receives,
                On::Children => parents.contains(&(task as u32)),
            };
            let next: Vec<bool> = (0..can.len()).map(|task| can[task] || goes(task)).collect();
            if next == can {
                return can;
            }
            can = next;
        }
    }

    /// Whether a task's program, or one that it may make a task of, has such an operation.
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

    /// From a task on: who waits for whom, up to the first one that comes again.
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
                On::Lock(_, Some(holder)) => holder,
                On::Cpu(_, other) => other,
                _ => return chain,
            };
        }
    }

    /// The program of a place in the code, and the number of the operation there.
    fn operation_at(&self, pc: u32) -> (u32, u32) {
        let program = self.entry.partition_point(|entry| *entry <= pc).saturating_sub(1);
        (program as u32, pc - self.entry.get(program).copied().unwrap_or(0))
    }

    /// What went wrong, for a user.
    pub fn problem(&self, trouble: &Trouble, names: &Names) -> Problem {
        let at = format!("{}.{:03} ms of simulated time", self.now / 1_000_000, self.now / 1_000 % 1_000);
        let place = |pc| {
            let (program, op) = self.operation_at(pc);
            names.operation(program, op)
        };
        match trouble {
            Trouble::Deadlock(chain) => deadlock(chain, names, &at),
            Trouble::NoTime { task, pc } => Problem::trial(
                format!("{}: task {} at {at}", place(*pc), names.task(*task)),
                "it goes on and on without any time passing",
            )
            .hint("let something in the loop take time: compute, sleep, a lock or a system call"),
            Trouble::NoChannel { task, pc } => Problem::trial(
                format!("{}: task {} at {at}", place(*pc), names.task(*task)),
                "the channel that it names by way of a task does not exist",
            )
            .hint("give the task an inbox or a peer; `sender` is who sent the last message that was received"),
            Trouble::Clock { asked_ns, last_ns } => Problem::trial(
                format!("{} s of simulated time", asked_ns / 1_000_000_000),
                format!("the clock of this machine ends at {} s", last_ns / 1_000_000_000),
            )
            .hint("simulate a shorter time, or fewer tasks and CPUs"),
        }
    }
}

fn deadlock(chain: &[Waits], names: &Names, at: &str) -> Problem {
    let says = |waits: &Waits| {
        let task = names.task(waits.task);
        match waits.on {
            On::Lock(lock, Some(holder)) if holder == waits.task => {
                format!("{task} waits for {}, which it holds itself", names.lock(lock))
            }
            On::Lock(lock, Some(holder)) => {
                format!("{task} waits for {}, which {} holds", names.lock(lock), names.task(holder))
            }
            On::Lock(lock, None) => format!("{task} waits for {}, which others hold shared", names.lock(lock)),
            On::FreeLock(lock) => format!("{task} sleeps for {}, which is free, and nobody wakes it", names.lock(lock)),
            On::Cpu(cpu, other) => format!("{task} waits for cpu {cpu}, which {} does not leave", names.task(other)),
            On::Message => format!("{task} waits for a message that nobody sends"),
            On::Room => format!("{task} waits for room in a channel that nobody reads"),
            On::Children => format!("{task} waits for tasks that it made"),
            On::Log => format!("{task} waits for a log that nobody writes"),
            On::Ended => format!("{task} has ended"),
            On::Nothing => format!("{task} can go on"),
        }
    };
    let mut told: Vec<String> = chain.iter().take(MOST_TOLD).map(says).collect();
    if chain.len() > MOST_TOLD {
        told.push(format!("and {} more", chain.len() - MOST_TOLD));
    }
    let hint = match chain {
        [one] if matches!(one.on, On::Lock(_, Some(holder)) if holder == one.task) => {
            "give the lock back before taking it again"
        }
        [.., last] if last.on == On::Ended => "give every lock back before the program ends",
        _ if chain.iter().any(|waits| matches!(waits.on, On::Cpu(..))) => {
            "let a real-time task not spin for what a task behind it holds"
        }
        _ if chain.iter().all(|waits| matches!(waits.on, On::Lock(..))) => "take locks in the same order everywhere",
        _ => "let somebody go on who wakes the others: every message that is waited for must be sent",
    };
    Problem::trial(format!("deadlock, seen at {at}"), told.join("; ")).hint(hint)
}
