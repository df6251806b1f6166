//! A timeline as what each CPU did: slices that do not overlap, and beside them the holders of locks.

use holdup_model::timeline::{Timeline, TimelineDoing, TimelineKind};
use std::collections::BTreeMap;

/// What a CPU does for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Does {
    /// Not recorded: the task has the CPU.
    Runs,
    /// The task's own code.
    User,
    Kernel,
    Fault,
    Spin,
    Switch,
    Interrupt,
}

/// A stretch in which a CPU did one thing for one task, ns from the begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice<'a> {
    pub(crate) cpu: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) task: u32,
    pub(crate) does: Does,
    pub(crate) lock: Option<&'a str>,
    /// Of the last slice before a task left: how it left.
    pub(crate) left: Option<&'a str>,
}

/// A stretch in which a task that held a lock had a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held<'a> {
    pub(crate) cpu: u32,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) task: u32,
    pub(crate) lock: &'a str,
}

/// What the CPUs did.
#[derive(Debug, Default)]
pub(crate) struct Lanes<'a> {
    /// By CPU, then by time.
    pub(crate) slices: Vec<Slice<'a>>,
    /// By CPU, then by time.
    pub(crate) held: Vec<Held<'a>>,
    /// The same of holders that were off their CPUs, by time; the CPU is the one on which the lock was taken.
    pub(crate) off: Vec<Held<'a>>,
    /// How long the timeline is, ns.
    pub(crate) end_ns: u64,
}

/// A task on a CPU, from a switch to the next one.
struct Run<'a> {
    cpu: u32,
    task: u32,
    begin_ns: u64,
    end_ns: u64,
    left: Option<&'a str>,
}

/// What the CPUs did. Where events were lost there is a gap and nothing invented.
pub(crate) fn lanes(timeline: &Timeline) -> Lanes<'_> {
    let end_ns = end(timeline);
    let runs = runs(timeline, end_ns);
    let mut lanes = Lanes { end_ns, ..Lanes::default() };
    let mut by_task: BTreeMap<u32, Vec<&Run<'_>>> = BTreeMap::new();
    for run in &runs {
        by_task.entry(run.task).or_default().push(run);
    }
    for of_task in by_task.values_mut() {
        of_task.sort_by_key(|run| run.begin_ns);
    }
    let mut tasks: BTreeMap<u32, OfTask<'_>> = BTreeMap::new();
    let mut is_recorded = false;
    for event in &timeline.events {
        let begin_ns = event.at_ns;
        let to = |length_ns: &u64| begin_ns.saturating_add(*length_ns).min(end_ns);
        match &event.kind {
            TimelineKind::Stretch { task, doing, length_ns, lock } => {
                is_recorded = true;
                let does = match doing {
                    TimelineDoing::Kernel => Does::Kernel,
                    TimelineDoing::Spin => Does::Spin,
                    TimelineDoing::Switch => Does::Switch,
                    TimelineDoing::Interrupt => Does::Interrupt,
                };
                let activity = Activity { begin_ns, end_ns: to(length_ns), does, lock: lock.as_deref() };
                tasks.entry(*task).or_default().stretches.push(activity);
            }
            TimelineKind::Fault { task, length_ns, section } => {
                let lock = section.as_deref().map(|s| s.split_once(' ').map_or(s, |(_, name)| name));
                let activity = Activity { begin_ns, end_ns: to(length_ns), does: Does::Fault, lock };
                tasks.entry(*task).or_default().faults.push(activity);
            }
            TimelineKind::Hold { task, lock, length_ns } => {
                let until = to(length_ns);
                let of_task = by_task.get(task).map(Vec::as_slice).unwrap_or_default();
                let from = of_task.partition_point(|run| run.end_ns <= begin_ns);
                let mut at = begin_ns;
                let mut off = |begin_ns: u64, end_ns: u64| {
                    if end_ns > begin_ns {
                        lanes.off.push(Held { cpu: event.cpu, begin_ns, end_ns, task: *task, lock });
                    }
                };
                for run in of_task[from..].iter().take_while(|run| run.begin_ns < until) {
                    let (begin_ns, end_ns) = (run.begin_ns.max(begin_ns), run.end_ns.min(until));
                    off(at, begin_ns);
                    at = end_ns;
                    lanes.held.push(Held { cpu: run.cpu, begin_ns, end_ns, task: *task, lock });
                }
                off(at, until);
            }
            TimelineKind::Switch { .. } | TimelineKind::Wakeup { .. } => {}
        }
    }
    for of_task in tasks.values_mut() {
        of_task.stretches.sort_by_key(|t| t.begin_ns);
        of_task.faults.sort_by_key(|t| t.begin_ns);
    }
    let base = if is_recorded { Does::User } else { Does::Runs };
    let nothing = OfTask::default();
    for run in &runs {
        tasks.get(&run.task).unwrap_or(&nothing).slice(run, base, &mut lanes.slices);
    }
    lanes.slices.sort_by_key(|s| (s.cpu, s.begin_ns));
    lanes.held.sort_by_key(|h| (h.cpu, h.begin_ns));
    lanes.off.sort_by_key(|h| h.begin_ns);
    lanes
}

/// When a timeline ends, ns from its begin.
pub(crate) fn end(timeline: &Timeline) -> u64 {
    timeline.end_ns.unwrap_or_else(|| timeline.events.iter().map(|e| e.at_ns).max().unwrap_or(0))
}

fn runs(timeline: &Timeline, end_ns: u64) -> Vec<Run<'_>> {
    let mut current: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut runs = Vec::new();
    for event in &timeline.events {
        let TimelineKind::Switch { from, to, left, .. } = &event.kind else { continue };
        let (cpu, at_ns) = (event.cpu, event.at_ns.min(end_ns));
        if let Some((task, begin_ns)) = current.remove(&cpu)
            && Some(task) == *from
            && begin_ns < at_ns
        {
            runs.push(Run { cpu, task, begin_ns, end_ns: at_ns, left: Some(left.as_str()) });
        }
        if let Some(task) = to {
            current.insert(cpu, (*task, at_ns));
        }
    }
    for (cpu, (task, begin_ns)) in current {
        if begin_ns < end_ns {
            runs.push(Run { cpu, task, begin_ns, end_ns, left: None });
        }
    }
    runs
}

/// What a task does for a while.
struct Activity<'a> {
    begin_ns: u64,
    end_ns: u64,
    does: Does,
    lock: Option<&'a str>,
}

/// All that is recorded of a task: stretches one after the other, and faults one after the other, in which there may be
/// stretches such as interrupts.
#[derive(Default)]
struct OfTask<'a> {
    stretches: Vec<Activity<'a>>,
    faults: Vec<Activity<'a>>,
}

impl<'a> OfTask<'a> {
    /// Cuts a task's time on a CPU into slices.
    fn slice(&self, run: &Run<'a>, base: Does, into: &mut Vec<Slice<'a>>) {
        let first = into.len();
        let mut at = run.begin_ns;
        let from = self.stretches.partition_point(|t| t.end_ns <= run.begin_ns);
        for t in self.stretches[from..].iter().take_while(|t| t.begin_ns < run.end_ns) {
            let begin_ns = t.begin_ns.max(at);
            self.fill(run, (at, begin_ns), base, into);
            at = t.end_ns.min(run.end_ns).max(begin_ns);
            add(run, (begin_ns, at), (t.does, t.lock), into);
        }
        self.fill(run, (at, run.end_ns), base, into);
        if into.len() > first
            && let Some(last) = into.last_mut()
        {
            last.left = run.left;
        }
    }

    /// What lies between stretches: faults, and the rest.
    fn fill(&self, run: &Run<'a>, (mut at, until): (u64, u64), base: Does, into: &mut Vec<Slice<'a>>) {
        let from = self.faults.partition_point(|t| t.end_ns <= at);
        for fault in self.faults[from..].iter().take_while(|t| t.begin_ns < until) {
            let begin_ns = fault.begin_ns.max(at);
            add(run, (at, begin_ns), (base, None), into);
            at = fault.end_ns.min(until).max(begin_ns);
            add(run, (begin_ns, at), (Does::Fault, fault.lock), into);
        }
        add(run, (at, until), (base, None), into);
    }
}

fn add<'a>(run: &Run<'a>, (begin_ns, end_ns): (u64, u64), what: (Does, Option<&'a str>), into: &mut Vec<Slice<'a>>) {
    if end_ns > begin_ns {
        let (does, lock) = what;
        into.push(Slice { cpu: run.cpu, begin_ns, end_ns, task: run.task, does, lock, left: None });
    }
}
