//! What was counted in one window. Windows can be added up.

use crate::event::{Left, Name};
use holdup_model::SparseHistogram;
use holdup_model::stacks::Stack;
use holdup_model::timeline::TimelineEvent;
use std::collections::BTreeMap;

/// States of a task that is not asleep.
pub(super) const STATES: usize = 5;
pub(super) const ON: usize = 0;
pub(super) const BEHIND_OWN: usize = 1;
pub(super) const BEHIND_OTHER: usize = 2;
pub(super) const BEHIND_CLASS: usize = 3;
pub(super) const WAKING: usize = 4;

/// Ways to leave a CPU, in the order of [`Left`].
pub(super) const LEFT: usize = 5;

/// Why a runnable task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Wakeup,
    Slice,
    Class,
    Other,
}

pub(super) const CAUSES: usize = 4;

/// Pairs of names that are kept of a window.
const MOST_PAIRS: usize = 4096;
/// Tasks of a window whose waits are kept one by one; of others there are sums.
const MOST_TASKS: usize = 4096;
/// Tasks of a window with numbers of their own; those of others are added up.
const MOST_TALLIES: usize = 16_384;
/// Thread ids are smaller (`PID_MAX_LIMIT`, include/linux/threads.h).
pub(super) const TIDS: u32 = 1 << 22;
/// The place of what is added up, which is no thread id.
pub(super) const OTHERS: u32 = u32::MAX;
/// Different stacks of a window; others are those of their task without a stack.
const MOST_STACKS: usize = 50_000;
/// Events of a window that are kept for the timeline.
const MOST_EVENTS: usize = 30_000;

/// The numbers of one task in a window.
#[derive(Debug, Clone, Default)]
pub struct TaskTally {
    pub name: Name,
    /// Time on a CPU, ns.
    pub on_ns: u64,
    /// Time runnable without one, ns.
    pub without_ns: u64,
    /// Time asleep, interruptibly or not, ns.
    pub asleep_ns: u64,
    /// How often it left its CPU.
    pub left: u64,
    /// How often it did so while it could run.
    pub preempted: u64,
    /// Wake-ups that ended (`sched_wakeup`).
    pub woken: u64,
    /// Wake-ups that began (`sched_waking`).
    pub waking: u64,
    /// Wake-ups of the task as it began (`sched_wakeup_new`).
    pub begun: u64,
    /// Times on a CPU of which both ends were seen, and their time, ns.
    pub runs: u64,
    /// The time of these, ns.
    pub runs_ns: u64,
    /// Waits after a wake-up of which both ends were seen.
    pub woken_waits: u64,
    /// Their time, ns.
    pub woken_waits_ns: u64,
    /// Waits after a preemption of which both ends were seen.
    pub preempted_waits: u64,
    /// Their time, ns.
    pub preempted_waits_ns: u64,
    pub waits: SparseHistogram,
}

/// What is added up of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) times: u64,
    pub(super) ns: u64,
    /// Of kernel threads: the part behind a task in the kernel.
    pub(super) in_kernel_ns: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.times += other.times;
        self.ns += other.ns;
        self.in_kernel_ns += other.in_kernel_ns;
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct KeptEvent {
    pub(super) at_ns: u64,
    pub(super) cpu: u32,
    pub(super) kind: KeptKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum KeptKind {
    Switch { from: u32, to: u32, left: Left, cause: Option<Cause>, call: Option<u32> },
    Wakeup { tid: u32, by: Option<u32> },
}

/// All that was counted in a window; of tasks under test, where nothing else is said.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// When it began, ns by the clock of the trace.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// By thread id.
    pub tasks: BTreeMap<u32, TaskTally>,
    /// Tasks without numbers of their own: a bit for each thread id.
    others: Vec<u64>,
    pub(super) states: [u64; STATES],
    /// Asleep or blocked, and the system call.
    pub(super) sleeps: BTreeMap<(bool, Option<u32>), u64>,
    pub(super) behind: BTreeMap<(usize, Name), u64>,
    pub(super) left: [u64; LEFT],
    pub(super) causes: [u64; CAUSES],
    pub(super) cause_off_ns: [u64; CAUSES],
    pub(super) off_ns: u64,
    pub(super) migrated: u64,
    pub(super) waits_woken: SparseHistogram,
    pub(super) waits_preempted: SparseHistogram,
    pub(super) waits_by_cpu: BTreeMap<u32, SparseHistogram>,
    pub(super) runs: SparseHistogram,
    pub(super) offs: [SparseHistogram; LEFT],
    pub(super) pairs: BTreeMap<(Name, Name), Sum>,
    pub(super) workers: BTreeMap<(Name, Name), Sum>,
    /// Pairs that there was no room for.
    pub(super) pairs_lost: u64,
    /// Time in which CPUs were idle, and in which it is known what they ran, ns, all CPUs together.
    pub(super) idle_ns: u64,
    pub(super) known_ns: u64,
    pub(super) lost: u64,
    pub(super) missed: u64,
    /// Samples of tasks on a CPU, by name and stack.
    pub(super) stacks: BTreeMap<(Name, Vec<u32>), u64>,
    pub(super) events: Vec<KeptEvent>,
    pub(super) events_lost: u64,
}

/// Memory of a task in a map that is half full, of an event here and in a timeline, and of a stack without its functions here and in a
/// profile, bytes.
const TALLY_BYTES: usize = 2 * size_of::<TaskTally>();
const EVENT_BYTES: usize = size_of::<KeptEvent>() + size_of::<TimelineEvent>() + 32;
const STACK_BYTES: usize = 2 * size_of::<(Name, Vec<u32>)>() + size_of::<Stack>() + 64;

fn stack_bytes(stack: &[u32]) -> u64 {
    (STACK_BYTES + 2 * size_of_val(stack)) as u64
}

/// CPUs whose waits are kept apart.
const MOST_CPUS: usize = 16;

impl Totals {
    /// Memory of tasks and events, and of the evidence that is made of them, bytes.
    pub(super) fn list_bytes(&self) -> u64 {
        (TALLY_BYTES * self.tasks.len() + EVENT_BYTES * self.events.len()) as u64
    }

    /// Memory with that of stacks and of the waits of tasks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let waits: usize = self.tasks.values().map(|tally| tally.waits.memory_bytes()).sum();
        self.list_bytes() + waits as u64 + self.stacks.keys().map(|(_, stack)| stack_bytes(stack)).sum::<u64>()
    }

    /// All waits for a CPU.
    pub fn waits(&self) -> SparseHistogram {
        let mut all = self.waits_woken.clone();
        all.add(&self.waits_preempted);
        all
    }

    /// The numbers of a task; of one that is not under test they are not kept.
    pub(super) fn tally(&mut self, tid: u32, name: Name, is_watched: bool) -> &mut TaskTally {
        // The idle task is none; its numbers are a place for those of tasks that do not count.
        let place = if is_watched { self.place(tid) } else { 0 };
        if place == OTHERS {
            self.add_other(tid);
        }
        let tally = self.tasks.entry(place).or_default();
        if place != OTHERS {
            tally.name = name;
        }
        tally
    }

    fn add_other(&mut self, tid: u32) {
        self.others.resize(TIDS as usize / 64, 0);
        if let Some(bits) = self.others.get_mut(tid as usize / 64) {
            *bits |= 1 << (tid % 64);
        }
    }

    /// How many tasks have no numbers of their own in any of its windows.
    pub(super) fn others(&self) -> u64 {
        let is_other =
            |tid: &&u32| self.others.get(**tid as usize / 64).is_some_and(|bits| bits >> (**tid % 64) & 1 == 1);
        let in_some = self.tasks.keys().filter(is_other).count() as u64;
        self.others.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>() - in_some
    }

    fn place(&self, tid: u32) -> u32 {
        let has_room = self.tasks.len() < MOST_TALLIES || self.tasks.contains_key(&tid);
        if has_room { tid } else { OTHERS }
    }

    pub(super) fn charge(&mut self, tid: u32, name: Name, state: usize, ns: u64) {
        if ns == 0 {
            return;
        }
        self.states[state] += ns;
        let tally = self.tally(tid, name, true);
        if state == ON { tally.on_ns += ns } else { tally.without_ns += ns }
    }

    pub(super) fn charge_sleep(&mut self, tid: u32, name: Name, is_blocked: bool, call: Option<u32>, ns: u64) {
        if ns == 0 {
            return;
        }
        self.sleep(is_blocked, call, ns);
        self.tally(tid, name, true).asleep_ns += ns;
    }

    fn sleep(&mut self, is_blocked: bool, call: Option<u32>, ns: u64) {
        let has_room = self.sleeps.len() < MOST_PAIRS || self.sleeps.contains_key(&(is_blocked, call));
        *self.sleeps.entry((is_blocked, call.filter(|_| has_room))).or_default() += ns;
    }

    pub(super) fn charge_behind(&mut self, state: usize, name: Name, ns: u64) {
        let has_room = self.behind.len() < MOST_PAIRS || self.behind.contains_key(&(state, name));
        *self.behind.entry((state, if has_room { name } else { Name::default() })).or_default() += ns;
    }

    pub(super) fn leaves(&mut self, tid: u32, name: Name, left: Left, cause: Option<Cause>, ran_ns: Option<u64>) {
        self.left[left as usize] += 1;
        if let Some(cause) = cause {
            self.causes[cause as usize] += 1;
        }
        if let Some(ran_ns) = ran_ns {
            self.runs.record_ns(ran_ns);
        }
        let tally = self.tally(tid, name, true);
        tally.left += 1;
        tally.preempted += u64::from(cause.is_some());
        tally.runs += u64::from(ran_ns.is_some());
        tally.runs_ns += ran_ns.unwrap_or(0);
    }

    /// Returns by how much its memory grew, bytes.
    pub(super) fn waited(&mut self, tid: u32, name: Name, cpu: u32, is_woken: bool, ns: u64) -> u64 {
        (if is_woken { &mut self.waits_woken } else { &mut self.waits_preempted }).record_ns(ns);
        if (cpu as usize) < MOST_CPUS {
            self.waits_by_cpu.entry(cpu).or_default().record_ns(ns);
        }
        let has_room = self.tasks.len() < MOST_TASKS;
        let tally = self.tally(tid, name, true);
        let before = tally.waits.memory_bytes();
        if has_room || tally.waits.count() > 0 {
            tally.waits.record_ns(ns);
        }
        let grown = tally.waits.memory_bytes() - before;
        let (times, sum_ns) = match is_woken {
            true => (&mut tally.woken_waits, &mut tally.woken_waits_ns),
            false => (&mut tally.preempted_waits, &mut tally.preempted_waits_ns),
        };
        *times += 1;
        *sum_ns += ns;
        grown as u64
    }

    pub(super) fn was_off(&mut self, left: Left, cause: Option<Cause>, pair: (Name, Name), ns: u64) {
        self.off_ns += ns;
        self.offs[left as usize].record_ns(ns);
        if let Some(cause) = cause {
            self.cause_off_ns[cause as usize] += ns;
            self.pairs_lost += add(&mut self.pairs, pair, Sum { times: 1, ns, in_kernel_ns: 0 });
        }
    }

    pub(super) fn worker(&mut self, worker: Name, hog: Name, ns: u64, is_in_kernel: bool) {
        let sum = Sum { times: 1, ns, in_kernel_ns: if is_in_kernel { ns } else { 0 } };
        self.pairs_lost += add(&mut self.workers, (worker, hog), sum);
    }

    /// Returns by how much its memory grew, bytes.
    pub(super) fn sample(&mut self, name: Name, stack: &[u32], times: u64) -> u64 {
        let key = (name, stack.to_vec());
        let has_room = self.stacks.len() < MOST_STACKS;
        match self.stacks.get_mut(&key) {
            Some(known) => *known += times,
            None if has_room => {
                self.stacks.insert(key, times);
                return stack_bytes(stack);
            }
            None => *self.stacks.entry((name, Vec::new())).or_default() += times,
        }
        0
    }

    pub(super) fn keep(&mut self, event: KeptEvent) {
        if self.events_lost == 0 && self.events.len() < MOST_EVENTS {
            self.events.push(event);
        } else {
            self.events_lost += 1;
        }
    }

    /// Adds the window that follows.
    pub(super) fn append(&mut self, next: Totals) {
        self.end_ns = next.end_ns;
        for (tid, theirs) in next.tasks {
            match self.place(tid) {
                OTHERS => {
                    self.add_other(tid);
                    self.tasks.entry(OTHERS).or_default().add_numbers(&theirs);
                }
                tid => self.tasks.entry(tid).or_default().add(theirs),
            }
        }
        self.others.resize(self.others.len().max(next.others.len()), 0);
        self.others.iter_mut().zip(&next.others).for_each(|(own, theirs)| *own |= theirs);
        let arrays: [(&mut [u64], &[u64]); 4] = [
            (&mut self.states, &next.states),
            (&mut self.left, &next.left),
            (&mut self.causes, &next.causes),
            (&mut self.cause_off_ns, &next.cause_off_ns),
        ];
        for (own, theirs) in arrays.into_iter().flat_map(|(own, theirs)| own.iter_mut().zip(theirs)) {
            *own += theirs;
        }
        next.sleeps.into_iter().for_each(|((is_blocked, call), ns)| self.sleep(is_blocked, call, ns));
        next.behind.into_iter().for_each(|((state, name), ns)| self.charge_behind(state, name, ns));
        for (pair, sum) in next.pairs {
            self.pairs_lost += add(&mut self.pairs, pair, sum);
        }
        for (pair, sum) in next.workers {
            self.pairs_lost += add(&mut self.workers, pair, sum);
        }
        for ((name, stack), times) in next.stacks {
            self.sample(name, &stack, times);
        }
        for (cpu, waits) in next.waits_by_cpu {
            self.waits_by_cpu.entry(cpu).or_default().add(&waits);
        }
        self.waits_woken.add(&next.waits_woken);
        self.waits_preempted.add(&next.waits_preempted);
        self.runs.add(&next.runs);
        self.offs.iter_mut().zip(&next.offs).for_each(|(own, theirs)| own.add(theirs));
        let numbers = [
            (&mut self.off_ns, next.off_ns),
            (&mut self.migrated, next.migrated),
            (&mut self.pairs_lost, next.pairs_lost),
            (&mut self.idle_ns, next.idle_ns),
            (&mut self.known_ns, next.known_ns),
            (&mut self.lost, next.lost),
            (&mut self.missed, next.missed),
        ];
        numbers.into_iter().for_each(|(own, theirs)| *own = own.saturating_add(theirs));
        next.events.into_iter().for_each(|event| self.keep(event));
        self.events_lost += next.events_lost;
    }
}

impl TaskTally {
    /// Adds the numbers of another window.
    pub fn add(&mut self, other: TaskTally) {
        self.name = other.name;
        self.add_numbers(&other);
        self.waits.add(&other.waits);
    }

    /// Adds all but the waits one by one.
    pub(super) fn add_numbers(&mut self, other: &TaskTally) {
        let numbers = [
            (&mut self.on_ns, other.on_ns),
            (&mut self.without_ns, other.without_ns),
            (&mut self.asleep_ns, other.asleep_ns),
            (&mut self.left, other.left),
            (&mut self.preempted, other.preempted),
            (&mut self.woken, other.woken),
            (&mut self.waking, other.waking),
            (&mut self.begun, other.begun),
            (&mut self.runs, other.runs),
            (&mut self.runs_ns, other.runs_ns),
            (&mut self.woken_waits, other.woken_waits),
            (&mut self.woken_waits_ns, other.woken_waits_ns),
            (&mut self.preempted_waits, other.preempted_waits),
            (&mut self.preempted_waits_ns, other.preempted_waits_ns),
        ];
        numbers.into_iter().for_each(|(own, theirs)| *own += theirs);
    }
}

/// Adds to a pair; 1 where there is no room for it.
fn add(pairs: &mut BTreeMap<(Name, Name), Sum>, pair: (Name, Name), sum: Sum) -> u64 {
    let has_room = pairs.len() < MOST_PAIRS;
    match pairs.get_mut(&pair) {
        Some(known) => known.add(sum),
        None if has_room => {
            pairs.insert(pair, sum);
        }
        None => return sum.times,
    }
    0
}
