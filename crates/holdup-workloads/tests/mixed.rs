//! `mixed` on this machine: a foreground with others behind it.

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, TrialResult, WindowHooks};
use holdup_model::{Measured, Parameters, Problem, Value, Window};
use holdup_workloads::find;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Hooks {
    begin: Option<Instant>,
    opened: u32,
}

impl WindowHooks for Hooks {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        self.begin = Some(Instant::now());
        self.opened += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let length_ns = self.begin.expect("open comes first").elapsed().as_nanos() as u64;
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns })
    }
}

fn parameters(foreground: &str, background: &str, changes: &[(&str, Value)]) -> Parameters {
    let mut all = Parameters::default();
    for declared in holdup_catalogue::workloads::ALL {
        for (name, value) in holdup_catalogue::defaults(declared.parameters, 1).0 {
            all.set(&format!("{}.{name}", declared.id), value);
        }
    }
    for (name, value) in [("threads", 2), ("section", 1_000), ("think", 1_000)] {
        all.set(&format!("lock-contention.{name}"), value);
    }
    all.set("foreground", foreground);
    all.set("background", background);
    for (name, value) in changes {
        all.set(name, value.clone());
    }
    all
}

fn run(parameters: &Parameters, combinations: &[Parameters], hooks: &mut Hooks) -> Result<TrialResult, Problem> {
    holdup_testkit::on_time(|| {
        *hooks = Hooks::default();
        trial(parameters, combinations, hooks)
    })
}

fn trial(parameters: &Parameters, combinations: &[Parameters], hooks: &mut Hooks) -> Result<TrialResult, Problem> {
    let mut prepared = find("mixed").expect("it is in the catalogue").prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations,
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })?;
    let result = prepared.run(TrialContext {
        parameters,
        warmup_ns: 10_000_000,
        duration_ns: 300_000_000,
        seed: 1,
        cancel: Cancel::default(),
        enough: Cancel::default(),
        window: hooks,
    });
    prepared.close().expect("nothing is left");
    result
}

fn once(parameters: &Parameters) -> Result<TrialResult, Problem> {
    run(parameters, std::slice::from_ref(parameters), &mut Hooks::default())
}

fn value(result: &TrialResult, id: &str) -> Measured {
    result.measurements.iter().find(|m| m.metric == id).unwrap_or_else(|| panic!("{id} is missing")).value.clone()
}

fn each_member_has_its_own_metrics_and_one_window_is_opened() {
    let both = parameters("wakeup", "lock-contention", &[]);
    let mut hooks = Hooks::default();
    let result = run(&both, std::slice::from_ref(&both), &mut hooks).expect("runs");
    assert_eq!(hooks.opened, 1);
    assert!(value(&result, "cycles").value() > Some(0.0));
    assert!(value(&result, "lock-contention.operations_per_s").value() > Some(0.0));
    let names: Vec<_> = result.histograms.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["latency", "lock-contention.acquire"]);
}

fn an_arm_without_a_member_says_so_and_not_nothing() {
    let (alone, both) = (parameters("wakeup", "none", &[]), parameters("wakeup", "lock-contention", &[]));
    let result = run(&alone, &[alone.clone(), both], &mut Hooks::default()).expect("runs");
    let absent = value(&result, "lock-contention.operations_per_s");
    assert_eq!(absent, Measured::Absent("lock-contention takes no part in this arm".to_owned()));
}

fn a_program_without_end_is_ended_with_the_foreground() {
    let both = parameters("wakeup", "command", &[("command.command", r#"["sleep","600"]"#.into())]);
    let begin = Instant::now();
    let result = once(&both).expect("runs");
    assert!(begin.elapsed() < Duration::from_secs(60));
    let slept = value(&result, "command.duration_s").value().expect("it was measured");
    assert!((0.2..60.0).contains(&slept), "{slept}");
}

fn a_background_that_ends_by_itself_voids_the_trial() {
    let both = parameters("wakeup", "command", &[("command.command", r#"["true"]"#.into())]);
    let problem = once(&both).expect_err("it ended");
    assert_eq!(problem.to_string().lines().next(), Some("background command: it ended before the foreground did"));
    let failing = parameters("wakeup", "command", &[("command.command", r#"["false"]"#.into())]);
    let problem = once(&failing).expect_err("it failed");
    assert!(problem.why.contains("exit code 1"), "{problem}");
}

fn members_that_do_not_fit_together_are_refused() {
    let check = |foreground: &str, background: &str, expect: &str| {
        let problem = once(&parameters(foreground, background, &[])).expect_err("it is refused");
        assert_eq!(format!("{}: {}", problem.what, problem.why), expect);
    };
    check("moon", "none", "member moon: there is no such workload");
    check("mixed", "none", "member mixed: there is no such workload");
    check("wakeup", "wakeup", "background wakeup: it takes part twice");
    check("wakeup", "lock-contention+lock-contention", "background lock-contention: it takes part twice");
}

holdup_testkit::tests!(
    each_member_has_its_own_metrics_and_one_window_is_opened,
    an_arm_without_a_member_says_so_and_not_nothing,
    a_program_without_end_is_ended_with_the_foreground,
    a_background_that_ends_by_itself_voids_the_trial,
    members_that_do_not_fit_together_are_refused
);
