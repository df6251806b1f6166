//! Holders and waiters of locks (collector `critical-sections`).

use super::{Family, Kind, Reading, Seen, Sink, each};

const ID: &str = "critical-sections";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_lock_waiter_seconds",
        help: "CPU time of tasks that spin for a lock, by critical section, sampled.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["section"],
        read: |seen, into| each(seen, ID, "waiter_s", into),
    },
    Family {
        name: "holdup_lock_waiter_behind_switched_out_holder_seconds",
        help: "CPU time of tasks that spin for a lock whose holder is off the CPU, by critical section, sampled.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["section"],
        read: |seen, into| each(seen, ID, "waiter_behind_off_cpu_holder_s", into),
    },
    Family {
        name: "holdup_lock_holder_off_cpu_seconds",
        help: "How long lock holders were off the CPU each time, by critical section.",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["section"],
        read: |seen, into| durations(seen, "holder_off_cpu_ns", into),
    },
    Family {
        name: "holdup_lock_section_residual_seconds",
        help: "How much longer a preempted holder ran until it released its lock, by critical section, sampled.",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["section"],
        read: |seen, into| durations(seen, "section_residual_ns", into),
    },
];

fn durations(seen: &Seen<'_>, name: &str, into: &mut Sink<'_>) {
    seen.histograms(ID, name).for_each(|(section, durations)| into(&[section], Reading::Durations(durations)));
}
