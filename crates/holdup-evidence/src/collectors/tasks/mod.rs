//! The account of single tasks: those with the largest numbers, and the others as one.

use super::account::{process_kind, sleep};
use crate::kernel::layout::{ACCOUNT_ASLEEP, ACCOUNT_ON, TaskRecord};
use crate::kernel::{KernelCollector, Part, WindowCounts, task_name};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceItem, Meta};
use std::collections::BTreeMap;

pub(crate) static TASKS: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part { switches: &["want_tasks"], programs: &[], rings: &[] };

static META: Meta = Meta {
    id: "tasks",
    summary: "the account of single tasks: the largest, and the others as one",
    docs: "What `account`, which has to run too, keeps of each task, task by task: time on a CPU, runnable without one, and \
           asleep, the two things that it slept for most, and how often it left its CPU. A window has the 32 tasks with the \
           largest number of each kind: on a CPU, without one, asleep for something of others (wait events but those of the \
           classes Client and Activity; mutexes and page faults), switches. All others are added up under the label `other`, with \
           the times on a CPU and without one of tasks that ended in the window. So a window has at most 128 tasks, and the sums \
           are those of the account.\n\n\
           A label is `TID | PID | WHAT`: what a process of PostgreSQL is, or the name of the task. Of its sleeps each task keeps the four \
           kinds with the most time; where there are more, the smallest gives way, so that of many kinds a small one may have less \
           than its time.",
    references: &["kernel/bpf/task_iter.c, kernel/bpf/bpf_iter.c:bpf_seq_read (v6.18)"],
};

const PRODUCES: Produces = &[
    ("task_on_cpu_s", "s", "time on a CPU (TID | PID | WHAT, or `other`)"),
    ("task_without_cpu_s", "s", "time runnable and on no CPU"),
    ("task_asleep_s", "s", "time asleep"),
    ("task_slept_for_s", "s", "the two things that it slept for most (TID | PID | WHAT | FOR)"),
    ("task_switches", "1", "how often it left its CPU"),
    ("task_preempted", "1", "how often it did so while it could run"),
    ("other_tasks", "1", "tasks under the label `other`"),
];

/// The things that a task slept for that are shown.
const SHOWN: usize = 2;

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let account = window.account.as_ref().map_err(|why| match why.is_empty() {
        true => "it takes the collector account".to_owned(),
        false => format!("this kernel does not take the account's programs: {why}"),
    })?;
    let tasks = &account.tasks;
    let mut add = |name: &str, unit: &str, label: &str, value: f64| {
        if value > 0.0 {
            collected.items.push(EvidenceItem::labelled(name, label, unit, value));
        }
    };
    for task in &tasks.kept {
        let label = label(window, task);
        add("task_on_cpu_s", "s", &label, task.on_ns as f64 / 1e9);
        add("task_without_cpu_s", "s", &label, task.without_ns as f64 / 1e9);
        add("task_asleep_s", "s", &label, task.asleep_ns as f64 / 1e9);
        add("task_switches", "1", &label, f64::from(task.left));
        add("task_preempted", "1", &label, f64::from(task.left_runnable));
        for (what, ns) in slept_for(window, task) {
            add("task_slept_for_s", "s", &format!("{label} | {what}"), ns as f64 / 1e9);
        }
    }
    let others = tasks.others;
    // Tasks that ended have no record; the account has their time.
    let ended_ns = |is_of: fn(usize) -> bool, of: fn(&TaskRecord) -> u64, others_ns: u64| {
        let states = account.states.iter().filter(|(key, _)| is_of(usize::from(key.state)));
        let all_ns: u64 = states.map(|(_, value)| value.ns).sum();
        all_ns.saturating_sub(tasks.kept.iter().map(of).sum()).max(others_ns)
    };
    let on_ns = ended_ns(|state| state == ACCOUNT_ON, |task| task.on_ns, others.on_ns);
    let is_without = |state| state > ACCOUNT_ON && state < ACCOUNT_ASLEEP;
    let without_ns = ended_ns(is_without, |task| task.without_ns, others.without_ns);
    add("other_tasks", "1", OTHER, others.tasks as f64);
    add("task_on_cpu_s", "s", OTHER, on_ns as f64 / 1e9);
    add("task_without_cpu_s", "s", OTHER, without_ns as f64 / 1e9);
    add("task_asleep_s", "s", OTHER, others.asleep_ns as f64 / 1e9);
    add("task_switches", "1", OTHER, others.left as f64);
    add("task_preempted", "1", OTHER, others.left_runnable as f64);
    Ok(tasks.kept.len() as u64 + others.tasks)
}

const OTHER: &str = "other";

fn label(window: &WindowCounts, task: &TaskRecord) -> String {
    let what = process_kind(window, task.role, task.kind);
    let what = what.map_or_else(|| task_name(&task.comm), str::to_owned);
    format!("{} | {} | {what}", task.tid, task.pid)
}

/// What a task slept for, the most first.
fn slept_for(window: &WindowCounts, task: &TaskRecord) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for slept in task.slept.iter().filter(|slept| slept.ns > 0) {
        *sums.entry(sleep(window, task.role, slept.wait_event, slept.syscall)).or_default() += slept.ns;
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    sums.truncate(SHOWN);
    sums
}
