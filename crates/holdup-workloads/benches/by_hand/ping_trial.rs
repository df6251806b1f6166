//! A trial of `ping` as a plan would run it.

use holdup_host::Host;
use holdup_model::{Parameters, Problem, Window};
use holdup_workloads::ping::setup::defaults;
use holdup_workloads::{Cancel, PostgresOptions, PrepareContext, TrialContext, TrialResult, WindowHooks, find};
use std::time::Duration;

pub(crate) struct Trial(Parameters);

struct NoCollectors;

impl WindowHooks for NoCollectors {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        // The workload takes the times of its rate itself.
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 0 })
    }
}

impl Trial {
    pub(crate) fn new(mode: &str, protocol: &str, placement: &str) -> Self {
        let mut parameters = defaults();
        for (name, value) in [("mode", mode), ("protocol", protocol), ("placement", placement)] {
            parameters.set(name, value);
        }
        // NAME=VALUE in the environment changes a parameter, for what is tried by hand.
        for name in ["size", "burst", "rate"] {
            if let Some(value) = std::env::var(name).ok().and_then(|v| v.parse::<i64>().ok()) {
                parameters.set(name, value);
            }
        }
        Trial(parameters)
    }

    pub(crate) fn run(&self, window: Duration) -> TrialResult {
        let mut prepared = find("ping")
            .expect("the catalogue has it")
            .prepare(PrepareContext {
                host: &Host::real(),
                parameters: &self.0,
                combinations: std::slice::from_ref(&self.0),
                metrics: &[],
                postgres: &PostgresOptions::default(),
                workdir: std::env::temp_dir(),
                cancel: Cancel::default(),
                step: &mut |_| {},
            })
            .expect("it can be prepared");
        prepared
            .run(TrialContext {
                parameters: &self.0,
                warmup_ns: 400_000_000,
                duration_ns: window.as_nanos() as u64,
                seed: 1,
                cancel: Cancel::default(),
                enough: Cancel::default(),
                window: &mut NoCollectors,
            })
            .unwrap_or_else(|problem| panic!("{problem}"))
    }
}
