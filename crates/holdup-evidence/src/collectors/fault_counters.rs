//! Page faults of the processes under test.

use crate::Subject;
use crate::reading::{Produces, TwoReadings};
use crate::tasks::{self, HostLine, WithHost};
use holdup_host::process::Stat;
use holdup_model::Meta;

pub(crate) static FAULT_COUNTERS: &TwoReadings<Vec<Subject>, WithHost> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| tasks::probe_own(context, "stat", |text| Stat::parse(text).is_some()),
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| {
        let host = tasks::host_total(reader, HOST);
        Ok((tasks::of_processes(reader, subjects, |s| [s.minor_faults, s.major_faults])?, host))
    },
    compare: |before, after, _| {
        tasks::compare_with_host(before, after, ["minor_faults", "major_faults", "host_faults"], HOST)
    },
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

const HOST: HostLine = ("/proc/vmstat", "pgfault");
