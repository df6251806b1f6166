//! The host, the control group and kernel threads (collectors `cpu`, `pressure`, `cgroup-throttling`, `kworkers`).

use super::{Family, Kind, Reading, Seen, Sink, parts};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_host_cpu_seconds",
        help: "CPU time of the host, by mode, while it was watched.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["mode"],
        read: |seen, into| {
            let whole_s = seen.length_s * seen.cpus;
            seen.items("cpu", "cpu_share").for_each(|(label, share)| into(&[label], Reading::Number(share * whole_s)));
        },
    },
    Family {
        name: "holdup_pressure_stalled_seconds",
        help: "Time in which tasks of the host stalled (PSI), by resource and whether some or all did.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["resource", "stalled"],
        read: |seen, into| stalled(seen, "pressure_share", into),
    },
    Family {
        name: "holdup_cgroup_pressure_stalled_seconds",
        help: "The same of the control group that is watched.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["resource", "stalled"],
        read: |seen, into| stalled(seen, "group_pressure_share", into),
    },
    Family {
        name: "holdup_cgroup_throttled_seconds",
        help: "Time in which the CPU limit of the watched control group held its tasks up, all CPUs together.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &[],
        read: throttled,
    },
    Family {
        name: "holdup_kernel_thread_wait_seconds",
        help: "Time that kernel threads which are bound to one CPU waited for it, by thread and the task before it.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["thread", "behind"],
        read: |seen, into| super::pairs(seen, "kworkers", "kworker_wait_s", " < ", into),
    },
];

fn stalled(seen: &Seen<'_>, item: &str, into: &mut Sink<'_>) {
    for (label, share) in seen.items("pressure", item) {
        let [resource, stalled] = parts(label, " ");
        into(&[resource, stalled], Reading::Number(share * seen.length_s));
    }
}

fn throttled(seen: &Seen<'_>, into: &mut Sink<'_>) {
    let shares = seen.items("cgroup-throttling", "cgroup_throttled_share");
    shares.for_each(|(_, share)| into(&[], Reading::Number(share * seen.length_s)));
}
