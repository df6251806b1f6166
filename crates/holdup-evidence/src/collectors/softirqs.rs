//! Softirqs of the host, by kind.

use crate::reading::{Produces, TwoReadings, host_only};
use crate::table;
use holdup_model::Meta;
pub(crate) static SOFTIRQS: &TwoReadings<(), table::Counts> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| table::probe(context, PATH),
    remedy: None,
    open: host_only,
    read: |(), reader| table::read(PATH, &reader.text(PATH)?),
    compare: |before, after, _| table::compare("softirqs", before, after),
};

static META: Meta = Meta {
    id: "softirqs",
    summary: "softirqs by kind: TIMER, NET_RX, SCHED, RCU and others",
    docs: "From /proc/softirqs, summed over CPUs. SCHED is load balancing at the tick; NET_RX grows with loopback traffic.",
    references: &["kernel/softirq.c:handle_softirqs (v6.18)", "fs/proc/softirqs.c:show_softirqs (v6.18)"],
};

const PATH: &str = "/proc/softirqs";

const PRODUCES: Produces = &[("softirqs", "1", "softirqs by kind")];
