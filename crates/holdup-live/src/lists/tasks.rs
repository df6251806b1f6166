//! Single tasks: threads, and processes of PostgreSQL.

use super::{CellKind, List, Row, column, grouped, length_s, sums};
use crate::families::parts;
use crate::stacks;
use holdup_analysis::account::IDLE;
use holdup_model::stacks::Stack;
use holdup_model::{BundleData, text};
use std::collections::BTreeMap;

pub(super) const LIST: List = List {
    title: "Tasks",
    columns: &[
        column("task", CellKind::Text),
        column("on CPU", CellKind::Share),
        column("no CPU", CellKind::Share),
        column("largest wait", CellKind::Named),
        column("switches", CellKind::Rate),
    ],
    empty: "single tasks are not watched (collector tasks, which takes root)",
    rows,
    more: Some(more),
    has_stacks: true,
};

const OTHER: &str = "other";
/// The lines of each kind of stacks at most.
const STACKS: usize = 6;

/// The sums of an item of the collector, by task.
fn of(bundle: &BundleData, item: &str) -> BTreeMap<String, f64> {
    sums(bundle, "tasks", item)
}

/// `4711 client backend`; a thread has its process too.
fn name(label: &str) -> String {
    let [tid, pid, what] = parts(label, " | ");
    if tid == pid { format!("{tid} {what}") } else { format!("{tid} {what} of {pid}") }
}

/// True if a task that sleeps for this has nothing to do.
fn is_idle(waits_for: &str) -> bool {
    waits_for == IDLE || waits_for.starts_with("Activity:")
}

/// What each task slept for, by its label.
fn waits(bundle: &BundleData) -> BTreeMap<String, Vec<(String, f64)>> {
    let mut waits: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for (label, s) in of(bundle, "task_slept_for_s") {
        if let Some((task, what)) = label.rsplit_once(" | ") {
            waits.entry(task.to_owned()).or_default().push((what.to_owned(), s));
        }
    }
    waits
}

fn rows(bundle: &BundleData) -> Vec<Row> {
    let all_s = length_s(bundle);
    let (on, without, asleep) =
        (of(bundle, "task_on_cpu_s"), of(bundle, "task_without_cpu_s"), of(bundle, "task_asleep_s"));
    let (switches, waits) = (of(bundle, "task_switches"), waits(bundle));
    let mut labels: Vec<&String> = [&on, &without, &asleep, &switches].into_iter().flat_map(BTreeMap::keys).collect();
    labels.sort_unstable();
    labels.dedup();
    let row = |label: &String| {
        let share = |of: &BTreeMap<String, f64>| of.get(label).copied().unwrap_or(0.0) / all_s;
        // What it does without work is shown where it waits for nothing else.
        let largest = waits.get(label).into_iter().flatten();
        let largest = largest.max_by(|a, b| {
            (!is_idle(&a.0), a.1).partial_cmp(&(!is_idle(&b.0), b.1)).unwrap_or(std::cmp::Ordering::Equal)
        });
        let (text, wait) = largest.map_or((String::new(), 0.0), |(what, s)| (what.clone(), s / all_s));
        let numbers = vec![
            Some(share(&on)),
            Some(share(&without)),
            Some(wait).filter(|_| !text.is_empty()),
            Some(share(&switches)),
        ];
        if label == OTHER {
            let windows = bundle.trials.len().max(1) as f64;
            let tasks = of(bundle, "other_tasks").values().sum::<f64>() / windows;
            return Row { is_rest: true, ..Row::new(format!("all {tasks:.0} others together"), numbers) };
        }
        Row { text, ..Row::new(name(label), numbers) }
    };
    labels.into_iter().map(row).collect()
}

/// Where a task's time goes, and its stacks.
fn more(bundle: &BundleData, row: &str) -> Vec<String> {
    let Some(tid) = row.split(' ').next().and_then(|tid| tid.parse::<u32>().ok()) else {
        return vec!["Tasks with smaller numbers, and those that ended.".to_owned()];
    };
    let is_own = |label: &str| parts::<2>(label, " | ")[0] == tid.to_string();
    let all_s = length_s(bundle);
    let own = |item: &str| -> f64 {
        of(bundle, item).iter().filter(|(label, _)| is_own(label)).map(|(_, s)| s / all_s).sum()
    };
    let mut slept = grouped(&of(bundle, "task_slept_for_s"), |label| {
        is_own(label).then(|| label.rsplit(" | ").next().unwrap_or_default().to_owned())
    });
    slept.values_mut().for_each(|s| *s /= all_s);
    let mut slept: Vec<(String, f64)> = slept.into_iter().collect();
    slept.sort_by(|a, b| b.1.total_cmp(&a.1));
    let line = |share: f64, what: String| format!("{:5.1} %  {what}", 100.0 * share);
    let mut lines = vec![
        line(own("task_on_cpu_s"), "on a CPU".to_owned()),
        line(own("task_without_cpu_s"), "runnable without a CPU".to_owned()),
    ];
    let other = own("task_asleep_s") - slept.iter().map(|(_, s)| s).sum::<f64>();
    lines.extend(slept.into_iter().map(|(what, s)| line(s, format!("asleep for {what}"))));
    lines.extend((other > 0.0005).then(|| line(other, "asleep for other things".to_owned())));
    let (all, preempted) = (own("task_switches"), own("task_preempted"));
    lines.push(format!("It leaves its CPU {all:.1} times a second, {preempted:.1} of them while it could run."));
    let is_asleep = own("task_asleep_s") > own("task_on_cpu_s");
    lines.extend(stack_lines(bundle, is_asleep, |_, stack| stacks::tid(stack) == Some(tid)));
    lines
}

/// The stacks of single tasks, on a CPU and off it, these first where it is asleep. The place of the window comes with each stack.
pub(super) fn stack_lines(
    bundle: &BundleData,
    is_asleep: bool,
    is_wanted: impl Fn(usize, &Stack) -> bool,
) -> Vec<String> {
    let windows = bundle.trials.iter().filter(|trial| trial.evidence.iter().any(|c| c.collector == "off-cpu")).count();
    if windows == 0 {
        return vec!["Call stacks of single tasks are collected while this is open; it takes two windows.".to_owned()];
    }
    let mut kinds = [("on_cpu", "On a CPU"), ("off_cpu", "Off the CPU, by time")];
    if is_asleep {
        kinds.reverse();
    }
    let mut lines = Vec::new();
    for (profile, title) in kinds {
        let found = stacks::lines(bundle, profile, STACKS, |at, _, stack| is_wanted(at, stack));
        let none = if found.is_empty() { " no sample" } else { "" };
        lines.push(format!("{title}, in {}:{none}", text::count(windows, "window")));
        lines.extend(found);
    }
    lines
}
