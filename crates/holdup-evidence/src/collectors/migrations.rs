//! How often the processes under test moved to another CPU.

use crate::Subject;
use crate::reading::{Produces, TwoReadings, WindowStats};
use crate::tasks::{self, Counters};
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static MIGRATIONS: &TwoReadings<Vec<Subject>, Counters<1>> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "sched", |text| parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| tasks::read(reader, subjects, "sched", parse),
    compare,
};

static META: Meta = Meta {
    id: "migrations",
    summary: "moves of server and load from one CPU to another",
    docs: "From `se.nr_migrations` in /proc/PID/task/TID/sched of every thread under test. Counts moves by wake-up \
           placement and by load balancing alike.",
    references: &["kernel/sched/core.c:set_task_cpu (v6.18)", "kernel/sched/debug.c:proc_sched_show_task (v6.18)"],
};

const PRODUCES: Produces = &[("migrations", "1", "moves to another CPU, by role")];

pub(crate) fn parse(text: &str) -> Option<[u64; 1]> {
    let line = text.lines().find(|l| l.starts_with("se.nr_migrations"))?;
    Some([line.rsplit(':').next()?.trim().parse().ok()?])
}

fn compare(before: &Counters<1>, after: &Counters<1>, _elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (role, sum) in tasks::compare(before, after, &mut stats) {
        stats.items.push(EvidenceItem::labelled("migrations", role, "1", sum[0] as f64));
    }
    stats
}
