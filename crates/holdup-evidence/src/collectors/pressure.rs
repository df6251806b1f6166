//! Pressure stall information of the host, and of the control group under test.

use crate::CollectContext;
use crate::reading::{Produces, Reader, TwoReadings, WindowStats, increase};
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;

/// The folder of the group's files; or why there is none.
pub(crate) type Group = Result<String, String>;

/// The totals of the host and of the group, us.
pub(crate) struct Totals {
    host: Vec<(String, u64)>,
    group: Result<Vec<(String, u64)>, String>,
}

pub(crate) static PRESSURE: &TwoReadings<Group, Totals> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| {
        let text = context.host.read_text("/proc/pressure/cpu").map_err(|e| e.to_string())?;
        let has_totals = !totals("cpu", &text).is_empty();
        if has_totals { Ok(()) } else { Err("/proc/pressure/cpu has another form on this kernel".to_owned()) }
    },
    remedy: Some("boot with psi=1 on a kernel with CONFIG_PSI"),
    open: |context| Ok(group(context)),
    read,
    compare,
};

static META: Meta = Meta {
    id: "pressure",
    summary: "share of the window in which tasks waited for CPU, memory or I/O (PSI)",
    docs: "From the totals of /proc/pressure/{cpu,memory,io}, which cover the whole host, and of the files \
           {cpu,memory,io}.pressure of the control group (version 2) of the first process under test. `some`: at least one task \
           waited; `full`: all that could run did. Full pressure of the CPU is not defined for a host and is left out. Tasks wait \
           for memory while the kernel frees some for them, and while they read back what it took from the page cache too \
           early.",
    references: &["kernel/sched/psi.c:psi_show (v6.18)", "Documentation/accounting/psi.rst (v6.18)"],
};

const PRODUCES: Produces = &[
    ("pressure_share", "share", "share of the window, by resource and some or full"),
    ("group_pressure_share", "share", "the same of the control group under test; absent for the root of all groups"),
];

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

fn group(context: &CollectContext) -> Group {
    let groups = context.control_groups()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or("there are no groups of version 2")?;
    if path == "/" {
        return Err("the processes under test are in the root of all groups".to_owned());
    }
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| format!("{mount}{path}"));
    let mut with_pressure = folders.into_iter().filter(|f| context.host.exists(&format!("{f}/memory.pressure")));
    with_pressure.next().ok_or_else(|| format!("the group {path} has no memory.pressure"))
}

pub(crate) fn totals(resource: &str, text: &str) -> Vec<(String, u64)> {
    text.lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            let total_us = rest.split_ascii_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()?;
            (resource != "cpu" || kind != "full").then(|| (format!("{resource} {kind}"), total_us))
        })
        .collect()
}

fn read(group: &Group, reader: &mut Reader<'_>) -> Result<Totals, String> {
    let mut all = |file: &dyn Fn(&str) -> String| {
        let of_each = RESOURCES.map(|resource| Ok(totals(resource, &reader.text(&file(resource))?)));
        Ok::<_, String>(of_each.into_iter().collect::<Result<Vec<_>, String>>()?.concat())
    };
    let host = all(&|resource| format!("/proc/pressure/{resource}"))?;
    if host.is_empty() {
        return Err("/proc/pressure holds no totals".to_owned());
    }
    let group = group.clone().and_then(|folder| all(&|resource| format!("{folder}/{resource}.pressure")));
    Ok(Totals { host, group })
}

fn compare(before: &Totals, after: &Totals, elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    shares("pressure_share", &before.host, &after.host, elapsed, &mut stats);
    match (&before.group, &after.group) {
        (Ok(before), Ok(after)) => shares("group_pressure_share", before, after, elapsed, &mut stats),
        (Err(why), _) | (_, Err(why)) => {
            stats.items.push(EvidenceItem::absent("group_pressure_share", "share", why.clone()));
        }
    }
    stats
}

fn shares(item: &str, before: &[(String, u64)], after: &[(String, u64)], elapsed: Duration, stats: &mut WindowStats) {
    for (label, now) in after {
        let then = before.iter().find(|(other, _)| other == label).map(|(_, total)| *total);
        match then.and_then(|then| increase(then, *now)) {
            Some(us) => {
                let share = us as f64 / elapsed.as_micros().max(1) as f64;
                stats.items.push(EvidenceItem::labelled(item, label, "share", share));
            }
            None => stats.lost += 1,
        }
    }
}
