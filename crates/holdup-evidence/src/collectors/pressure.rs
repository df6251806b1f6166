//! Pressure stall information of the host.

use crate::reading::{Produces, Reader, TwoReadings, WindowStats, host_only, increase};
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static PRESSURE: &TwoReadings<(), Vec<(String, u64)>> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| {
        let text = context.host.read_text("/proc/pressure/cpu").map_err(|e| e.to_string())?;
        let has_totals = !totals("cpu", &text).is_empty();
        if has_totals { Ok(()) } else { Err("/proc/pressure/cpu has another form on this kernel".to_owned()) }
    },
    remedy: Some("boot with psi=1 on a kernel with CONFIG_PSI"),
    open: host_only,
    read,
    compare: |before, after, elapsed| compare(before, after, elapsed),
};

static META: Meta = Meta {
    id: "pressure",
    summary: "share of the window in which tasks waited for CPU, memory or I/O (PSI)",
    docs: "From the totals of /proc/pressure/{cpu,memory,io}, which cover the whole host. `some`: at least one task \
           waited; `full`: all that could run did. Full pressure of the CPU is not defined for a host and is left out.",
    references: &["kernel/sched/psi.c:psi_show (v6.18)", "Documentation/accounting/psi.rst (v6.18)"],
};

const PRODUCES: Produces = &[("pressure_share", "share", "share of the window, by resource and some or full")];

pub(crate) fn totals(resource: &str, text: &str) -> Vec<(String, u64)> {
    text.lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            let total_us = rest.split_ascii_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()?;
            (resource != "cpu" || kind != "full").then(|| (format!("{resource} {kind}"), total_us))
        })
        .collect()
}

fn read((): &(), reader: &mut Reader<'_>) -> Result<Vec<(String, u64)>, String> {
    let mut all = Vec::new();
    for resource in ["cpu", "memory", "io"] {
        all.extend(totals(resource, &reader.text(&format!("/proc/pressure/{resource}"))?));
    }
    if all.is_empty() { Err("/proc/pressure holds no totals".to_owned()) } else { Ok(all) }
}

fn compare(before: &[(String, u64)], after: &[(String, u64)], elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    for (label, now) in after {
        let then = before.iter().find(|(other, _)| other == label).map(|(_, total)| *total);
        match then.and_then(|then| increase(then, *now)) {
            Some(us) => {
                let share = us as f64 / elapsed.as_micros().max(1) as f64;
                stats.items.push(EvidenceItem::labelled("pressure_share", label, "share", share));
            }
            None => stats.lost += 1,
        }
    }
    stats
}
