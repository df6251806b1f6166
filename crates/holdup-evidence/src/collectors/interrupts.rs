//! Interrupts of the host, by source.

use crate::reading::{Produces, Reader, Seen, TwoReadings, start};
use crate::{CollectContext, Collecting, Collector, table};
use holdup_model::{Availability, Meta, Problem};
use std::time::Duration;

pub(crate) struct Interrupts;

static META: Meta = Meta {
    id: "interrupts",
    summary: "interrupts by source: timer, rescheduling, function calls, devices",
    docs: "From /proc/interrupts, summed over CPUs: LOC (local timer), RES (rescheduling IPI), CAL (function call IPI), \
           TLB (shootdown) and every other source that fired. Numbered sources are labelled with their device.",
    references: &["arch/x86/kernel/irq.c:arch_show_interrupts (v6.18)", "kernel/irq/proc.c:show_interrupts (v6.18)"],
};

const PRODUCES: Produces = &[("interrupts", "1", "interrupts by source")];

struct What;

impl TwoReadings for What {
    type Reading = table::Counts;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        table::read("/proc/interrupts", &reader.text("/proc/interrupts")?)
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        table::compare("interrupts", before, after)
    }
}

impl Collector for Interrupts {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        table::probe(context, "/proc/interrupts")
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What).map_err(|why| Problem::host("collector interrupts", why))
    }
}
