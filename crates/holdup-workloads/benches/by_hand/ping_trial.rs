//! A trial of `ping` as a plan would run it.

use holdup_catalogue::ping;
use holdup_induce::trial;
use holdup_load::TrialResult;
use holdup_model::Parameters;
use std::time::Duration;

pub(crate) struct Trial(Parameters);

impl Trial {
    pub(crate) fn new(mode: &str, protocol: &str, placement: &str) -> Self {
        let mut parameters = ping::Parameters::defaults(2);
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
        let mut prepared = trial::prepare("ping", &self.0).expect("it can be prepared");
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let trial = trial::Trial { warmup_ms: 400, ..trial::Trial::new(&self.0, window_ms) };
        trial.run(&mut *prepared).unwrap_or_else(|problem| panic!("{problem}"))
    }
}
