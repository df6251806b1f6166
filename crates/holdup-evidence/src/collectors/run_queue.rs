//! How long the processes under test waited for a CPU.

use crate::reading::{Produces, Reader, Seen, TwoReadings, start};
use crate::tasks::{self, Counters};
use crate::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::time::Duration;

pub(crate) struct RunQueue;

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

struct What {
    subjects: Vec<Subject>,
}

impl TwoReadings for What {
    type Reading = Counters<3>;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        tasks::read(reader, &self.subjects, "schedstat", parse)
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        for (role, sum) in tasks::compare(before, after, &mut seen) {
            let [_, wait_ns, times] = sum.counts;
            let waiting = wait_ns as f64 / elapsed.as_nanos().max(1) as f64;
            seen.items.push(EvidenceItem::labelled("run_queue_waiting", &role, "tasks", waiting));
            seen.items.push(EvidenceItem::labelled("times_on_cpu", &role, "1", times as f64));
            if times > 0 {
                let mean_us = wait_ns as f64 / times as f64 / 1e3;
                seen.items.push(EvidenceItem::labelled("run_queue_wait_mean_us", &role, "us", mean_us));
            } else {
                seen.notes.push(format!("no task of {role} got a CPU, so there is no mean wait"));
            }
        }
        seen
    }
}

impl Collector for RunQueue {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        tasks::probe_own(context, "schedstat", |text| parse(text).is_some())
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What { subjects: context.subjects.clone() })
            .map_err(|why| Problem::host("collector run-queue", why))
    }
}
