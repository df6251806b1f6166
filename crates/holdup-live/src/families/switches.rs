//! Switches of watched tasks (collector `switches`).

use super::{Family, Kind, Reading, Seen, Sink, each, parts, word};

const ID: &str = "switches";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_switches",
        help: "Times that watched tasks left a CPU, by role and the state that they left it in.",
        kind: Kind::Counter,
        unit: "",
        labels: &["role", "state"],
        read: |seen, into| worded(seen, "switched_out", into),
    },
    Family {
        name: "holdup_preemptions",
        help: "Times that runnable tasks lost their CPU, by role and cause.",
        kind: Kind::Counter,
        unit: "",
        labels: &["role", "cause"],
        read: |seen, into| worded(seen, "preempted_by_cause", into),
    },
    Family {
        name: "holdup_preempted_seconds",
        help: "Time that tasks which lost their CPU were off it, by role and cause.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["role", "cause"],
        read: |seen, into| worded(seen, "preempted_off_cpu_s", into),
    },
    Family {
        name: "holdup_preempted_by_seconds",
        help: "Time that tasks were off their CPU after another one took it, by the names of both.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["task", "by"],
        read: |seen, into| super::pairs(seen, ID, "preempted_by_off_cpu_s", " < ", into),
    },
    Family {
        name: "holdup_on_cpu_seconds",
        help: "Time that watched tasks were on a CPU, by role.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["role"],
        read: |seen, into| each(seen, ID, "on_cpu_s", into),
    },
    Family {
        name: "holdup_migrations",
        help: "Times that a watched task came to another CPU than it had left, by role.",
        kind: Kind::Counter,
        unit: "",
        labels: &["role"],
        read: |seen, into| each(seen, ID, "migrated", into),
    },
    Family {
        name: "holdup_run_queue_wait_seconds",
        help: "Waits of watched tasks for a CPU, by role and what they came after: a wake-up or a preemption.",
        kind: Kind::Histogram,
        unit: "seconds",
        labels: &["role", "after"],
        read: |seen, into| {
            for (label, durations) in seen.histograms(ID, "run_queue_wait_ns") {
                let [role, after] = parts(label, ": after ");
                into(&[role, &word(after)], Reading::Durations(durations));
            }
        },
    },
];

fn worded(seen: &Seen<'_>, item: &str, into: &mut Sink<'_>) {
    for (label, value) in seen.items(ID, item) {
        let [role, of] = parts(label, ": ");
        // `user boundary (R)`: the letter is in the documentation.
        into(&[role, &word(of.split(" (").next().unwrap_or(of))], Reading::Number(value));
    }
}
