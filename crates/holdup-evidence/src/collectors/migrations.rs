//! How often the processes under test moved to another CPU.

use crate::reading::{Produces, Reader, Seen, TwoReadings, start};
use crate::tasks::{self, Counters};
use crate::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::time::Duration;

pub(crate) struct Migrations;

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

struct What {
    subjects: Vec<Subject>,
}

impl TwoReadings for What {
    type Reading = Counters<1>;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        tasks::read(reader, &self.subjects, "sched", parse)
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        for (role, sum) in tasks::compare(before, after, &mut seen) {
            seen.items.push(EvidenceItem::labelled("migrations", role, "1", sum.counts[0] as f64));
        }
        seen
    }
}

impl Collector for Migrations {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        tasks::probe_own(context, "sched", |text| parse(text).is_some())
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What { subjects: context.subjects.clone() })
            .map_err(|why| Problem::host("collector migrations", why))
    }
}
