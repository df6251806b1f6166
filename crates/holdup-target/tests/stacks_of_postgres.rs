//! What cpu-profile sees of a real pgbench.
#![allow(clippy::print_stderr, reason = "a test that cannot run here says why")]

use holdup_evidence::{CollectContext, CollectOptions, Subject};
use holdup_host::Host;
use holdup_model::stacks::FrameKind;
use holdup_model::{Availability, Collected, Parameters, Problem, StackProfile, Window};
use holdup_workloads::{Cancel, PostgresOptions, PrepareContext, TrialContext, WindowHooks};

/// Starts the collector when the window opens and stops it when it closes.
struct Hooks {
    running: Option<Box<dyn holdup_evidence::Collecting>>,
    collected: Option<Collected>,
    begun: std::time::Instant,
}

impl WindowHooks for Hooks {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        let subjects = subjects.iter().map(|(role, pid)| Subject { role: role.clone(), pid: *pid }).collect();
        let context = CollectContext {
            subjects,
            options: CollectOptions { frequency_hz: Some(997), ..CollectOptions::default() },
            ..CollectContext::default()
        };
        self.running = Some(holdup_evidence::find("cpu-profile").expect("listed").start(&context)?);
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

#[test]
fn stacks_of_a_stripped_server_reach_from_main_to_the_executor() {
    let host = Host::real();
    let workload = holdup_workloads::find("pgbench").expect("listed");
    if let Availability::Unavailable { reason, .. } = workload.probe(&host, &PostgresOptions::default()) {
        eprintln!("ignored, because {reason}");
        return;
    }
    let collector = holdup_evidence::find("cpu-profile").expect("listed");
    if let Availability::Unavailable { reason, .. } = collector.probe(&CollectContext::default()) {
        eprintln!("ignored, because {reason}");
        return;
    }
    let mut parameters = Parameters::default();
    parameters.set("script", "select-only");
    parameters.set("scale", 1);
    parameters.set("clients", 8);
    let mut prepared = workload
        .prepare(PrepareContext {
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
    let mut hooks = Hooks { running: None, collected: None, begun: std::time::Instant::now() };
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
    let collected = hooks.collected.expect("collected");
    let profile = collected.stacks.first().expect("a profile");
    let server: Vec<_> = profile.stacks.iter().filter(|stack| stack.role.as_deref() == Some("server")).collect();
    let total: u64 = server.iter().map(|stack| stack.weight).sum();
    let rooted = |names: &[&str]| names.windows(2).any(|pair| pair == ["main", "PostmasterMain"]);
    let whole: u64 =
        server.iter().filter(|stack| rooted(&functions(profile, &stack.frames))).map(|stack| stack.weight).sum();
    assert!(total > 100, "{:?}", collected.coverage);
    assert!(whole * 10 > total * 9, "{whole} of {total}: {:?}", collected.coverage);
    let has = |function: &str| server.iter().any(|stack| functions(profile, &stack.frames).contains(&function));
    for function in ["PostgresMain", "PortalRun", "ReadBufferExtended"] {
        assert!(has(function), "no stack with {function}, which each query passes: {:?}", collected.coverage);
    }
    assert!(profile.frames.iter().any(|frame| frame.kind == FrameKind::Kernel), "{:?}", profile.frames);
    assert!(collected.cost.cpu_ns > 0 && collected.cost.memory_bytes > 0);
}
