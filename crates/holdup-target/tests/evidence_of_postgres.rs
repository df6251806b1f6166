//! What the two collectors that need a server see of a real pgbench.

use holdup_evidence::CollectContext;
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, WindowHooks};
use holdup_model::{Collected, Problem, Window};
use holdup_testkit::ignore;

/// Starts two collectors when the window opens and stops them when it closes.
struct Hooks {
    server: String,
    running: Vec<Box<dyn holdup_evidence::Collecting>>,
    collected: Vec<Collected>,
    begun: std::time::Instant,
}

impl WindowHooks for Hooks {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        let context =
            CollectContext { host: Host::real(), postgres: Some(self.server.clone()), ..CollectContext::default() };
        for id in ["postgres-statistics", "wait-events"] {
            self.running.push(holdup_evidence::find(id).expect("listed").start(&context)?);
        }
        self.begun = std::time::Instant::now();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let length_ns = u64::try_from(self.begun.elapsed().as_nanos()).expect("short");
        self.collected = self.running.drain(..).map(holdup_evidence::Collecting::stop).collect();
        let end = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let end_unix_ns = i64::try_from(end.as_nanos()).expect("before 2262");
        let begin_unix_ns = end_unix_ns - i64::try_from(length_ns).expect("short");
        Ok(Window { begin_unix_ns, end_unix_ns, length_ns })
    }
}

fn pgbench_is_seen_in_the_counters_and_in_the_wait_events() {
    let host = Host::real();
    let workload = holdup_workloads::find("pgbench").expect("listed");
    if let holdup_model::Availability::Unavailable { reason, .. } = workload.probe(&host, &PostgresOptions::default()) {
        ignore(reason);
    }
    let mut parameters = holdup_catalogue::pgbench::Parameters::defaults(2);
    parameters.set("script", "simple-update");
    parameters.set("scale", 1);
    parameters.set("clients", 8);
    let mut prepared = workload
        .prepare(PrepareContext {
            other_end: None,
            host: &host,
            parameters: &parameters,
            combinations: std::slice::from_ref(&parameters),
            metrics: &[],
            postgres: &PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            cancel: Cancel::default(),
            step: &mut |_| {},
        })
        .expect("a cluster");
    let server = prepared.postgres().expect("a server").connection_string();
    let mut hooks = Hooks { server, running: Vec::new(), collected: Vec::new(), begun: std::time::Instant::now() };
    prepared
        .run(TrialContext {
            parameters: &parameters,
            warmup_ns: 1_100_000_000,
            duration_ns: 2_500_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: holdup_load::Cancel::default(),
            window: &mut hooks,
        })
        .expect("a trial");
    let value = |collector: &str, name: &str, label: Option<&str>| {
        let found = hooks.collected.iter().find(|c| c.collector == collector).expect("collected");
        found.items.iter().find(|i| i.name == name && i.label.as_deref() == label).and_then(|i| i.value.value())
    };
    let commits = value("postgres-statistics", "postgres", Some("database xact_commit"));
    assert!(commits.is_some_and(|n| n > 50.0), "{:?}", hooks.collected);
    assert!(value("postgres-statistics", "postgres", Some("wal wal_bytes")).is_some_and(|n| n > 1000.0));
    let samples = value("wait-events", "wait_event_samples", None).expect("samples");
    assert!((10.0..=30.0).contains(&samples), "ten a second for 2.5 s: {samples}");
    let waits = hooks.collected.iter().find(|c| c.collector == "wait-events").expect("collected");
    let backends: f64 = waits.items.iter().filter(|i| i.label.is_some()).filter_map(|i| i.value.value()).sum();
    assert!(backends > 4.0 && backends <= 8.01, "the eight clients and no others: {backends} {waits:?}");
    assert!(waits.cost.cpu_ns > 0 && waits.cost.wakeups >= 10);
    prepared.close().expect("nothing is left");
}

holdup_testkit::tests!(
    truth:
    pgbench_is_seen_in_the_counters_and_in_the_wait_events
);
