//! What cpu-profile and off-cpu see of a real pgbench.

use holdup_evidence::{CollectContext, CollectOptions, Subject};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, WindowHooks};
use holdup_model::stacks::FrameKind;
use holdup_model::{Availability, Collected, Problem, StackProfile, Window};
use holdup_testkit::ignore;

/// Starts the collector when the window opens and stops it when it closes.
struct Hooks {
    collector: &'static str,
    postgres: Option<String>,
    running: Option<Box<dyn holdup_evidence::Collecting>>,
    collected: Option<Collected>,
    begun: std::time::Instant,
}

impl WindowHooks for Hooks {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        let subjects = subjects.iter().map(|(role, pid)| Subject { role: role.clone(), pid: *pid }).collect();
        let context = CollectContext {
            subjects,
            postgres: self.postgres.clone(),
            options: CollectOptions { frequency_hz: Some(997), ..CollectOptions::default() },
            ..CollectContext::default()
        };
        self.running = Some(holdup_evidence::find(self.collector).expect("listed").start(&context)?);
        self.begun = std::time::Instant::now();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let length_ns = u64::try_from(self.begun.elapsed().as_nanos()).expect("short");
        self.collected = self.running.take().map(holdup_evidence::Collecting::stop);
        let end = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let end_unix_ns = i64::try_from(end.as_nanos()).expect("before 2262");
        let begin_unix_ns = end_unix_ns - i64::try_from(length_ns).expect("short");
        Ok(Window { begin_unix_ns, end_unix_ns, length_ns })
    }
}

/// The functions of a stack, outermost first.
fn functions<'a>(profile: &'a StackProfile, frames: &[u32]) -> Vec<&'a str> {
    frames.iter().map(|frame| profile.frames[*frame as usize].function.as_str()).collect()
}

/// What a collector sees of two seconds of pgbench; `None` where that cannot be had here.
fn of_pgbench(collector: &'static str, script: &str) -> Collected {
    let host = Host::real();
    let workload = holdup_workloads::find("pgbench").expect("listed");
    if let Availability::Unavailable { reason, .. } = workload.probe(&host, &PostgresOptions::default()) {
        ignore(reason);
    }
    let found = holdup_evidence::find(collector).expect("listed");
    if let Availability::Unavailable { reason, .. } = found.probe(&CollectContext::default()) {
        ignore(reason);
    }
    let mut parameters = holdup_catalogue::pgbench::Parameters::defaults(2);
    parameters.set("script", script);
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
    let postgres = prepared.postgres().map(holdup_host::postgres::PostgresControl::connection_string);
    let mut hooks = Hooks { collector, postgres, running: None, collected: None, begun: std::time::Instant::now() };
    prepared
        .run(TrialContext {
            parameters: &parameters,
            warmup_ns: 600_000_000,
            duration_ns: 2_000_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: Cancel::default(),
            window: &mut hooks,
        })
        .expect("a trial");
    prepared.close().expect("nothing is left");
    hooks.collected.expect("it was collected")
}

/// True if a stack begins where the server does.
fn is_rooted(names: &[&str]) -> bool {
    names.windows(2).any(|pair| pair == ["main", "PostmasterMain"])
}

/// The weight of the server's stacks, and of those of them that begin where the server does.
fn rooted(profile: &StackProfile) -> (u64, u64) {
    let server = profile.stacks.iter().filter(|stack| stack.role.as_deref() == Some("server"));
    server.fold((0, 0), |(total, whole), stack| {
        let is_whole = is_rooted(&functions(profile, &stack.frames));
        (total + stack.weight, whole + if is_whole { stack.weight } else { 0 })
    })
}

fn has(profile: &StackProfile, function: &str) -> bool {
    let mut server = profile.stacks.iter().filter(|stack| stack.role.as_deref() == Some("server"));
    server.any(|stack| functions(profile, &stack.frames).contains(&function))
}

fn stacks_of_a_stripped_server_reach_from_main_to_the_executor() {
    let collected = of_pgbench("cpu-profile", "select-only");
    let profile = collected.stacks.first().expect("a profile");
    let (total, whole) = rooted(profile);
    assert!(total > 100, "{:?}", collected.coverage);
    assert!(whole * 10 > total * 9, "{whole} of {total}: {:?}", collected.coverage);
    for function in ["PostgresMain", "PortalRun", "ReadBufferExtended"] {
        assert!(has(profile, function), "no stack with {function}, which each query passes: {:?}", collected.coverage);
    }
    assert!(profile.frames.iter().any(|frame| frame.kind == FrameKind::Kernel), "{:?}", profile.frames);
    assert!(collected.cost.cpu_ns > 0 && collected.cost.memory_bytes > 0);
}

fn backends_are_off_the_cpu_where_they_say_what_they_wait_for() {
    let collected = of_pgbench("off-cpu", "tpcb-like");
    let profile = |name: &str| collected.stacks.iter().find(|profile| profile.name == name).expect("a profile");
    let off_cpu = profile("off_cpu");
    let (total, whole) = rooted(off_cpu);
    assert!(total > 1_000_000_000, "{:?} {:?}", collected.coverage, collected.items);
    assert!(whole * 100 >= total * 95, "{whole} of {total}: {:?}", collected.coverage);
    for function in ["PostgresMain", "secure_read", "schedule"] {
        assert!(has(off_cpu, function), "no stack with {function}: {:?}", collected.coverage);
    }
    let server = off_cpu.stacks.iter().filter(|stack| stack.role.as_deref() == Some("server"));
    let mut roots = server.filter_map(|stack| off_cpu.frames.get(*stack.frames.first()? as usize));
    assert!(roots.all(|root| root.module.as_deref() == Some("[wait event]")), "{:?}", off_cpu.frames);
    assert!(has(off_cpu, "Client:ClientRead"), "{:?}", off_cpu.frames);
    let waker = profile("waker");
    assert!(waker.stacks.iter().any(|stack| stack.role.as_deref() == Some("load")), "{:?}", collected.items);
    let sum = |name: &str, is_meant: &dyn Fn(&str) -> bool| -> f64 {
        let items = collected.items.iter().filter(|i| i.name == name && is_meant(i.label.as_deref().unwrap_or("")));
        items.filter_map(|item| item.value.value()).sum()
    };
    // With one branch of the bank all wait for its row, or for the transaction that has it.
    let for_locks = sum("off_cpu_by_wait_event_s", &|event| event.starts_with("Lock:"));
    let all_events = sum("off_cpu_by_wait_event_s", &|_| true);
    assert!(for_locks > 0.0, "{:?} {:?}", collected.items, collected.coverage);
    assert!((all_events - total as f64 / 1e9).abs() < 0.05 * all_events, "{all_events} {total}");
    let named = sum("off_cpu_by_wait_event_s", &|event| !event.contains(" number "));
    assert!(named > 0.8 * all_events, "{named} of {all_events}: {:?}", collected.items);
    // The exact sum and the sampled one.
    let exact = sum("off_cpu_s", &|label| label.starts_with("server: "));
    assert!((exact - total as f64 / 1e9).abs() < 0.3 * exact, "{exact} {total}");
    let has_room = !collected.coverage.notes.iter().any(|note| note.contains("found no room"));
    assert!(has_room, "{:?}", collected.coverage);
    println!("{:?} {:?} {:?}", collected.items, collected.coverage, collected.cost);
}

holdup_testkit::tests!(
    truth:
    stacks_of_a_stripped_server_reach_from_main_to_the_executor,
    backends_are_off_the_cpu_where_they_say_what_they_wait_for
);
