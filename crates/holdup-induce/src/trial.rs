//! One trial of a workload without plan, target and collectors: for benches and tests.

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, WindowHooks};
use holdup_model::{Parameters, Problem, Window};
use holdup_workloads::find;
use std::time::Instant;

/// The window of a trial without collectors.
struct TrialWindow<'a> {
    begin: Option<Instant>,
    on_open: &'a mut dyn FnMut(),
}

impl WindowHooks for TrialWindow<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        if subjects.is_empty() {
            return Err(Problem::internal("the window", "it was opened without subjects"));
        }
        self.begin = Some(Instant::now());
        (self.on_open)();
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let begin = self.begin.take().ok_or_else(|| Problem::internal("the window", "it was never opened"))?;
        let length_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns })
    }
}

/// Prepares a workload of the catalogue for one combination of parameters on this host.
///
/// # Errors
/// The workload's own, and when there is none of this id.
pub fn prepare(id: &str, parameters: &Parameters) -> Result<Box<dyn Prepared>, Problem> {
    let workload = find(id).ok_or_else(|| Problem::usage(format!("workload {id}"), "there is none"))?;
    workload.prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations: std::slice::from_ref(parameters),
        metrics: &[],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })
}

/// A trial to be run.
pub struct Trial<'a> {
    pub parameters: &'a Parameters,
    /// Load before the window, ms.
    pub warmup_ms: u64,
    /// Length of the window, ms.
    pub duration_ms: u64,
    /// Asks to end.
    pub cancel: Cancel,
    /// Asks to end the window early.
    pub enough: Cancel,
}

impl<'a> Trial<'a> {
    /// A trial with a short warm-up that is not ended early.
    pub fn new(parameters: &'a Parameters, duration_ms: u64) -> Self {
        Trial { parameters, warmup_ms: 10, duration_ms, cancel: Cancel::default(), enough: Cancel::default() }
    }

    /// Runs it, and calls back when the window opens.
    ///
    /// # Errors
    /// The workload's own.
    pub fn run_with(self, prepared: &mut dyn Prepared, on_open: &mut dyn FnMut()) -> Result<TrialResult, Problem> {
        prepared.run(TrialContext {
            parameters: self.parameters,
            warmup_ns: self.warmup_ms * 1_000_000,
            duration_ns: self.duration_ms * 1_000_000,
            seed: 7,
            cancel: self.cancel,
            enough: self.enough,
            window: &mut TrialWindow { begin: None, on_open },
        })
    }

    /// Runs it.
    ///
    /// # Errors
    /// The workload's own.
    pub fn run(self, prepared: &mut dyn Prepared) -> Result<TrialResult, Problem> {
        self.run_with(prepared, &mut || {})
    }
}
