//! A trial of `lock-contention` as a plan would run it: one thread, `tas`, nothing inside or outside.

use holdup_catalogue::lock_contention;
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, Prepared, TrialContext, WindowHooks};
use holdup_model::{Parameters, Problem, Window};
use holdup_workloads::find;

pub(crate) struct Trial {
    parameters: Parameters,
    prepared: Box<dyn Prepared>,
}

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
    pub(crate) fn new() -> Self {
        let mut parameters = lock_contention::Parameters::defaults(1);
        parameters.set("section", 0);
        parameters.set("think", 0);
        let prepared = find("lock-contention").expect("the catalogue has it").prepare(PrepareContext {
            other_end: None,
            host: &Host::real(),
            parameters: &parameters,
            combinations: std::slice::from_ref(&parameters),
            metrics: &[],
            postgres: &PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            cancel: Cancel::default(),
            step: &mut |_| {},
        });
        Trial { parameters, prepared: prepared.expect("it can be prepared everywhere") }
    }

    /// ns for each operation of a window of 20 ms.
    pub(crate) fn run(&mut self) -> f64 {
        let result = self.prepared.run(TrialContext {
            parameters: &self.parameters,
            warmup_ns: 2_000_000,
            duration_ns: 20_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: holdup_load::Cancel::default(),
            window: &mut NoCollectors,
        });
        let measurements = result.expect("a trial without trouble").measurements;
        let rate = measurements.iter().find(|m| m.metric == "operations_per_s").and_then(|m| m.value.value());
        1e9 / rate.expect("always measured")
    }
}
