//! Voluntary and involuntary context switches of the processes under test.

use crate::Subject;
use crate::reading::{Produces, Reader, TwoReadings, WindowStats, increase};
use crate::tasks::{self, Counters};
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static SWITCH_COUNTERS: &TwoReadings<Vec<Subject>, Reading> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "status", |text| parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| read(subjects, reader),
    compare,
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

fn host_total(text: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix("ctxt "))?.trim().parse().ok()
}

/// Of the tasks, and of the host.
type Reading = (Counters<2>, Option<u64>);

fn read(subjects: &[Subject], reader: &mut Reader<'_>) -> Result<Reading, String> {
    let host = reader.text("/proc/stat").ok().and_then(|text| host_total(&text));
    Ok((tasks::read(reader, subjects, "status", parse)?, host))
}

fn compare(before: &Reading, after: &Reading, _elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (role, sum) in tasks::compare(&before.0, &after.0, &mut stats) {
        for (name, count) in ["voluntary_switches", "involuntary_switches"].iter().zip(sum) {
            stats.items.push(EvidenceItem::labelled(*name, &role, "1", count as f64));
        }
    }
    stats.items.push(match before.1.zip(after.1).and_then(|(b, a)| increase(b, a)) {
        Some(count) => EvidenceItem::new("host_switches", "1", count as f64),
        None => EvidenceItem::absent("host_switches", "1", "/proc/stat has no usable line `ctxt`"),
    });
    stats
}
