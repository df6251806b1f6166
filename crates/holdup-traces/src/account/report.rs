//! What was counted, as the evidence of the collectors that count the same.

use super::totals::{CAUSES, Cause, KeptEvent, KeptKind, LEFT, ON, OTHERS, STATES, Sum};
use super::{Account, TaskTally, Totals};
use crate::event::{Left, Name};
use crate::frames::frame_bytes;
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::timeline::{TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::{
    Collected, Coverage, EvidenceHistogram, EvidenceItem, MemoryBudget, SparseHistogram, StackProfile, Timeline,
    TooLarge,
};
use std::collections::{BTreeMap, BTreeSet};

/// The role of tasks under test.
const ROLE: &str = "watched";

/// In the order of the states.
const STATE_NAMES: [&str; STATES] =
    ["on CPU", "behind own tasks", "behind other tasks", "behind a higher class", "waking"];
/// In the order of [`Left`].
const LEFT_NAMES: [&str; LEFT] = ["sleeping", "blocked", "user boundary (R)", "in the kernel (R+)", "exited"];
/// In the order of [`Cause`].
const CAUSE_NAMES: [&str; CAUSES] = ["wake-up", "slice end", "higher class", "other"];

/// Pairs of names in the evidence, those with the most time.
const MOST_PAIRS: usize = 100;
/// Tasks in the evidence, by each of their numbers.
const MOST_TASKS: usize = 32;

const NO_WAITS: &str = "the trace has no wake-ups";

/// The evidence of a window.
pub(super) fn evidence(
    totals: &Totals,
    account: &Account,
    (frames, notes): ((&[Frame], u64), &[String]),
) -> Result<Vec<Collected>, TooLarge> {
    let mut all =
        vec![switches(totals, account), of_account(totals, account), tasks(totals, account), kworkers(totals)];
    all.push(cpu(totals));
    all.push(timeline(totals, account));
    all.extend(profile(totals, frames, &account.budget)?);
    for collected in &mut all {
        collected.coverage.seen = totals.left.iter().sum();
        collected.coverage.lost = totals.lost;
    }
    all[0].coverage.notes.extend(notes.iter().cloned());
    Ok(all)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn of(id: &str) -> Collected {
    Collected { collector: id.to_owned(), coverage: Coverage::default(), ..Collected::default() }
}

fn labelled(into: &mut Collected, name: &str, unit: &str, label: impl Into<String>, value: f64) {
    into.items.push(EvidenceItem::labelled(name, label, unit, value));
}

fn histogram(into: &mut Collected, name: &str, label: String, histogram: &SparseHistogram) {
    if histogram.count() > 0 {
        let (name, label, histogram) = (name.to_owned(), Some(label), histogram.clone());
        into.histograms.push(EvidenceHistogram { name, label, histogram });
    }
}

fn switches(totals: &Totals, account: &Account) -> Collected {
    let mut all = of("switches");
    let label = |what: &str| format!("{ROLE}: {what}");
    for (what, count) in LEFT_NAMES.iter().zip(totals.left) {
        labelled(&mut all, "switched_out", "1", label(what), count as f64);
    }
    for ((what, count), ns) in CAUSE_NAMES.iter().zip(totals.causes).zip(totals.cause_off_ns) {
        labelled(&mut all, "preempted_by_cause", "1", label(what), count as f64);
        labelled(&mut all, "preempted_off_cpu_s", "s", label(what), seconds(ns));
    }
    let waited_ns: u64 = totals.tasks.values().map(|t| t.woken_waits_ns + t.preempted_waits_ns).sum();
    labelled(&mut all, "on_cpu_s", "s", ROLE, seconds(totals.states[ON]));
    if account.has_waits() {
        labelled(&mut all, "run_queue_wait_s", "s", ROLE, seconds(waited_ns));
    } else {
        all.items.push(EvidenceItem::absent("run_queue_wait_s", "s", NO_WAITS));
    }
    labelled(&mut all, "off_cpu_s", "s", ROLE, seconds(totals.off_ns));
    labelled(&mut all, "migrated", "1", ROLE, totals.migrated as f64);
    all.items.push(match totals.causes.iter().sum() {
        0_u64 => EvidenceItem::absent("causes_inferred", "share", "no task was preempted"),
        _ => EvidenceItem::new("causes_inferred", "share", 1.0),
    });
    let pairs = largest(&totals.pairs);
    for (label, sum) in pairs.iter().take(MOST_PAIRS) {
        labelled(&mut all, "preempted_by", "1", label, sum.times as f64);
        labelled(&mut all, "preempted_by_off_cpu_s", "s", label, seconds(sum.ns));
    }
    let left_out = pairs.len().saturating_sub(MOST_PAIRS);
    if left_out > 0 {
        all.coverage.notes.push(format!("{left_out} pairs of names with the least time are left out"));
    }
    histogram(&mut all, "run_queue_wait_ns", label("after wake-up"), &totals.waits_woken);
    histogram(&mut all, "run_queue_wait_ns", label("after preemption"), &totals.waits_preempted);
    histogram(&mut all, "on_cpu_ns", ROLE.to_owned(), &totals.runs);
    for (what, offs) in LEFT_NAMES.iter().zip(&totals.offs) {
        histogram(&mut all, "off_cpu_ns", label(what), offs);
    }
    for (cpu, waits) in &totals.waits_by_cpu {
        histogram(&mut all, "run_queue_wait_by_cpu_ns", cpu.to_string(), waits);
    }
    all
}

/// Pairs of names with what was added up, the largest time first.
fn largest(pairs: &BTreeMap<(Name, Name), Sum>) -> Vec<(String, Sum)> {
    let label = |(one, other): &(Name, Name)| format!("{} < {}", name_of(one), name_of(other));
    let mut all: Vec<(String, Sum)> = pairs.iter().map(|(pair, sum)| (label(pair), *sum)).collect();
    all.sort_by(|a, b| (b.1.ns, &a.0).cmp(&(a.1.ns, &b.0)));
    all
}

/// A task without a name is the idle one.
fn name_of(name: &Name) -> String {
    let text = name.text();
    if text.is_empty() { "[unknown]".to_owned() } else { text }
}

/// What a task sleeps for.
fn sleep(is_blocked: bool, call: Option<u32>) -> String {
    match call {
        Some(number) => format!("system call {number}"),
        None if is_blocked => "uninterruptible sleep".to_owned(),
        None => "sleep".to_owned(),
    }
}

fn of_account(totals: &Totals, account: &Account) -> Collected {
    let mut all = of("account");
    if !account.has_waits() {
        all.items.push(EvidenceItem::absent("account_s", "s", NO_WAITS));
        all.coverage.notes.push(NO_WAITS.to_owned());
        return all;
    }
    for (i, (state, ns)) in STATE_NAMES.iter().zip(totals.states).enumerate() {
        // A window in which no task under test did anything has an account as well.
        if ns > 0 || i == ON {
            labelled(&mut all, "account_s", "s", format!("{ROLE} | {state} | "), seconds(ns));
        }
    }
    for ((is_blocked, call), ns) in &totals.sleeps {
        let (state, what) = (if *is_blocked { "blocked" } else { "asleep" }, sleep(*is_blocked, *call));
        labelled(&mut all, "account_s", "s", format!("{ROLE} | {state} | {what}"), seconds(*ns));
    }
    for ((state, name), ns) in &totals.behind {
        let state = STATE_NAMES[*state];
        labelled(&mut all, "behind_s", "s", format!("{ROLE} | {state} | {}", name_of(name)), seconds(*ns));
    }
    for state in ["throttled", "mutex"] {
        let why = "switches and wake-ups do not show it".to_owned();
        let item = EvidenceItem::absent("account_not_seen", "1", why);
        all.items.push(EvidenceItem { label: Some(state.to_owned()), ..item });
    }
    let named = totals.tasks.iter().filter(|(tid, _)| **tid != OTHERS);
    if let Some((tid, busiest)) = named.max_by_key(|(tid, task)| (task.on_ns, std::cmp::Reverse(**tid))) {
        let label = format!("{} ({tid})", name_of(&busiest.name));
        labelled(&mut all, "busiest_thread_s", "s", &label, seconds(busiest.on_ns));
        labelled(&mut all, "busiest_thread_wait_s", "s", &label, seconds(busiest.without_ns));
    }
    all
}

fn tasks(totals: &Totals, account: &Account) -> Collected {
    let mut all = of("tasks");
    let by: [fn(&TaskTally) -> u64; 4] = [|t| t.on_ns, |t| t.without_ns, |t| t.asleep_ns, |t| t.left];
    let mut kept: BTreeSet<u32> = BTreeSet::new();
    for number in by {
        let mut order: Vec<(u64, u32)> = totals.tasks.iter().map(|(tid, task)| (number(task), *tid)).collect();
        order.sort_by_key(|(number, tid)| (std::cmp::Reverse(*number), *tid));
        let most = order.iter().filter(|(_, tid)| *tid != OTHERS).take(MOST_TASKS);
        kept.extend(most.filter(|(number, _)| *number > 0).map(|(_, tid)| *tid));
    }
    let mut others = TaskTally::default();
    let mut count = 0_u64;
    for (tid, task) in &totals.tasks {
        if kept.contains(tid) {
            let pid = account.processes.get(tid).unwrap_or(tid);
            one_task(&mut all, &format!("{tid} | {pid} | {}", name_of(&task.name)), task);
        } else {
            count += if *tid == OTHERS { totals.others() } else { 1 };
            // Waits are of the tasks that are named.
            others.add_numbers(task);
        }
    }
    if count > 0 {
        labelled(&mut all, "other_tasks", "1", "other", count as f64);
        one_task(&mut all, "other", &others);
    }
    all
}

fn one_task(all: &mut Collected, label: &str, task: &TaskTally) {
    let wake_ups = if task.woken > 0 { task.woken } else { task.waking };
    let items = [
        ("task_on_cpu_s", "s", seconds(task.on_ns)),
        ("task_without_cpu_s", "s", seconds(task.without_ns)),
        ("task_asleep_s", "s", seconds(task.asleep_ns)),
        ("task_switches", "1", task.left as f64),
        ("task_preempted", "1", task.preempted as f64),
        ("task_woken", "1", wake_ups as f64),
    ];
    for (name, unit, value) in items {
        if value > 0.0 {
            labelled(all, name, unit, label, value);
        }
    }
    histogram(all, "task_run_queue_wait_ns", label.to_owned(), &task.waits);
}

fn kworkers(totals: &Totals) -> Collected {
    let mut all = of("kworkers");
    let pairs = largest(&totals.workers);
    for (label, sum) in pairs.iter().take(MOST_PAIRS / 2) {
        labelled(&mut all, "kworker_waits", "1", label, sum.times as f64);
        labelled(&mut all, "kworker_wait_s", "s", label, seconds(sum.ns));
        if sum.in_kernel_ns > 0 {
            labelled(&mut all, "kworker_wait_in_kernel_s", "s", label, seconds(sum.in_kernel_ns));
        }
    }
    if pairs.iter().all(|(_, sum)| sum.in_kernel_ns == 0) {
        all.items.push(EvidenceItem::new("kworker_wait_in_kernel_s", "s", 0.0));
    }
    let all_ns: u64 = pairs.iter().map(|(_, sum)| sum.ns).sum();
    all.items.push(EvidenceItem::new("kworker_wait_all_s", "s", seconds(all_ns)));
    all
}

fn cpu(totals: &Totals) -> Collected {
    let mut all = of("cpu");
    let length_s = seconds(totals.end_ns.saturating_sub(totals.begin_ns));
    if totals.known_ns > 0 {
        labelled(&mut all, "cpu_share", "share", "idle", totals.idle_ns as f64 / totals.known_ns as f64);
    }
    if length_s > 0.0 {
        labelled(&mut all, "cpu_used", "cpus", ROLE, seconds(totals.states[ON]) / length_s);
    }
    all
}

/// The stacks of tasks on a CPU; `None` where the trace has none.
fn profile(
    totals: &Totals,
    (frames, period_ns): (&[Frame], u64),
    budget: &MemoryBudget,
) -> Result<Option<Collected>, TooLarge> {
    let samples: u64 = totals.stacks.values().sum();
    if samples == 0 {
        return Ok(None);
    }
    let mut all = of("cpu-profile");
    let (mut places, mut used): (BTreeMap<u32, u32>, Vec<Frame>) = (BTreeMap::new(), Vec::new());
    let mut place = |number: &u32| {
        let frame = frames.get(*number as usize)?;
        Some(*places.entry(*number).or_insert_with(|| {
            used.push(frame.clone());
            used.len() as u32 - 1
        }))
    };
    let mut stacks: Vec<Stack> = Vec::with_capacity(totals.stacks.len());
    let mut in_kernel = 0;
    for ((name, stack), times) in &totals.stacks {
        let innermost = stack.last().and_then(|number| frames.get(*number as usize));
        in_kernel += if innermost.is_some_and(|frame| frame.kind == FrameKind::Kernel) { *times } else { 0 };
        stacks.push(Stack {
            task: name_of(name),
            role: Some(ROLE.to_owned()),
            frames: stack.iter().filter_map(&mut place).collect(),
            weight: *times,
        });
    }
    budget.take(used.iter().map(frame_bytes).sum())?;
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.weight));
    labelled(&mut all, "samples", "samples", ROLE, samples as f64);
    labelled(&mut all, "samples_kernel", "samples", ROLE, in_kernel as f64);
    labelled(&mut all, "samples_user", "samples", ROLE, (samples - in_kernel) as f64);
    all.stacks.push(StackProfile {
        name: "on_cpu".to_owned(),
        unit: "samples".to_owned(),
        period_ns,
        frames: used,
        stacks,
        truncated: 0,
    });
    Ok(Some(all))
}

/// Tasks of a timeline in the order in which they are first seen.
struct Tasks<'a> {
    account: &'a Account,
    places: BTreeMap<u32, u32>,
    all: Vec<TimelineTask>,
}

impl Tasks<'_> {
    fn place(&mut self, tid: u32) -> Option<u32> {
        if tid == 0 {
            return None;
        }
        let next = self.all.len() as u32;
        let place = *self.places.entry(tid).or_insert(next);
        if place == next {
            let pid = self.account.processes.get(&tid).copied().unwrap_or(tid);
            let name = self.account.names.get(&tid).map(name_of).unwrap_or_default();
            self.all.push(TimelineTask { tid, pid, name });
        }
        Some(place)
    }

    fn event(&mut self, event: &KeptEvent, begin_ns: u64) -> Option<TimelineEvent> {
        let kind = match event.kind {
            KeptKind::Switch { from, to, left, cause, call } => {
                let (from, to) = (self.place(from), self.place(to));
                TimelineKind::Switch { from, to, left: left_in_words(left, cause, call), section: None }
            }
            KeptKind::Wakeup { tid, by } => {
                let task = self.place(tid)?;
                TimelineKind::Wakeup { task, by: by.and_then(|by| self.place(by)) }
            }
        };
        Some(TimelineEvent { at_ns: event.at_ns.saturating_sub(begin_ns), cpu: event.cpu, kind })
    }
}

fn left_in_words(left: Left, cause: Option<Cause>, call: Option<u32>) -> String {
    let state = LEFT_NAMES[left as usize];
    match (cause, call) {
        (Some(cause), _) => format!("{state}: {}", CAUSE_NAMES[cause as usize]),
        (None, Some(_)) if left != Left::Exited => format!("{state}: {}", sleep(left == Left::Blocked, call)),
        _ => state.to_owned(),
    }
}

fn timeline(totals: &Totals, account: &Account) -> Collected {
    let mut all = of("timeline");
    let mut tasks = Tasks { account, places: BTreeMap::new(), all: Vec::new() };
    let begin_ns = totals.begin_ns;
    let events: Vec<TimelineEvent> = totals.events.iter().filter_map(|event| tasks.event(event, begin_ns)).collect();
    all.items.push(EvidenceItem::new("timeline_events", "1", events.len() as f64));
    let lost = totals.events_lost;
    if lost > 0 {
        all.coverage.notes.push(format!("{lost} events of the window had no room in its timeline"));
    }
    let end_ns = (lost == 0).then(|| totals.end_ns.saturating_sub(begin_ns));
    all.timeline = Some(Timeline { begin_ns, end_ns, tasks: tasks.all, events, lost, left_out: 0 });
    all
}
