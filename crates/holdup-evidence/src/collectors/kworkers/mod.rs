//! Kernel threads that are bound to one CPU, and the tasks that kept them from it.

use crate::kernel::layout::{Hog, HogCounts, NAMED_HOGS};
use crate::kernel::{KernelCollector, Part, WindowCounts, task_name};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceItem, Meta};
pub(crate) static KWORKERS: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part { switches: &["want_kworkers"], programs: &[], rings: &[] };

static META: Meta = Meta {
    id: "kworkers",
    summary: "waits of per-CPU kernel threads for their CPU, with the task that ran",
    docs: "Kernel threads that may run on one CPU only (kworkers of per-CPU work queues, ksoftirqd, migration, …) cannot go \
           around a task that keeps their CPU busy inside the kernel: under lazy preemption they wait there until the next \
           tick. BPF programs at the tracepoints sched_wakeup and sched_switch count the waits of all of them on the host, and \
           name the task that had the CPU for most of the wait, else the last. `kworker_wait_in_kernel_s` counts those \
           behind a thread of the kernel, a task that was preempted inside the kernel, or one that was asked to leave on its \
           way back from a system call: a user task that goes to sleep by itself may have been in user mode, and is not \
           counted there. Waits shorter than the time of a switch count as well, \
           so the time says more than the number.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/workqueue.c:kick_pool, WORKER_UNBOUND (v6.18)",
        "include/linux/sched.h:task_struct.nr_cpus_allowed (v6.18)",
    ],
};

const IN_KERNEL: &str = "kworker_wait_in_kernel_s";

const PRODUCES: Produces = &[
    (
        "kworker_waits",
        "1",
        "times that a bound kernel thread waited for its CPU, by the names (thread < task before it)",
    ),
    ("kworker_wait_s", "s", "time that it waited, by the same names"),
    (IN_KERNEL, "s", "of it, behind a task that was in the kernel, by the same names"),
    ("kworker_wait_all_s", "s", "time that all bound kernel threads waited"),
];

/// Pairs of names in the evidence, those with the most time.
const MOST_PAIRS: usize = 50;

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let mut hogs: Vec<(String, HogCounts)> = window
        .rows::<Hog, HogCounts>("hogs", NAMED_HOGS)?
        .iter()
        .map(|(pair, counts)| (format!("{} < {}", task_name(&pair.worker), task_name(&pair.hog)), *counts))
        .collect();
    hogs.sort_by(|a, b| (b.1.wait_ns, &a.0).cmp(&(a.1.wait_ns, &b.0)));
    for (label, counts) in hogs.iter().take(MOST_PAIRS) {
        collected.items.push(EvidenceItem::labelled("kworker_waits", label, "1", counts.times as f64));
        collected.items.push(EvidenceItem::labelled("kworker_wait_s", label, "s", counts.wait_ns as f64 / 1e9));
        if counts.in_kernel_ns > 0 {
            let seconds = counts.in_kernel_ns as f64 / 1e9;
            collected.items.push(EvidenceItem::labelled(IN_KERNEL, label, "s", seconds));
        }
    }
    if !collected.items.iter().any(|i| i.name == IN_KERNEL) {
        collected.items.push(EvidenceItem::new(IN_KERNEL, "s", 0.0));
    }
    let all: u64 = hogs.iter().map(|(_, counts)| counts.wait_ns).sum();
    collected.items.push(EvidenceItem::new("kworker_wait_all_s", "s", all as f64 / 1e9));
    Ok(hogs.iter().map(|(_, counts)| counts.times).sum())
}
