//! What each task and each CPU does, followed through the events of a trace. The states, their words and what counts as a wait
//! are those of the collectors `account`, `switches`, `tasks` and `kworkers` (docs/evidence.md).

mod cpu;
mod report;
mod selection;
mod task;
mod totals;
mod windows;

pub use selection::Selection;
pub use totals::{TaskTally, Totals};

use crate::event::{Event, Left, Name, TaskId, What};
use cpu::Cpu;
use holdup_model::stacks::Frame;
use holdup_model::{Collected, MemoryBudget, TooLarge};
use std::collections::BTreeMap;
use task::{State, Task};
use totals::{Cause, KeptEvent, KeptKind};
use windows::Windows;

/// Tasks of a lower priority number are real-time, deadline or stop tasks.
const REAL_TIME: i32 = 100;
/// CPUs beyond this are not believed.
pub(crate) const MOST_CPUS: u32 = 1 << 16;
/// A task that ran for less has not used up its slice (the smallest base slice, 0.7 ms; kernel/sched/fair.c, v6.18).
const LEAST_SLICE_NS: u64 = 700_000;
/// What is woken takes the CPU within a tick, or is not the reason (HZ = 250).
const TICK_NS: u64 = 4_000_000;

/// Memory of a task in a map that is half full, and of a name or process, bytes.
const TASK_BYTES: u64 = (2 * size_of::<Task>() + 64) as u64;
const NAME_BYTES: u64 = 64;

/// The longest trace, 30 days: sums over thousands of tasks stay within 64 bits.
pub(crate) const LONGEST_NS: u64 = 30 * 86_400 * 1_000_000_000;
/// Waits that have not ended are said from here on: the last moment of every trace of a busy host has some that just began.
const SAID_OPEN_NS: u64 = 1_000_000;

/// What is said of switches that others show to be missing.
pub(crate) fn missing(switches: u64) -> String {
    let are = if switches == 1 { "switch is" } else { "switches are" };
    format!("{switches} {are} missing between others")
}

/// What is said of events beyond [`MOST_CPUS`] or [`LONGEST_NS`].
pub(crate) fn impossible(events: u64) -> String {
    format!("{events} events name a CPU, a task or a time that cannot be")
}

/// The account of a trace under way.
pub struct Account {
    selection: Selection,
    tasks: BTreeMap<u32, Task>,
    cpus: Vec<Cpu>,
    processes: BTreeMap<u32, u32>,
    /// The last names of tasks, for those that have ended as well.
    names: BTreeMap<u32, Name>,
    windows: Windows,
    first_ns: Option<u64>,
    last_ns: u64,
    /// True if `sched_wakeup` is in the trace: then a wait begins there, else at `sched_waking`.
    has_wakeups: bool,
    has_waking: bool,
    seen: Seen,
    budget: MemoryBudget,
}

/// What is said of a trace as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Switches of all tasks, the idle ones among them.
    pub switches: u64,
    /// Events that were lost, as far as that is known.
    pub lost: u64,
    /// Times that events were lost.
    pub losses: u64,
    /// Switches that are not there although others say that they were.
    pub missed: u64,
    /// Events of CPUs or tasks, or with times, that cannot be.
    pub refused: u64,
}

/// A trace that was followed to its end.
pub struct Finished {
    /// When its first event was, ns, by its own clock.
    pub begin_ns: u64,
    /// The windows, in order.
    pub windows: Vec<Totals>,
    /// The evidence of each window.
    pub evidence: Vec<Vec<Collected>>,
    /// CPUs that have events.
    pub cpus: u32,
    /// As a whole.
    pub seen: Seen,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl Account {
    /// One in which nothing has happened, which keeps no more than the budget has memory for.
    pub fn new(selection: Selection, budget: &MemoryBudget) -> Self {
        Account {
            selection,
            tasks: BTreeMap::new(),
            cpus: Vec::new(),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            windows: Windows::default(),
            first_ns: None,
            last_ns: 0,
            has_wakeups: false,
            has_waking: false,
            seen: Seen::default(),
            budget: budget.clone(),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// When there are more tasks, stacks or events than there is memory for.
    pub fn add(&mut self, event: &Event) -> Result<(), TooLarge> {
        let before = self.task_bytes() + self.windows.memory_bytes();
        self.follow(event);
        let after = self.task_bytes() + self.windows.memory_bytes();
        // Tasks that end give back what they took.
        self.budget.give(before.saturating_sub(after));
        self.budget.take(after.saturating_sub(before))
    }

    fn task_bytes(&self) -> u64 {
        TASK_BYTES * self.tasks.len() as u64 + NAME_BYTES * (self.names.len() + self.processes.len()) as u64
    }

    fn follow(&mut self, event: &Event) {
        if let What::Process { tid, pid } = event.what {
            self.processes.insert(tid, pid);
            return;
        }
        let is_too_late = self.first_ns.is_some_and(|first_ns| event.at_ns.saturating_sub(first_ns) > LONGEST_NS);
        let tid = match &event.what {
            What::Switch { from, to, .. } => from.tid.max(to.tid),
            What::Waking { task, .. } | What::Wakeup { task, .. } => task.tid,
            _ => 0,
        };
        if event.cpu >= MOST_CPUS || tid >= totals::TIDS || is_too_late {
            self.seen.refused += 1;
            return;
        }
        let now = event.at_ns.max(self.last_ns);
        if self.first_ns.is_none() {
            self.first_ns = Some(now);
            self.windows.begin(now);
        }
        while let Some(edge_ns) = self.windows.edge_before(now) {
            self.charge_all(edge_ns);
            self.windows.cut(edge_ns);
        }
        self.last_ns = now;
        self.cpu(event.cpu);
        match &event.what {
            What::Switch { from, left, to } => self.switch(now, event.cpu, *from, *left, *to),
            What::Waking { task, cpu, by } => {
                self.has_waking = true;
                self.tally(task).waking += 1;
                if !self.has_wakeups {
                    self.wake(now, *task, *cpu, *by);
                }
            }
            What::Wakeup { task, cpu, by, is_new } => {
                self.has_wakeups |= !is_new;
                *(if *is_new { &mut self.tally(task).begun } else { &mut self.tally(task).woken }) += 1;
                self.wake(now, *task, *cpu, *by);
            }
            What::Migrate { tid, to_cpu } => self.migrate(now, *tid, *to_cpu),
            What::SystemCall { tid, number } => self.set_call(*tid, Some(*number)),
            What::SystemCallEnd { tid } => self.set_call(*tid, None),
            What::Lost { count } => self.lose(*count),
            What::Sample { tid, name, stack } => self.sample(*tid, *name, stack),
            What::Process { .. } => {}
        }
    }

    fn sample(&mut self, tid: u32, name: Option<Name>, stack: &[u32]) {
        // As perf calls a thread whose name it does not know.
        let unknown = || Name::of(format!(":{tid}").as_bytes());
        let name = name.or_else(|| self.names.get(&tid).copied()).unwrap_or_else(unknown);
        if self.selection.has(&TaskId { tid, priority: 0, name }, &self.processes) {
            self.windows.current_bytes += self.windows.current.sample(name, stack, 1);
        }
    }

    fn lose(&mut self, count: u64) {
        self.seen.losses += 1;
        self.seen.lost = self.seen.lost.saturating_add(count);
        self.windows.current.lost = self.windows.current.lost.saturating_add(count.max(1));
    }

    fn set_call(&mut self, tid: u32, number: Option<u32>) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.call = number;
        }
    }

    fn cpu(&mut self, number: u32) -> &mut Cpu {
        let place = number.min(MOST_CPUS - 1) as usize;
        if self.cpus.len() <= place {
            self.cpus.resize(place + 1, Cpu::default());
        }
        &mut self.cpus[place]
    }

    /// The numbers of a task in this window, which are kept of tasks under test only.
    fn tally(&mut self, task: &TaskId) -> &mut TaskTally {
        let is_watched = self.selection.has(task, &self.processes);
        self.windows.current.tally(task.tid, task.name, is_watched)
    }

    /// The state of a task; of one that was not known yet there is no state.
    fn task(&mut self, id: &TaskId) -> &mut Task {
        let is_watched = self.selection.has(id, &self.processes);
        let task = self.tasks.entry(id.tid).or_default();
        if task.name != id.name || task.state == State::Unknown {
            self.names.insert(id.tid, id.name);
        }
        (task.name, task.is_watched) = (id.name, is_watched);
        task.is_real_time = id.priority < REAL_TIME;
        task
    }

    fn switch(&mut self, now: u64, cpu: u32, from: TaskId, left: Left, to: TaskId) {
        self.seen.switches += 1;
        let known = self.cpu(cpu).current.filter(|known| *known != from.tid);
        if let Some(known) = known {
            // A switch in between is not there: of the task that is thought to run nothing is known since.
            self.seen.missed += 1;
            self.windows.current.missed += 1;
            self.cpu(cpu).forget();
            if let Some(task) = self.tasks.get_mut(&known).filter(|task| task.state == State::On) {
                task.state = State::Unknown;
            }
        }
        let cause = if from.tid == 0 { None } else { self.leave(now, cpu, from, left, to) };
        let [from_is_watched, to_is_watched] = [from, to].map(|task| self.selection.has(&task, &self.processes));
        let clock = |id: TaskId, is_watched| (id.tid != 0).then(|| cpu::clock(is_watched, id.priority < REAL_TIME));
        let (from_runs, to_runs) = (clock(from, from_is_watched), clock(to, to_is_watched));
        let kernel_side = left == Left::InKernel;
        let idle_ns = self.cpu(cpu).switches(now, (from, from_runs, kernel_side), (to, to_runs));
        self.windows.current.idle_ns += idle_ns.0;
        self.windows.current.known_ns += idle_ns.1;
        if to.tid != 0 {
            self.arrive(now, cpu, from, to);
        }
        if from_is_watched || to_is_watched {
            let call = self.tasks.get(&from.tid).and_then(|task| task.call);
            let kind = KeptKind::Switch { from: from.tid, to: to.tid, left, cause, call };
            self.windows.current.keep(KeptEvent { at_ns: now, cpu, kind });
        }
        if left == Left::Exited && from.tid != 0 {
            self.tasks.remove(&from.tid);
        }
    }

    /// A task leaves its CPU; why, where it could go on.
    fn leave(&mut self, now: u64, cpu: u32, from: TaskId, left: Left, to: TaskId) -> Option<Cause> {
        let cause = left.is_runnable().then(|| self.cause(now, cpu, from, to));
        let clocks = self.cpu(cpu).clocks_at(now);
        let task = self.task(&from);
        let was_on = task.state == State::On;
        if !was_on {
            // It has been on this CPU for a time that is not known.
            (task.state, task.since_ns, task.on_since_ns) = (State::On, now, None);
        }
        let ran_ns = task.on_since_ns.map(|since| now.saturating_sub(since));
        let charged_ns = now.saturating_sub(task.since_ns);
        task.since_ns = now;
        task.off_since_ns = Some(now);
        (task.left, task.left_by, task.left_cause) = (left, to.name, cause);
        task.woken_ns = None;
        task.last_cpu = Some(cpu);
        task.state = match left {
            Left::Sleeping => State::Asleep,
            Left::Blocked => State::Blocked,
            Left::UserBoundary | Left::InKernel => State::Waiting,
            Left::Exited => State::Unknown,
        };
        (task.wait_cpu, task.clocks) = (cpu, clocks);
        if task.is_watched {
            let totals = &mut self.windows.current;
            totals.charge(from.tid, from.name, totals::ON, charged_ns);
            totals.leaves(from.tid, from.name, left, cause, ran_ns);
        }
        cause
    }

    /// Why a runnable task gives way, as far as the events before it say.
    fn cause(&mut self, now: u64, cpu: u32, from: TaskId, to: TaskId) -> Cause {
        let cpu = self.cpu(cpu);
        if to.tid == 0 {
            return Cause::Other;
        }
        if to.priority < REAL_TIME && from.priority >= to.priority {
            return Cause::Class;
        }
        let ran_ns = now.saturating_sub(cpu.since_ns);
        let is_woken = cpu.woken == Some(to.tid) && cpu.woken_ns >= cpu.since_ns && now - cpu.woken_ns <= TICK_NS;
        match (is_woken, cpu.since_ns > 0 && ran_ns >= LEAST_SLICE_NS) {
            (true, _) => Cause::Wakeup,
            (false, true) => Cause::Slice,
            (false, false) => Cause::Other,
        }
    }

    /// A task gets a CPU.
    fn arrive(&mut self, now: u64, cpu: u32, before: TaskId, to: TaskId) {
        self.charge_task(now, to.tid);
        let woken_ns = self.tasks.get(&to.tid).and_then(|task| task.woken_ns);
        if let Some(woken_ns) = woken_ns.filter(|_| to.name.bound_cpu().is_some()) {
            let (hog, is_in_kernel) = self.cpu(cpu).hog(woken_ns, now, before);
            self.windows.current.worker(to.name, hog, now.saturating_sub(woken_ns), is_in_kernel);
        }
        let task = self.task(&to);
        let off_ns = task.off_since_ns.map(|since| now.saturating_sub(since));
        let was = task.state;
        // Without a wake-up it is not known when it could run.
        let wait_ns = match (was, woken_ns, task.off_since_ns) {
            (State::Waiting, Some(woken_ns), _) => Some((true, now.saturating_sub(woken_ns))),
            (State::Waiting, None, Some(off_ns)) => Some((false, now.saturating_sub(off_ns))),
            _ => None,
        };
        let has_moved = task.last_cpu.is_some_and(|last| last != cpu);
        let (left, cause, by, is_watched) = (task.left, task.left_cause, task.left_by, task.is_watched);
        (task.state, task.since_ns, task.on_since_ns) = (State::On, now, Some(now));
        (task.off_since_ns, task.woken_ns, task.last_cpu) = (None, None, Some(cpu));
        if !is_watched {
            return;
        }
        let totals = &mut self.windows.current;
        totals.migrated += u64::from(has_moved);
        if let Some((is_woken, ns)) = wait_ns {
            self.windows.current_bytes += totals.waited(to.tid, to.name, cpu, is_woken, ns);
        }
        if let Some(off_ns) = off_ns {
            totals.was_off(left, cause, (to.name, by), off_ns);
        }
    }

    fn wake(&mut self, now: u64, id: TaskId, cpu: u32, by: Option<u32>) {
        if id.tid == 0 || cpu >= MOST_CPUS {
            return;
        }
        self.charge_task(now, id.tid);
        let there = self.cpu(cpu);
        let clocks = there.clocks_at(now);
        (there.woken, there.woken_ns) = (Some(id.tid), now);
        let task = self.task(&id);
        if matches!(task.state, State::On | State::Waiting) {
            return;
        }
        (task.state, task.since_ns, task.woken_ns) = (State::Waiting, now, Some(now));
        (task.wait_cpu, task.clocks) = (cpu, clocks);
        if task.is_watched {
            self.windows.current.keep(KeptEvent { at_ns: now, cpu, kind: KeptKind::Wakeup { tid: id.tid, by } });
        }
    }

    fn migrate(&mut self, now: u64, tid: u32, to_cpu: u32) {
        if to_cpu >= MOST_CPUS || self.tasks.get(&tid).is_none_or(|task| task.state != State::Waiting) {
            return;
        }
        self.charge_task(now, tid);
        let clocks = self.cpu(to_cpu).clocks_at(now);
        if let Some(task) = self.tasks.get_mut(&tid) {
            (task.wait_cpu, task.clocks) = (to_cpu, clocks);
        }
    }

    /// Charges the time since the last charge to the state that a task is in.
    fn charge_task(&mut self, now: u64, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        charge(now, tid, task, &self.cpus, &mut self.windows.current);
    }

    /// The edge of a window: what each task has been doing until then counts before it.
    fn charge_all(&mut self, now: u64) {
        for (tid, task) in &mut self.tasks {
            charge(now, *tid, task, &self.cpus, &mut self.windows.current);
        }
        for cpu in &mut self.cpus {
            let (idle_ns, known_ns) = cpu.cut(now);
            self.windows.current.idle_ns += idle_ns;
            self.windows.current.known_ns += known_ns;
        }
    }

    /// The end of the trace, with the functions that its stacks are made of. The memory of its tasks is given back.
    ///
    /// # Errors
    /// When there is no memory for the functions of each window.
    pub fn finish(mut self, frames: &[Frame]) -> Result<Finished, TooLarge> {
        let last_ns = self.last_ns;
        self.charge_all(last_ns);
        let open: Vec<u64> = self
            .tasks
            .values()
            .filter(|task| task.is_watched && task.state == State::Waiting)
            .map(|task| last_ns.saturating_sub(task.woken_ns.or(task.off_since_ns).unwrap_or(last_ns)))
            .collect();
        let windows = std::mem::take(&mut self.windows).finish(last_ns);
        let mut notes = self.notes(&open);
        notes.extend(self.selection.nothing_found(&windows));
        // What tasks ran for, by the samples that there are of it: the same in all windows, so that these add up.
        let samples: u64 = windows.iter().flat_map(|totals| totals.stacks.values()).sum();
        let on_ns: u64 = windows.iter().map(|totals| totals.states[totals::ON]).sum();
        let frames = (frames, on_ns.checked_div(samples).unwrap_or(0));
        let evidence = windows.iter().map(|totals| report::evidence(totals, &self, (frames, &notes)));
        let evidence = evidence.collect::<Result<_, _>>()?;
        self.budget.give(self.task_bytes());
        Ok(Finished {
            begin_ns: self.first_ns.unwrap_or(0),
            evidence,
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            seen: self.seen,
            notes,
            windows,
        })
    }

    fn has_waits(&self) -> bool {
        self.has_wakeups || self.has_waking
    }

    fn notes(&self, open_ns: &[u64]) -> Vec<String> {
        let mut notes = Vec::new();
        let Seen { lost, losses, missed, refused, .. } = self.seen;
        if losses > 0 {
            let count = if lost > 0 {
                format!("{lost} events were lost")
            } else {
                "events were lost, how many is not known".to_owned()
            };
            notes.push(format!("{count}, in {losses} gaps: counts are too low, and times are missing"));
        }
        if missed > 0 {
            notes.push(missing(missed));
        }
        if refused > 0 {
            notes.push(impossible(refused));
        }
        if !self.has_waits() {
            notes.push(
                "it has no wake-ups (sched_wakeup or sched_waking): how long tasks wait for a CPU is not known"
                    .to_owned(),
            );
        } else if !self.has_wakeups {
            notes.push("a wait begins at sched_waking, because sched_wakeup is not in it".to_owned());
        }
        if let Some(longest_ns) = open_ns.iter().max().filter(|longest_ns| **longest_ns >= SAID_OPEN_NS) {
            let (count, longest_ms) = (open_ns.len(), *longest_ns as f64 / 1e6);
            let tasks = if count == 1 { "task waits" } else { "tasks wait" };
            notes.push(format!(
                "when it ends {count} {tasks} for a CPU, since {longest_ms:.0} ms at most: such waits are in no percentile"
            ));
        }
        notes
    }
}

/// Charges the time since the last charge to a task's state; a wait to what its CPU ran meanwhile, and to waking for as long as
/// that was idle.
fn charge(now: u64, tid: u32, task: &mut Task, cpus: &[Cpu], totals: &mut Totals) {
    let mut ns = now.saturating_sub(task.since_ns);
    task.since_ns = task.since_ns.max(now);
    let name = task.name;
    match task.state {
        State::Unknown => {}
        State::On if task.is_watched => totals.charge(tid, name, totals::ON, ns),
        State::Asleep | State::Blocked if task.is_watched => {
            totals.charge_sleep(tid, name, task.state == State::Blocked, task.call, ns);
        }
        State::Waiting => {
            let Some(there) = cpus.get(task.wait_cpu as usize) else { return };
            let clocks = there.clocks_at(now);
            for (i, (now_ns, then_ns)) in clocks.iter().zip(task.clocks).enumerate() {
                let ran_ns = now_ns.saturating_sub(then_ns).min(ns);
                if ran_ns == 0 {
                    continue;
                }
                ns -= ran_ns;
                if task.is_watched {
                    let of = cpu::behind(i, task.is_real_time);
                    totals.charge(tid, name, of, ran_ns);
                    if of != totals::BEHIND_OWN {
                        totals.charge_behind(of, there.names[i], ran_ns);
                    }
                }
            }
            task.clocks = clocks;
            if task.is_watched {
                totals.charge(tid, name, totals::WAKING, ns);
            }
        }
        State::On | State::Asleep | State::Blocked => {}
    }
}
