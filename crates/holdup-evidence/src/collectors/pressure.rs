//! Pressure stall information of the host.

use crate::reading::{Produces, Reader, Seen, TwoReadings, increase, start};
use crate::{CollectContext, Collecting, Collector};
use holdup_model::{Availability, EvidenceItem, Meta, Problem};
use std::time::Duration;

pub(crate) struct Pressure;

static META: Meta = Meta {
    id: "pressure",
    summary: "share of the window in which tasks waited for CPU, memory or I/O (PSI)",
    docs: "From the totals of /proc/pressure/{cpu,memory,io}, which cover the whole host. `some`: at least one task \
           waited; `full`: all that could run did. Full pressure of the CPU is not defined for a host and is left out.",
    references: &["kernel/sched/psi.c:psi_show (v6.18)", "Documentation/accounting/psi.rst (v6.18)"],
};

const PRODUCES: Produces = &[("pressure_share", "share", "share of the window, by resource and some or full")];

struct What;

pub(crate) fn totals(resource: &str, text: &str) -> Vec<(String, u64)> {
    text.lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            let total_us = rest.split_ascii_whitespace().find_map(|w| w.strip_prefix("total="))?.parse().ok()?;
            (resource != "cpu" || kind != "full").then(|| (format!("{resource} {kind}"), total_us))
        })
        .collect()
}

impl TwoReadings for What {
    type Reading = Vec<(String, u64)>;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        let mut all = Vec::new();
        for resource in ["cpu", "memory", "io"] {
            all.extend(totals(resource, &reader.text(&format!("/proc/pressure/{resource}"))?));
        }
        if all.is_empty() { Err("/proc/pressure holds no totals".to_owned()) } else { Ok(all) }
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, elapsed: Duration) -> Seen {
        let mut seen = Seen::default();
        for (label, now) in after {
            let then = before.iter().find(|(other, _)| other == label).map(|(_, total)| *total);
            match then.and_then(|then| increase(then, *now)) {
                Some(us) => {
                    let share = us as f64 / elapsed.as_micros().max(1) as f64;
                    seen.items.push(EvidenceItem::labelled("pressure_share", label, "share", share));
                }
                None => seen.lost += 1,
            }
        }
        seen
    }
}

impl Collector for Pressure {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        match context.host.read_text("/proc/pressure/cpu") {
            Ok(text) if !totals("cpu", &text).is_empty() => Availability::Ready,
            Ok(_) => Availability::unavailable("/proc/pressure/cpu has another form on this kernel"),
            Err(e) => Availability::unavailable_but(e.to_string(), "boot with psi=1 on a kernel with CONFIG_PSI"),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What).map_err(|why| Problem::host("collector pressure", why))
    }
}
