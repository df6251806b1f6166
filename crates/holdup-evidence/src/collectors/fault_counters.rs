//! Page faults of the processes under test.

use crate::reading::{Produces, Reader, Seen, TwoReadings, increase, start};
use crate::{CollectContext, Collecting, Collector, Subject, tasks};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct FaultCounters;

static META: Meta = Meta {
    id: "fault-counters",
    summary: "minor and major page faults of server and load",
    docs: "Minor faults found their page in memory (first touch of shared memory by a process is one, since page tables \
           are its own); major ones waited for a disk. From fields 10 and 12 of /proc/PID/stat of every process under \
           test, and pgfault and pgmajfault of /proc/vmstat for the whole host.",
    references: &["mm/memory.c:mm_account_fault (v6.18)", "proc(5): /proc/pid/stat"],
};

const PRODUCES: Produces = &[
    ("minor_faults", "1", "faults whose page was in memory, by role"),
    ("major_faults", "1", "faults that waited for a disk, by role"),
    ("host_faults", "1", "all faults of the host, both kinds"),
];

struct What {
    subjects: Vec<Subject>,
}

type ByProcess = BTreeMap<(String, u32, u64), [u64; 2]>;

fn host_total(text: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix("pgfault "))?.trim().parse().ok()
}

impl TwoReadings for What {
    type Reading = (ByProcess, Option<u64>);

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        let host = reader.text("/proc/vmstat").ok().and_then(|text| host_total(&text));
        let all = tasks::processes(reader, &self.subjects)?;
        let by_process =
            all.into_iter().map(|(role, s)| ((role, s.pid, s.start_time), [s.minor_faults, s.major_faults])).collect();
        Ok((by_process, host))
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        let mut by_role: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for (process, now) in &after.0 {
            let then = before.0.get(process).copied().unwrap_or([0; 2]);
            let sum = by_role.entry(&process.0).or_default();
            for index in 0..2 {
                sum[index] += now[index].saturating_sub(then[index]);
            }
        }
        let vanished = before.0.keys().filter(|p| !after.0.contains_key(*p)).count();
        if vanished > 0 {
            seen.lost += vanished as u64;
            seen.notes.push(format!("{vanished} processes ended inside the window; their last faults are not known"));
        }
        for (role, counts) in by_role {
            for (name, count) in ["minor_faults", "major_faults"].iter().zip(counts) {
                seen.items.push(EvidenceItem::labelled(*name, role, "1", count as f64));
            }
        }
        seen.items.push(match before.1.zip(after.1).and_then(|(b, a)| increase(b, a)) {
            Some(count) => EvidenceItem::new("host_faults", "1", count as f64),
            None => EvidenceItem::absent("host_faults", "1", "/proc/vmstat has no usable line `pgfault`"),
        });
        seen
    }
}

impl Collector for FaultCounters {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        tasks::probe_own(context, "stat", |text| holdup_host::process::Stat::parse(text).is_some())
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What { subjects: context.subjects.clone() })
            .map_err(|why| Problem::host("collector fault-counters", why))
    }
}
