//! Running one trial of `stream`.

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, TrialResult, WindowHooks};
use holdup_model::{Measured, Parameters, Problem, Value, Window};
use holdup_testkit::ignore;
use holdup_workloads::find;
use std::time::Instant;

/// Hooks that do something when the window opens.
pub(crate) struct Hooks<'a>(Option<Instant>, &'a mut dyn FnMut());

impl WindowHooks for Hooks<'_> {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        self.0 = Some(Instant::now());
        (self.1)();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let length_ns = self.0.expect("open comes first").elapsed().as_nanos() as u64;
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns })
    }
}

pub(crate) fn parameters(changes: &[(&str, Value)]) -> Parameters {
    let mut parameters = holdup_catalogue::stream::Parameters::defaults(2);
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

pub(crate) fn run_and(
    changes: &[(&str, Value)],
    duration_ms: u64,
    on_open: &mut dyn FnMut(),
) -> Result<TrialResult, Problem> {
    let parameters = parameters(changes);
    let mut prepared = find("stream").expect("it is in the catalogue").prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters: &parameters,
        combinations: std::slice::from_ref(&parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })?;
    prepared.run(TrialContext {
        parameters: &parameters,
        warmup_ns: 20_000_000,
        duration_ns: duration_ms * 1_000_000,
        seed: 1,
        cancel: Cancel::default(),
        enough: Cancel::default(),
        window: &mut Hooks(None, on_open),
    })
}

pub(crate) fn run(changes: &[(&str, Value)], duration_ms: u64) -> Result<TrialResult, Problem> {
    holdup_testkit::on_time(|| run_and(changes, duration_ms, &mut || ()))
}

pub(crate) fn metric(result: &TrialResult, id: &str) -> f64 {
    match &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value {
        Measured::Value(value) => *value,
        Measured::Absent(why) => panic!("{id}: {why}"),
    }
}

pub(crate) fn absent(result: &TrialResult, id: &str) -> String {
    match &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value {
        Measured::Value(value) => panic!("{id} is {value}"),
        Measured::Absent(why) => why.clone(),
    }
}

/// What holds of every trial that is not void.
pub(crate) fn holds(result: &TrialResult, what: &str) {
    let (sent, received) = (metric(result, "bytes_sent"), metric(result, "bytes_received"));
    assert!(received > 0.0, "{what}: nothing came");
    assert_eq!(sent, received + metric(result, "bytes_dropped"), "{what}: {:?}", result.notes);
}

pub(crate) fn need_root() {
    if !holdup_testkit::is_root() {
        ignore("making network namespaces takes root");
    }
}
