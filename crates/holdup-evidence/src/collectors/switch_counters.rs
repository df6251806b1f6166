//! Voluntary and involuntary context switches of the processes under test.

use crate::Subject;
use crate::reading::{Produces, TwoReadings};
use crate::tasks::{self, HostLine, WithHost};
use holdup_model::Meta;

pub(crate) static SWITCH_COUNTERS: &TwoReadings<Vec<Subject>, WithHost> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "status", |text| parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| {
        let host = tasks::host_total(reader, HOST);
        Ok((tasks::read(reader, subjects, "status", parse)?, host))
    },
    compare: |before, after, _| {
        tasks::compare_with_host(before, after, ["voluntary_switches", "involuntary_switches", "host_switches"], HOST)
    },
};

static META: Meta = Meta {
    id: "switch-counters",
    summary: "voluntary and involuntary context switches of server and load",
    docs: "From /proc/PID/task/TID/status of every thread of the processes under test. A switch is voluntary when the \
           task blocked, involuntary when it was still runnable: preempted, at the user boundary or in the kernel; the \
           two count alike here. The host's total comes from `ctxt` in /proc/stat and counts every task.",
    references: &[
        "kernel/sched/core.c:__schedule, switch_count (v6.18)",
        "fs/proc/array.c:task_context_switch_counts (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("voluntary_switches", "1", "the task blocked, by role"),
    ("involuntary_switches", "1", "the task was preempted, by role"),
    ("host_switches", "1", "context switches of all tasks of the host"),
];

pub(crate) fn parse(text: &str) -> Option<[u64; 2]> {
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name))?.trim().parse().ok();
    Some([field("voluntary_ctxt_switches:")?, field("nonvoluntary_ctxt_switches:")?])
}

const HOST: HostLine = ("/proc/stat", "ctxt");
