//! What watching costs, and what it lost.

use super::{Family, Kind, Reading};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_watched_seconds",
        help: "Time watched; rates of all other counters are against this one where windows are missing.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &[],
        read: |seen, into| into(&[], Reading::Number(seen.length_s)),
    },
    Family {
        name: "holdup_windows",
        help: "Windows that ended; `false` for those in which something stood still (their counts are in all counters).",
        kind: Kind::Counter,
        unit: "",
        labels: &["steady"],
        read: |seen, into| {
            let is_done = seen.trial.is_done();
            into(&["true"], Reading::Number(f64::from(u8::from(is_done))));
            into(&["false"], Reading::Number(f64::from(u8::from(!is_done))));
        },
    },
    Family {
        name: "holdup_collector_cpu_seconds",
        help: "CPU time of each collector's own code.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["collector"],
        read: |seen, into| {
            for collected in &seen.trial.evidence {
                into(&[&collected.collector], Reading::Number(collected.cost.cpu_ns as f64 / 1e9));
            }
        },
    },
    Family {
        name: "holdup_bpf_run_seconds",
        help: "Run time of holdup's BPF programs, in the context of the tasks that they watch, sampled by the kernel.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &[],
        read: |seen, into| {
            let costs = seen.trial.evidence.iter().filter_map(|c| c.cost.bpf);
            into(&[], Reading::Number(costs.map(|bpf| bpf.run_ns as f64).sum::<f64>() / 1e9));
        },
    },
    Family {
        name: "holdup_collector_memory_bytes",
        help: "Memory of each collector's maps, rings and tables.",
        kind: Kind::Gauge,
        unit: "bytes",
        labels: &["collector"],
        read: |seen, into| {
            for collected in &seen.trial.evidence {
                into(&[&collected.collector], Reading::Number(collected.cost.memory_bytes as f64));
            }
        },
    },
    Family {
        name: "holdup_collector_events",
        help: "Events that each collector saw (`lost=\"false\"`) and those that it is known to have lost.",
        kind: Kind::Counter,
        unit: "",
        labels: &["collector", "lost"],
        read: |seen, into| {
            for collected in &seen.trial.evidence {
                into(&[&collected.collector, "false"], Reading::Number(collected.coverage.seen as f64));
                into(&[&collected.collector, "true"], Reading::Number(collected.coverage.lost as f64));
            }
        },
    },
];
