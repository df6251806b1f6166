//! `request` with real threads on this machine.

use holdup_catalogue::request;
use holdup_induce::trial::{self, Trial};
use holdup_load::{Cancel, Prepared, TrialResult};
use holdup_model::{Measured, Parameters, Problem, ProblemKind, Value};

fn parameters(changes: &[(&str, Value)]) -> Parameters {
    let mut parameters = request::Parameters::defaults(4);
    for (name, value) in [("work", 20_000), ("operations", 2), ("think", 50_000)] {
        parameters.set(name, value);
    }
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

fn prepare(parameters: &Parameters) -> Result<Box<dyn Prepared>, Problem> {
    trial::prepare("request", parameters)
}

fn run_with(parameters: &Parameters, duration_ms: u64, cancel: &Cancel) -> Result<TrialResult, Problem> {
    let trial = Trial { cancel: cancel.clone(), ..Trial::new(parameters, duration_ms) };
    trial.run(&mut *prepare(parameters).expect("it can be prepared"))
}

fn run(changes: &[(&str, Value)], duration_ms: u64) -> TrialResult {
    run_with(&parameters(changes), duration_ms, &Cancel::default()).unwrap_or_else(|p| panic!("{changes:?}: {p}"))
}

fn measured<'a>(result: &'a TrialResult, id: &str) -> &'a Measured {
    &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value
}

fn metric(result: &TrialResult, id: &str) -> f64 {
    measured(result, id).value().unwrap_or_else(|| panic!("{id}: {:?}", measured(result, id)))
}

fn every_shape_brings_every_metric() {
    for (messengers, workers) in [(1, 1), (1, 6), (3, 2)] {
        for rate in [0.0, 300.0] {
            for lock in [false, true] {
                let changes: [(&str, Value); 4] = [
                    ("messengers", messengers.into()),
                    ("workers", workers.into()),
                    ("rate", rate.into()),
                    ("lock", lock.into()),
                ];
                let result = run(&changes, 300);
                assert!(metric(&result, "requests_per_s") > 0.0, "{changes:?}");
                assert_eq!(measured(&result, "backlog").value().is_some(), rate > 0.0, "{changes:?}");
                assert_eq!(measured(&result, "lock_spins_per_request").value().is_some(), lock, "{changes:?}");
                let ids: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
                let declared: Vec<_> =
                    holdup_workloads::find("request").unwrap().metrics(&[]).into_iter().map(|m| m.id).collect();
                assert_eq!(ids, declared, "every metric is measured or absent with a reason");
                let names: Vec<_> = result.histograms.iter().map(|h| h.name.as_str()).collect();
                assert_eq!(names, ["latency", "wakeup"]);
                assert!(result.histograms.iter().all(|h| h.histogram.count() > 0), "{changes:?}");
            }
        }
    }
}

/// Ground truth from below: a request cannot take less than it sleeps and works.
fn a_request_takes_at_least_its_sleep_and_its_work() {
    let result = run(&[("work", 500_000.into()), ("operations", 2.into()), ("think", 3_000_000.into())], 300);
    let range = |i: usize| result.histograms[i].histogram.range_ns().expect("some were completed");
    // 5 % for the calibration of the work.
    assert!(range(0).0 >= 3_950_000, "{:?}", range(0));
    assert!(range(1).0 < range(0).0, "a wake-up is less than a request");
}

fn an_open_loop_does_not_do_more_than_arrives() {
    let result = run(&[("rate", 200.0.into())], 500);
    // 100 arrive in the window, and what was left of the warm-up.
    assert!(metric(&result, "requests_per_s") <= 215.0, "{}", metric(&result, "requests_per_s"));
}

/// On one CPU with more work than it can do, workers are preempted inside the lock, and others spin for it.
fn a_preempted_holder_makes_others_spin() {
    let changes: [(&str, Value); 4] =
        [("workers", 6.into()), ("work", 2_000_000.into()), ("think", 0.into()), ("placement", "same-cpu".into())];
    let result = run(&changes, 1_000);
    assert!(metric(&result, "lock_spins_per_request") > 0.0);
    assert!(metric(&result, "lock_spin_us_per_request") > 0.0);
    assert!(result.notes.iter().any(|n| n.contains("both sides ran on CPU")), "{:?}", result.notes);
}

fn a_cancelled_trial_ends_in_any_state_of_its_threads() {
    let endless = i64::MAX;
    for changes in [
        vec![],
        vec![("think", endless.into())],
        vec![("work", endless.into())],
        vec![("rate", Value::Float(1e-6))],
        vec![("rate", Value::Float(1e7)), ("think", endless.into())],
    ] {
        let cancel = Cancel::default();
        let prepared = parameters(&changes);
        let canceller = cancel.clone();
        let helper = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            canceller.cancel();
        });
        let problem = run_with(&prepared, 3_600_000, &cancel).map(|_| ()).expect_err("cancelled");
        helper.join().expect("it ends");
        assert_eq!(problem.kind, ProblemKind::Interrupted, "{changes:?}");
    }
}

fn a_window_without_a_request_is_void() {
    let problem = run_with(&parameters(&[("think", i64::MAX.into())]), 50, &Cancel::default());
    let problem = problem.map(|_| ()).expect_err("nothing can be done in time");
    assert_eq!(problem.to_string(), "the window: no request was completed in it\nhint: take a longer duration");
}

fn the_calibration_is_among_the_facts() {
    let facts = prepare(&parameters(&[])).expect("it can be prepared").facts();
    assert!(facts.iter().any(|f| f.key == "request.iteration_ns" && f.value.is_some()));
}

fn too_many_threads_are_refused_before_anything_starts() {
    let problem = prepare(&parameters(&[("messengers", 100.into()), ("workers", 100.into())]));
    let problem = problem.map(|_| ()).expect_err("they do not fit");
    assert_eq!(problem.to_string(), "100 messengers with 100 workers each: 10100 threads are more than 4096");
}

holdup_testkit::tests!(
    every_shape_brings_every_metric,
    a_request_takes_at_least_its_sleep_and_its_work,
    an_open_loop_does_not_do_more_than_arrives,
    a_cancelled_trial_ends_in_any_state_of_its_threads,
    a_window_without_a_request_is_void,
    the_calibration_is_among_the_facts,
    too_many_threads_are_refused_before_anything_starts;
    truth:
    a_preempted_holder_makes_others_spin
);
