//! Page faults of the processes under test.

use crate::Subject;
use crate::reading::{Produces, Reader, TwoReadings, WindowStats, increase};
use crate::tasks::{self, Counters};
use holdup_host::process::Stat;
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static FAULT_COUNTERS: &TwoReadings<Vec<Subject>, Reading> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "stat", |text| Stat::parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| read(subjects, reader),
    compare,
};

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

/// Minor and major faults, and those of the host.
type Reading = (Counters<2>, Option<u64>);

fn host_total(text: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix("pgfault "))?.trim().parse().ok()
}

fn read(subjects: &[Subject], reader: &mut Reader<'_>) -> Result<Reading, String> {
    let host = reader.text("/proc/vmstat").ok().and_then(|text| host_total(&text));
    Ok((tasks::of_processes(reader, subjects, |s| [s.minor_faults, s.major_faults])?, host))
}

fn compare(before: &Reading, after: &Reading, _elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (role, counts) in tasks::compare(&before.0, &after.0, &mut stats) {
        for (name, count) in ["minor_faults", "major_faults"].iter().zip(counts) {
            stats.items.push(EvidenceItem::labelled(*name, &role, "1", count as f64));
        }
    }
    stats.items.push(match before.1.zip(after.1).and_then(|(b, a)| increase(b, a)) {
        Some(count) => EvidenceItem::new("host_faults", "1", count as f64),
        None => EvidenceItem::absent("host_faults", "1", "/proc/vmstat has no usable line `pgfault`"),
    });
    stats
}
