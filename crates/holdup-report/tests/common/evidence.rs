//! What ten collectors would have seen.

use super::Noise;
use holdup_model::bundle::CollectorState;
use holdup_model::*;

pub const IDS: [&str; 11] = [
    "cpu",
    "switch-counters",
    "run-queue",
    "migrations",
    "fault-counters",
    "pressure",
    "interrupts",
    "softirqs",
    "network",
    "wait-events",
    "cgroup-throttling",
];

pub fn states() -> Vec<CollectorState> {
    let state = |id: &str| match id {
        "cgroup-throttling" => Availability::unavailable_but(
            "the server's control group has no cpu controller",
            "echo +cpu > cgroup.subtree_control",
        ),
        "migrations" => Availability::Degraded { reason: "CONFIG_SCHED_DEBUG is off: the host's total only".into() },
        _ => Availability::Ready,
    };
    IDS.map(|id| CollectorState { id: id.into(), availability: state(id) }).into()
}

pub fn collected(tps: f64, clients: f64, batch: bool, noise: &mut Noise) -> Vec<Collected> {
    let mut about = |x: f64| x * noise.normal(0.03).exp();
    let busy = (0.35 + 0.1 * clients.log2()).min(0.98);
    let item = |name: &str, unit: &str, value: f64| EvidenceItem::new(name, unit, value);
    let of = |name: &str, label: &str, unit: &str, value: f64| EvidenceItem::labelled(name, label, unit, value);
    let all = vec![
        (
            "cpu",
            vec![
                of("cpu_share", "user", "share", busy * 0.58),
                of("cpu_share", "nice", "share", 0.0),
                of("cpu_share", "system", "share", busy * 0.36),
                of("cpu_share", "softirq", "share", busy * 0.04),
                of("cpu_share", "iowait", "share", (1.0 - busy) * 0.3),
                of("cpu_share", "steal", "share", 0.002),
                of("cpu_share", "idle", "share", (1.0 - busy) * 0.7),
                of("cpu_used", "server user", "cpus", busy),
            ],
        ),
        (
            "switch-counters",
            vec![
                of("involuntary_switches", "server", "1", about(if batch { tps * 0.4 } else { tps * 1.3 })),
                of("voluntary_switches", "server", "1", about(tps * 1.1)),
                item("host_switches", "1", about(tps * 3.4)),
            ],
        ),
        (
            "run-queue",
            vec![
                of("run_queue_waiting", "server", "tasks", about(clients / 3.0)),
                of("run_queue_wait_mean_us", "server", "us", about(clients * 11.0)),
            ],
        ),
        ("migrations", vec![of("migrations", "server", "1", about(clients * 90.0))]),
        (
            "fault-counters",
            vec![of("minor_faults", "server", "1", about(1_200.0)), of("major_faults", "server", "1", 0.0)],
        ),
        ("pressure", vec![of("pressure_share", "cpu some", "share", busy * 0.9)]),
        ("interrupts", vec![of("interrupts", "LOC", "1", about(900.0)), of("interrupts", "RES", "1", about(3_100.0))]),
        ("softirqs", vec![of("softirqs", "TIMER", "1", about(300.0)), of("softirqs", "SCHED", "1", about(420.0))]),
        ("network", vec![of("tcp", "retransmitted", "1", 0.0)]),
        (
            "wait-events",
            vec![
                of("backends_waiting", "Client:ClientRead", "backends", about(clients * 0.3)),
                of("backends_waiting", "Extension:</script><script>alert('x')</script>", "backends", about(0.2)),
                EvidenceItem::absent("wait_events_lost", "1", "the server is too old to report it"),
            ],
        ),
    ];
    all.into_iter()
        .map(|(collector, items)| Collected {
            collector: collector.into(),
            items,
            coverage: Coverage { seen: 2, lost: 0, notes: Vec::new() },
            cost: SelfCost { cpu_ns: 450_000, wakeups: 2, bytes: 9_000, ..SelfCost::default() },
            ..Collected::default()
        })
        .collect()
}
