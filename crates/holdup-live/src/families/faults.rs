//! Page faults (collector `faults`).

use super::{Family, Kind, Reading, each, pairs};

const ID: &str = "faults";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_page_faults",
        help: "Page faults of watched tasks, by role and kind (minor, major, huge).",
        kind: Kind::Counter,
        unit: "",
        labels: &["role", "kind"],
        read: |seen, into| pairs(seen, ID, "faults", ": ", into),
    },
    Family {
        name: "holdup_page_fault_seconds",
        help: "How long page faults of watched tasks took, by role.",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["role"],
        read: |seen, into| {
            seen.histograms(ID, "fault_ns").for_each(|(label, h)| into(&[label], Reading::Durations(h)));
        },
    },
    Family {
        name: "holdup_page_fault_under_lock_seconds",
        help: "Time in page faults of tasks that held a lock, by critical section.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["section"],
        read: |seen, into| each(seen, ID, "fault_in_section_s", into),
    },
];
