//! Voluntary and involuntary context switches of the processes under test.

use crate::reading::{Produces, Reader, Seen, TwoReadings, increase, start};
use crate::tasks::{self, Counters};
use crate::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::time::Duration;

pub(crate) struct SwitchCounters;

static META: Meta = Meta {
    id: "switch-counters",
    summary: "voluntary and involuntary context switches of server and load",
    docs: "From /proc/PID/task/TID/status of every thread of the processes under test. A switch is voluntary when the \
           task blocked, involuntary when it was still runnable: preempted, at the user boundary or in the kernel; the \
           two are not told apart here. The host's total comes from `ctxt` in /proc/stat and counts every task.",
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

struct What {
    subjects: Vec<Subject>,
}

impl TwoReadings for What {
    type Reading = (Counters<2>, Option<u64>);

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        let host = reader.text("/proc/stat").ok().and_then(|text| host_total(&text));
        Ok((tasks::read(reader, &self.subjects, "status", parse)?, host))
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        for (role, sum) in tasks::compare(&before.0, &after.0, &mut seen) {
            for (name, count) in ["voluntary_switches", "involuntary_switches"].iter().zip(sum.counts) {
                seen.items.push(EvidenceItem::labelled(*name, &role, "1", count as f64));
            }
        }
        seen.items.push(match before.1.zip(after.1).and_then(|(b, a)| increase(b, a)) {
            Some(count) => EvidenceItem::new("host_switches", "1", count as f64),
            None => EvidenceItem::absent("host_switches", "1", "/proc/stat has no usable line `ctxt`"),
        });
        seen
    }
}

impl Collector for SwitchCounters {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        tasks::probe_own(context, "status", |text| parse(text).is_some())
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What { subjects: context.subjects.clone() })
            .map_err(|why| Problem::host("collector switch-counters", why))
    }
}
