//! A trace of the scheduler, on a simulated machine.

use holdup_host::Host;
use holdup_load::metrics::{self, Row};
use holdup_load::{PostgresOptions, PrepareContext, Prepared, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, Direction, Meta, Metric, Parameter, Problem, Semantics};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Replay;

const META: Meta = Meta {
    id: "replay",
    summary: "a trace of the scheduler, on a simulated machine",
    docs: "Only the target `sim` has it. The tasks of a trace run there for as long as they did, wake each other at the \
           points of their CPU time at which they did, and sleep for as long as they slept where no task woke them. Waits \
           for a CPU are not taken from the trace: the simulated machine makes its own, with its CPUs, its preemption model \
           and its slices.\n\n\
           A trial is the whole trace: a plan's warm-up and duration do not apply. It ends with the last task of the trace, \
           or when `timeout` of simulated time is over. The facts of a bundle say which file it was, and how long tasks \
           waited for a CPU in it. docs/simulator.md says what a trace does not show.",
    references: &["docs/simulator.md", "docs/traces.md"],
};

/// What is measured, in the order shown.
const METRICS: &[Row] = &[
    ("run_queue_wait_mean_us", "us", Direction::Lower, "how long a task waits for a CPU, mean"),
    ("run_queue_wait_p50_us", "us", Direction::Lower, "how long a task waits for a CPU, median"),
    ("run_queue_wait_p90_us", "us", Direction::Lower, "how long a task waits for a CPU, 90th percentile"),
    ("run_queue_wait_p99_us", "us", Direction::Lower, "how long a task waits for a CPU, 99th percentile"),
    ("run_queue_wait_s", "s", Direction::Lower, "how long all tasks wait for a CPU, together"),
    ("finish_s", "s", Direction::Lower, "when the last task has come to its end"),
    ("phases_per_s", "1/s", Direction::Higher, "runs between two sleeps that are done"),
    ("preemptions_per_s", "1/s", Direction::Lower, "times that a task leaves its CPU and could go on"),
    ("cpus_used", "cpus", Direction::Lower, "CPUs that the tasks used"),
];

const NOT_HERE: &str = "a trace is replayed on a simulated machine";
const REMEDY: &str = "--target sim, or sim:MACHINE; `holdup list machines` has their names";

impl Workload for Replay {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::replay::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        metrics::table(METRICS)
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("run_queue_wait_mean_us")
    }

    fn semantics(&self) -> Semantics {
        // More or fewer of them is neither better nor worse.
        let diagnostics = ["preemptions_per_s", "cpus_used"].map(str::to_owned).to_vec();
        Semantics { diagnostics, ..Semantics::default() }
    }

    fn ends_its_window(&self) -> bool {
        true
    }

    fn probe(&self, _host: &Host, _postgres: &PostgresOptions) -> Availability {
        Availability::Unavailable { reason: NOT_HERE.to_owned(), remedy: Some(REMEDY.to_owned()) }
    }

    fn prepare(&self, _context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        Err(Problem::host("workload replay", NOT_HERE).hint(REMEDY))
    }
}
