//! How long the processes under test waited for a CPU.

use crate::Subject;
use crate::reading::{Produces, TwoReadings, WindowStats};
use crate::tasks::{self, Counters};
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static RUN_QUEUE: &TwoReadings<Vec<Subject>, Counters<3>> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "schedstat", |text| parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| tasks::read(reader, subjects, "schedstat", parse),
    compare,
};

static META: Meta = Meta {
    id: "run-queue",
    summary: "time that runnable tasks of server and load waited for a CPU",
    docs: "From /proc/PID/task/TID/schedstat of every thread under test: ns on a CPU, ns runnable but not on a CPU, and \
           how often it got one. The wait of a task counts when it gets the CPU, so one that still waits at the \
           window's end is counted in the next. `run_queue_waiting` is how many tasks waited at a time, on average; the \
           mean wait is over arrivals on a CPU. Needs CONFIG_SCHED_INFO (there with SCHEDSTATS or TASK_DELAY_ACCT), not \
           /proc/schedstat.",
    references: &["kernel/sched/stats.h:sched_info_arrive (v6.18)", "fs/proc/base.c:proc_pid_schedstat (v6.18)"],
};

const PRODUCES: Produces = &[
    ("run_queue_waiting", "tasks", "tasks that were runnable without a CPU, on average over the window, by role"),
    ("run_queue_wait_mean_us", "us", "mean wait before each time on a CPU, by role"),
    ("times_on_cpu", "1", "how often a task of the role got a CPU"),
];

pub(crate) fn parse(text: &str) -> Option<[u64; 3]> {
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || words.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn compare(before: &Counters<3>, after: &Counters<3>, elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (role, sum) in tasks::compare(before, after, &mut stats) {
        let [_, wait_ns, times] = sum;
        let waiting = wait_ns as f64 / elapsed.as_nanos().max(1) as f64;
        stats.items.push(EvidenceItem::labelled("run_queue_waiting", &role, "tasks", waiting));
        stats.items.push(EvidenceItem::labelled("times_on_cpu", &role, "1", times as f64));
        if times > 0 {
            let mean_us = wait_ns as f64 / times as f64 / 1e3;
            stats.items.push(EvidenceItem::labelled("run_queue_wait_mean_us", &role, "us", mean_us));
        } else {
            stats.notes.push(format!("no task of {role} got a CPU, so there is no mean wait"));
        }
    }
    stats
}
