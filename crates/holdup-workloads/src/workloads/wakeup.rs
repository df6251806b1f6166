//! Periodic timers, and how late each of them is.

use crate::wakeup::setup::Setup;
use crate::wakeup::{results, trial};
use holdup_host::Host;
use holdup_load::{PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, Fact, Meta, Metric, Parameter, Parameters, Problem};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Wakeup;

const META: Meta = Meta {
    id: "wakeup",
    summary: "periodic timers, and how late each wakes its thread",
    docs: "Each thread sleeps until an absolute moment (clock_nanosleep, CLOCK_MONOTONIC), reads the clock when it runs, \
           counts how late it is, and waits for the next moment, one `interval` later. Thread k has an interval that is \
           k times `distance` longer. The first moments are spread evenly over an interval. A thread that wakes after one or more of its next moments leaves those out, as \
           cyclictest does, and counts them as missed: a delay of five intervals is one late wake-up and four missed ones.\n\n\
           Every wake-up of the window is in the histogram; none is cut at an edge. Percentiles say nothing about what \
           lies beyond them, and the longest of a run grows with its length, so the longest is noted for each trial \
           and never averaged. What takes its place is tail_1e5_us: the lateness that one of 100,000 wake-ups exceeds, \
           from a generalised Pareto distribution fitted to the latest hundredth (or the latest 100) of the trial.\n\n\
           With `priority` 0 threads are SCHED_OTHER, whose timers may be late on purpose by the timer slack (50 µs \
           unless changed); with 1 to 99 they are SCHED_FIFO. /dev/cpu_dma_latency, which cyclictest holds at 0 \
           unless another priority is given, is left alone: idle states are the host's own, and the knob `cpu-dma-latency` is there \
           for both sides of a comparison.\n\n\
           Memory is not locked: what a thread touches is touched before the window.",
    references: &[
        "clock_nanosleep(2); sched(7); prctl(2) PR_SET_TIMERSLACK",
        "rt-tests, cyclictest(8) 2.40",
        "J. R. M. Hosking and J. R. Wallis, Parameter and quantile estimation for the generalized Pareto distribution, \
         Technometrics 29 (1987)",
    ],
};

impl Workload for Wakeup {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::wakeup::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        results::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("latency_p99_us")
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn probe(&self, _host: &Host, _postgres: &PostgresOptions) -> Availability {
        match trial::may_be_fifo() {
            Ok(()) => Availability::Ready,
            Err(e) => Availability::Degraded { reason: format!("only with priority 0, not as SCHED_FIFO: {e}") },
        }
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let own = || Setup::read(parameters, host)?.possible();
        crate::wakeup::REFERENCE_TOOLS.check(host, parameters, own)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        crate::wakeup::REFERENCE_TOOLS.prepare(context, |context| {
            for parameters in context.combinations {
                Setup::read(parameters, context.host)?.possible()?;
            }
            Ok(Box::new(Session { host: context.host.clone() }))
        })
    }
}

struct Session {
    host: Host,
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        let slack = rustix::thread::current_timer_slack();
        vec![match slack {
            Ok(ns) => Fact::read("wakeup.timer_slack_ns", ns.to_string(), "prctl(2) PR_GET_TIMERSLACK"),
            Err(e) => Fact::absent("wakeup.timer_slack_ns", "prctl(2) PR_GET_TIMERSLACK", e.to_string()),
        }]
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters, &self.host)?;
        trial::run(&setup, trial)
    }
}
