//! Softirqs of the host, by kind.

use crate::reading::{Produces, Reader, Seen, TwoReadings, start};
use crate::{CollectContext, Collecting, Collector, table};
use holdup_model::{Availability, Meta, Problem};
use std::time::Duration;

pub(crate) struct Softirqs;

static META: Meta = Meta {
    id: "softirqs",
    summary: "softirqs by kind: TIMER, NET_RX, SCHED, RCU and others",
    docs: "From /proc/softirqs, summed over CPUs. SCHED is load balancing at the tick; NET_RX grows with loopback traffic.",
    references: &["kernel/softirq.c:handle_softirqs (v6.18)", "fs/proc/softirqs.c:show_softirqs (v6.18)"],
};

const PRODUCES: Produces = &[("softirqs", "1", "softirqs by kind")];

struct What;

impl TwoReadings for What {
    type Reading = table::Counts;

    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Reading, String> {
        table::read("/proc/softirqs", &reader.text("/proc/softirqs")?)
    }

    fn compare(&self, before: &Self::Reading, after: &Self::Reading, _elapsed: Duration) -> Seen {
        table::compare("softirqs", before, after)
    }
}

impl Collector for Softirqs {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn produces(&self) -> Produces {
        PRODUCES
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        table::probe(context, "/proc/softirqs")
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        start(META.id, PRODUCES, &context.host, What).map_err(|why| Problem::host("collector softirqs", why))
    }
}
