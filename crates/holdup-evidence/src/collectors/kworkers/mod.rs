//! Kernel threads that are bound to one CPU, and who kept them from it.

use crate::kernel;
use crate::kernel::{Hog, KernelCollector, Seen, Wants};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceItem, Meta};

/// The collector.
pub(crate) static KWORKERS: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, wants: Wants { kworkers: true, ..Wants::NONE }, told };

static META: Meta = Meta {
    id: "kworkers",
    summary: "waits of per-CPU kernel threads for their CPU, with who ran instead",
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

/// Pairs of names that are told, those with the most time.
const MOST_PAIRS: usize = 50;

fn told(seen: &Seen) -> Collected {
    let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
    for Hog { worker, hog, times, wait_ns, in_kernel_ns } in seen.hogs.iter().take(MOST_PAIRS) {
        let label = format!("{worker} < {hog}");
        collected.items.push(EvidenceItem::labelled("kworker_waits", &label, "1", *times as f64));
        collected.items.push(EvidenceItem::labelled("kworker_wait_s", &label, "s", *wait_ns as f64 / 1e9));
        if *in_kernel_ns > 0 {
            let seconds = *in_kernel_ns as f64 / 1e9;
            collected.items.push(EvidenceItem::labelled(IN_KERNEL, &label, "s", seconds));
        }
    }
    if !collected.items.iter().any(|i| i.name == IN_KERNEL) {
        collected.items.push(EvidenceItem::new(IN_KERNEL, "s", 0.0));
    }
    let all: u64 = seen.hogs.iter().map(|h| h.wait_ns).sum();
    collected.items.push(EvidenceItem::new("kworker_wait_all_s", "s", all as f64 / 1e9));
    collected.coverage = kernel::coverage(seen, seen.hogs.iter().map(|h| h.times).sum());
    collected.cost = kernel::cost(seen, &mut collected.coverage);
    collected
}
