//! A trace as work: what each task runs, whom it wakes up at which point of its CPU time, how long it sleeps ([`Replay`]).
//!
//! A sleep ends by a relation where a task on a CPU woke the sleeper, else by itself after the time that it took. Waits for a
//! CPU are no part of a task: the machine that replays makes its own.

mod task;

use crate::account::{LONGEST_NS, MOST_CPUS, impossible, missing};
use crate::event::{Event, Left, Name, TaskId, What};
use holdup_model::{Problem, Replay, ReplayStep, SparseHistogram, TaskBegin};
use std::collections::BTreeMap;
use task::{State, Task};

/// The most steps that are kept, 16 bytes each; what comes later is left out.
pub const MOST_STEPS: usize = 4_000_000;
pub const MOST_TASKS: usize = 200_000;

#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// The task on it; `None` where that is not known.
    current: Option<u32>,
    /// Its last event.
    last_ns: u64,
}

/// What cannot be replayed as it was.
#[derive(Debug, Clone, Copy, Default)]
struct Gaps {
    lost: u64,
    losses: u64,
    /// Switches that are not there although others say that they were.
    missed: u64,
    /// Events of CPUs or with times that cannot be.
    refused: u64,
    /// Sleeps whose wake-up is not there.
    without_wakeup: u64,
}

/// The tasks of a trace under way.
pub struct Reduction {
    tasks: Vec<Task>,
    /// Those that have not ended.
    by_tid: BTreeMap<u32, usize>,
    cpus: Vec<Cpu>,
    first_ns: Option<u64>,
    /// The last event, and the last one that is followed, from the first one on.
    end_ns: u64,
    last_ns: u64,
    switches: u64,
    steps: usize,
    most_steps: usize,
    relations: u64,
    timed: u64,
    waits: SparseHistogram,
    has_wakeups: bool,
    has_calls: bool,
    gaps: Gaps,
}

impl Default for Reduction {
    fn default() -> Self {
        Self::with_room(MOST_STEPS)
    }
}

impl Reduction {
    /// One with room for this number of steps.
    pub fn with_room(most_steps: usize) -> Self {
        Reduction {
            tasks: Vec::new(),
            by_tid: BTreeMap::new(),
            cpus: Vec::new(),
            first_ns: None,
            end_ns: 0,
            last_ns: 0,
            switches: 0,
            steps: 0,
            most_steps,
            relations: 0,
            timed: 0,
            waits: SparseHistogram::new(),
            has_wakeups: false,
            has_calls: false,
            gaps: Gaps::default(),
        }
    }

    /// Takes the next event.
    pub fn add(&mut self, event: &Event) {
        if matches!(event.what, What::Process { .. } | What::Sample { .. }) {
            return;
        }
        let first_ns = *self.first_ns.get_or_insert(event.at_ns);
        let now = event.at_ns.saturating_sub(first_ns);
        if event.cpu >= MOST_CPUS || now > LONGEST_NS {
            self.gaps.refused += 1;
            return;
        }
        self.end_ns = self.end_ns.max(now);
        if self.steps >= self.most_steps || self.tasks.len() >= MOST_TASKS {
            return;
        }
        let now = now.max(self.last_ns);
        self.last_ns = now;
        let cpu = event.cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        match event.what {
            What::Switch { from, left, to } => self.switch(now, event.cpu, (from, left), to),
            What::Waking { task, cpu, by } => self.wake(now, (task, cpu), (by, event.cpu), Wake::Begins),
            What::Wakeup { task, cpu, by, is_new: false } => self.wake(now, (task, cpu), (by, event.cpu), Wake::Ends),
            What::Wakeup { task, cpu, by, is_new: true } => self.begins(now, (task, cpu), (by, event.cpu)),
            What::SystemCall { tid, .. } => self.calls(now, tid, Task::calls),
            What::SystemCallEnd { tid } => self.calls(now, tid, Task::returns),
            What::Lost { count } => self.lose(event.cpu, count),
            What::Migrate { .. } | What::Process { .. } | What::Sample { .. } => {}
        }
        self.cpus[cpu].last_ns = now;
    }

    fn switch(&mut self, now: u64, cpu: u32, (from, left): (TaskId, Left), to: TaskId) {
        self.switches += 1;
        let before = self.cpus[cpu as usize];
        if before.current.is_some_and(|known| known != from.tid) {
            self.gaps.missed += 1;
            self.forget(cpu);
        }
        if from.tid != 0 {
            self.leaves(now, cpu, &from, left);
        }
        if to.tid != 0 {
            self.comes(now, cpu, &to);
        }
        self.cpus[cpu as usize].current = Some(to.tid);
    }

    /// Nothing is known any more of what a CPU ran since its last event.
    fn forget(&mut self, cpu: u32) {
        let Cpu { current, last_ns } = std::mem::take(&mut self.cpus[cpu as usize]);
        self.cpus[cpu as usize].last_ns = last_ns;
        let Some(&place) = current.and_then(|tid| self.by_tid.get(&tid)) else { return };
        if let State::On { .. } = self.tasks[place].state {
            self.with(place, |task| task.ends(last_ns));
            self.tasks[place].state = State::Lost { since_ns: last_ns };
        }
    }

    fn leaves(&mut self, now: u64, cpu: u32, from: &TaskId, left: Left) {
        let place = match self.find(from) {
            Some(place) => place,
            // Since then the CPU has run what leaves it now, as far as is known.
            None => {
                let since_ns = self.cpus[cpu as usize].last_ns;
                self.create(from, cpu, TaskBegin::At(since_ns), State::On { counted_ns: since_ns, woken: false })
            }
        };
        self.is_on(cpu, place);
        self.tasks[place].runs(now);
        match left {
            Left::UserBoundary | Left::InKernel => {
                self.tasks[place].state = State::Runnable { since_ns: Some(now) };
            }
            Left::Sleeping | Left::Blocked => {
                let woken = matches!(self.tasks[place].state, State::On { woken: true, .. });
                self.tasks[place].state = State::Asleep { since_ns: now, woken };
            }
            Left::Exited => {
                self.with(place, |task| task.ends(now));
                self.tasks[place].state = State::Ended;
                self.by_tid.remove(&from.tid);
            }
        }
    }

    /// A task turns out to be on a CPU, also where no switch to it was seen. It was so since the CPU's last event, or since it was
    /// woken, where that came later: the CPU was idle until then.
    fn is_on(&mut self, cpu: u32, place: usize) {
        let since_ns = self.cpus[cpu as usize].last_ns;
        match self.tasks[place].state {
            State::On { .. } | State::Ended => {}
            State::Runnable { since_ns: woken_ns } => self.tasks[place].comes(since_ns.max(woken_ns.unwrap_or(0))),
            State::Asleep { since_ns: then_ns, .. } | State::Lost { since_ns: then_ns } => {
                self.with(place, |task| task.steps(ReplayStep::Sleep(since_ns.saturating_sub(then_ns))));
                self.tasks[place].comes(since_ns.max(then_ns));
            }
        }
    }

    fn comes(&mut self, now: u64, cpu: u32, to: &TaskId) {
        let place = self.find(to).unwrap_or_else(|| {
            let place = self.create(to, cpu, TaskBegin::At(now), State::Runnable { since_ns: None });
            self.tasks[place].is_unclear = true;
            place
        });
        let slept = match self.tasks[place].state {
            State::Runnable { since_ns } => {
                if let Some(since_ns) = since_ns {
                    self.waits.record_ns(now - since_ns);
                }
                None
            }
            State::Asleep { woken: true, .. } => None,
            State::Asleep { since_ns, .. } => {
                self.gaps.without_wakeup += 1;
                Some(now - since_ns)
            }
            State::Lost { since_ns } => Some(now - since_ns),
            State::On { counted_ns, .. } => {
                self.gaps.missed += 1;
                Some(now - counted_ns)
            }
            State::Ended => None,
        };
        if let Some(ns) = slept {
            self.timed += 1;
            self.with(place, |task| task.steps(ReplayStep::Sleep(ns)));
        }
        self.tasks[place].comes(now);
    }

    fn wake(&mut self, now: u64, (id, cpu): (TaskId, u32), by: (Option<u32>, u32), wake: Wake) {
        if id.tid == 0 {
            return;
        }
        self.has_wakeups = true;
        let Some(place) = self.find(&id) else { return self.is_first_woken(now, (id, cpu), by) };
        match &mut self.tasks[place].state {
            State::On { woken, .. } => {
                *woken = wake == Wake::Begins;
                if *woken && self.is_woken_by(now, place, by) {
                    // It was about to sleep (kernel/sched/core.c:try_to_wake_up), and would have until now.
                    self.relations += 1;
                    self.with(place, |task| {
                        task.runs(now);
                        task.steps(ReplayStep::Wait);
                    });
                }
            }
            State::Asleep { woken: true, .. } => self.tasks[place].state = State::Runnable { since_ns: Some(now) },
            State::Asleep { since_ns, .. } | State::Lost { since_ns } => {
                let since_ns = *since_ns;
                self.sleeps(now, place, since_ns, by);
            }
            State::Runnable { .. } | State::Ended => {}
        }
    }

    /// A sleep is over.
    fn sleeps(&mut self, now: u64, place: usize, since_ns: u64, by: (Option<u32>, u32)) {
        let is_relation = self.is_woken_by(now, place, by);
        *(if is_relation { &mut self.relations } else { &mut self.timed }) += 1;
        let step = if is_relation { ReplayStep::Wait } else { ReplayStep::Sleep(now - since_ns) };
        self.with(place, |task| task.steps(step));
        self.tasks[place].state = State::Runnable { since_ns: Some(now) };
    }

    /// Gives a waker the step that wakes a task. Whether there is a waker whose CPU time is known.
    fn is_woken_by(&mut self, now: u64, place: usize, (by, cpu): (Option<u32>, u32)) -> bool {
        let Some(by) = by else { return false };
        let waker = match self.by_tid.get(&by) {
            Some(waker) => *waker,
            None => self.wakes_first(by, cpu),
        };
        let current = self.cpus[cpu as usize].current;
        if current != Some(by) {
            self.gaps.missed += u64::from(current.is_some());
            self.forget(cpu);
            self.is_on(cpu, waker);
            self.cpus[cpu as usize].current = Some(by);
        }
        let is_on = matches!(self.tasks[waker].state, State::On { .. });
        let wakee = u32::try_from(place).ok();
        let Some(wakee) = wakee.filter(|_| is_on && waker != place) else { return false };
        self.with(waker, |task| {
            task.runs(now);
            task.steps(ReplayStep::Wake(wakee));
        });
        true
    }

    /// A task that was not seen yet wakes another one: its CPU has run it since the last event there.
    fn wakes_first(&mut self, tid: u32, cpu: u32) -> usize {
        let Cpu { last_ns, .. } = self.cpus[cpu as usize];
        let id = TaskId { tid, priority: task::UNKNOWN, name: Name::default() };
        self.cpus[cpu as usize].current = Some(tid);
        self.create(&id, cpu, TaskBegin::At(last_ns), State::On { counted_ns: last_ns, woken: false })
    }

    /// A task is seen for the first time, when it is woken.
    fn is_first_woken(&mut self, now: u64, (id, cpu): (TaskId, u32), by: (Option<u32>, u32)) {
        let place = self.create(&id, cpu, TaskBegin::At(now), State::Runnable { since_ns: Some(now) });
        if self.is_woken_by(now, place, by) {
            self.tasks[place].replayed.begin = TaskBegin::Woken;
        }
    }

    /// A task is made.
    fn begins(&mut self, now: u64, (id, cpu): (TaskId, u32), by: (Option<u32>, u32)) {
        if id.tid == 0 {
            return;
        }
        // A thread id that comes again is another task.
        if let Some(place) = self.by_tid.remove(&id.tid) {
            self.with(place, |task| task.ends(now));
            self.tasks[place].state = State::Ended;
        }
        self.is_first_woken(now, (id, cpu), by);
        if let Some(&place) = self.by_tid.get(&id.tid) {
            self.tasks[place].replayed.is_new = true;
        }
    }

    fn calls(&mut self, now: u64, tid: u32, what: fn(&mut Task, u64)) {
        self.has_calls = true;
        if let Some(&place) = self.by_tid.get(&tid) {
            self.with(place, |task| what(task, now));
        }
    }

    fn lose(&mut self, cpu: u32, count: u64) {
        self.gaps.losses += 1;
        self.gaps.lost = self.gaps.lost.saturating_add(count);
        self.forget(cpu);
    }

    /// Changes a task, and counts the steps that it gets.
    fn with(&mut self, place: usize, change: impl FnOnce(&mut Task)) {
        let task = &mut self.tasks[place];
        let before = task.replayed.steps.len();
        change(task);
        self.steps += task.replayed.steps.len() - before;
    }

    fn find(&mut self, id: &TaskId) -> Option<usize> {
        let place = *self.by_tid.get(&id.tid)?;
        self.tasks[place].is_named(id);
        Some(place)
    }

    fn create(&mut self, id: &TaskId, cpu: u32, begin: TaskBegin, state: State) -> usize {
        let place = self.tasks.len();
        self.tasks.push(Task::new(id, cpu, begin, false, state));
        self.by_tid.insert(id.tid, place);
        place
    }

    /// The end of the trace.
    ///
    /// # Errors
    /// When there is nothing to replay.
    pub fn finish(mut self, name: &str) -> Result<Replay, Problem> {
        let wrong = |why: &str| {
            let hint = "trace-cmd record -e sched_switch -e sched_waking -e sched_wakeup -e sched_wakeup_new";
            Err(Problem::usage(name, why).hint(hint))
        };
        if self.switches == 0 {
            return wrong("there is no switch in it");
        }
        if self.tasks.is_empty() {
            return wrong("no task but the idle one is in it");
        }
        self.order_answers();
        let last_ns = self.last_ns;
        let is_whole = self.has_wakeups && self.gaps.losses == 0;
        for task in &mut self.tasks {
            task.replayed.is_cut = matches!(task.state, State::On { .. } | State::Runnable { .. });
            task.ends(last_ns);
            if task.is_unclear && is_whole {
                // No wake-up is missing, so it could run from the begin on.
                task.replayed.begin = TaskBegin::At(0);
            }
        }
        Ok(Replay {
            notes: self.notes(),
            tasks: self.tasks.into_iter().map(|task| task.replayed).collect(),
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            span_ns: last_ns,
            switches: self.switches,
            relations: self.relations,
            timed: self.timed,
            waits: self.waits,
            has_calls: self.has_calls,
        })
    }

    /// What a trace does not show is what a task would have waited for, and found done, and the wake-up that was none because the other
    /// task was awake. Of two tasks that have to do with each other alone, one that wakes the other up again without having slept
    /// continues only when the other one sleeps, as it did in the trace. A task that wakes several does first what is for those that sleep;
    /// what is for one that others wake too may come one wake-up earlier, as a message may lie in a queue.
    fn order_answers(&mut self) {
        let partners: Vec<_> = self.tasks.iter().map(|task| partner(&task.replayed.steps)).collect();
        let is_partner = |of: u32, place| partners[of as usize] == Some(place);
        for (place, task) in (0..).zip(&mut self.tasks) {
            let steps = &mut task.replayed.steps;
            let partner = partners[place as usize];
            match partner.filter(|partner| is_partner(*partner, place)) {
                Some(partner) => wakes_in_turn(steps, partner),
                None => wakes_who_waits(steps, |other| match is_partner(other, place) {
                    true => Some(false),
                    false => partner.is_none().then_some(true),
                }),
            }
        }
    }

    /// What is not known, in sentences.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let Gaps { lost, losses, missed, refused, without_wakeup } = self.gaps;
        if self.end_ns > self.last_ns {
            let (all, kept) = (self.end_ns as f64 / 1e9, self.last_ns as f64 / 1e9);
            let (steps, tasks) = (self.most_steps, MOST_TASKS);
            notes.push(format!(
                "the first {kept:.3} of {all:.3} s are replayed: there is room for {steps} steps and {tasks} tasks"
            ));
        }
        if losses > 0 {
            let count = if lost > 0 { format!("{lost} events were lost") } else { "events were lost".to_owned() };
            notes.push(format!("{count}, in {losses} gaps: tasks sleep there for as long as nothing is known of them"));
        }
        if missed > 0 {
            notes.push(format!("{}: what they end is cut there", missing(missed)));
        }
        if refused > 0 {
            notes.push(impossible(refused));
        }
        if !self.has_wakeups {
            notes.push(
                "it has no wake-ups (sched_waking or sched_wakeup): no task waits for another one, and sleeps are as long \
                 as they were, with the waits for a CPU behind them"
                    .to_owned(),
            );
        } else if without_wakeup > 0 {
            notes.push(format!("{without_wakeup} sleeps have no wake-up: they last until their task had a CPU again"));
        }
        let changed = self.tasks.iter().filter(|task| task.has_changed).count();
        if changed > 0 {
            notes.push(format!("{changed} tasks change their priority: they keep the first one"));
        }
        if !self.has_calls {
            notes.push(
                "it has no system calls (raw_syscalls): only threads of the kernel are known to be inside the kernel, so \
                 preemption models differ less than they would"
                    .to_owned(),
            );
        }
        notes
    }
}

/// The one that nine of ten of its wake-ups are for.
fn partner(steps: &[ReplayStep]) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for step in steps {
        if let ReplayStep::Wake(other) = step {
            *counts.entry(*other).or_default() += 1;
        }
    }
    let all: usize = counts.values().sum();
    let (other, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (most * 10 >= all * 9).then_some(other)
}

/// The second of two wake-ups of a partner without a sleep between them comes once it sleeps.
fn wakes_in_turn(steps: &mut [ReplayStep], partner: u32) {
    let mut has_woken = false;
    for step in steps {
        match *step {
            ReplayStep::Wake(other) if other == partner && std::mem::replace(&mut has_woken, true) => {
                *step = ReplayStep::WakeAsleep(other);
            }
            ReplayStep::Wait => has_woken = false,
            _ => {}
        }
    }
}

/// What a task does before each wake-up of one of these is for that one, and may lead it or not; with `None` it keeps its place.
fn wakes_who_waits(steps: &mut Vec<ReplayStep>, may_lead: impl Fn(u32) -> Option<bool>) {
    if !steps.iter().any(|step| matches!(step, ReplayStep::Wake(task) if may_lead(*task).is_some())) {
        return;
    }
    let mut ordered = Vec::with_capacity(steps.len());
    let mut begin = 0;
    for &step in steps.iter() {
        ordered.push(step);
        match step {
            ReplayStep::Wake(task) => {
                if let Some(may_lead) = may_lead(task) {
                    let steps = u16::try_from(ordered.len() - begin).unwrap_or(1);
                    ordered.insert(ordered.len() - usize::from(steps), ReplayStep::For { task, steps, may_lead });
                }
                begin = ordered.len();
            }
            ReplayStep::Run { .. } | ReplayStep::Return => {}
            _ => begin = ordered.len(),
        }
    }
    *steps = ordered;
}

/// What is seen of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Begins,
    Ends,
}

#[cfg(test)]
mod tests;
