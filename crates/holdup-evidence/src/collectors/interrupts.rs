//! Interrupts of the host, by source.

use crate::reading::{Produces, TwoReadings, host_only};
use crate::table;
use holdup_model::Meta;
pub(crate) static INTERRUPTS: &TwoReadings<(), table::Counts> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| table::probe(context, PATH),
    remedy: None,
    open: host_only,
    read: |(), reader| table::read(PATH, &reader.text(PATH)?),
    compare: |before, after, _| table::compare("interrupts", before, after),
};

static META: Meta = Meta {
    id: "interrupts",
    summary: "interrupts by source: timer, rescheduling, function calls, devices",
    docs: "From /proc/interrupts, summed over CPUs: LOC (local timer), RES (rescheduling IPI), CAL (function call IPI), \
           TLB (shootdown) and every other source that fired. Numbered sources are labelled with their device.",
    references: &["arch/x86/kernel/irq.c:arch_show_interrupts (v6.18)", "kernel/irq/proc.c:show_interrupts (v6.18)"],
};

const PATH: &str = "/proc/interrupts";

const PRODUCES: Produces = &[("interrupts", "1", "interrupts by source")];
