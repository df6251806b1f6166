//! Workers that want one lock, over and over.

use holdup_host::Host;
use holdup_load::{PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_locks::calibrate::Calibration;
use holdup_locks::results;
use holdup_locks::setup::Setup;
use holdup_locks::trial;
use holdup_model::plan::MetricChoice;
use holdup_model::{Fact, Meta, Metric, Parameter, Parameters, Problem};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct LockContention;

const META: Meta = Meta {
    id: "lock-contention",
    summary: "workers that take one lock, work, and give it back",
    docs: "Each worker repeats: lock, work inside for `section`, unlock, work outside for `think`. The work is a chain \
           of dependent arithmetic whose length was calibrated at the begin of the session; the calibration, its \
           spread and its drift are among the facts. A time of 0 is really none.\n\n\
           Operations are counted exactly between two readings at the edges of the window, while the workers run \
           on. One of `sample_every` acquisitions is timed with the clock of the system, whose own cost (a fact) \
           is part of the time. Where `sample_every` is 0 it is chosen so that timing adds about 2 % to an operation \
           without contention (1 of 32 by default, 1 of 2048 where nothing is done inside and outside). An \
           acquisition belongs to the window when that is open at the end of its section; one that still waits \
           when the window closes counts for acquire_max_ns only.\n\n\
           The lock protects a count that must equal the sum of all operations at the end: a trial in which \
           two workers were inside at the same time is void.\n\n\
           `faults` makes each section touch as many 4 KB steps of memory that the worker's page tables do not hold \
           yet, so that the holder faults inside the lock; the pages are in the page cache, so only the page table \
           entry is missing. Threads share page tables, processes have their own, as backends of PostgreSQL do. \
           With `first_touch = before` processes touch the pages of a section right before they ask for the lock, and inside again: \
           the same faults outside the lock. `pages = huge` touches the same steps of 2 MB pages, which must be reserved: one fault for 512 steps.\n\n\
           `truth` is for tests of what watches a session from outside: a path at which the workers' own record of who \
           holds the lock is published. Without it nothing is recorded and the loop is another one.\n\n\
           Limits: the work is arithmetic, so it does not compete for caches or memory. Switches and faults \
           are each worker's own accounts, taken when it first sees that the window is open or closed.",
    references: &[
        "M. Desnoyers, benchmark matrix for futex spinning (FUTEX2_SPIN), linux-kernel 2024-04: threads, work inside, \
         work outside, time to lock, operations per thread",
        "getrusage(2) RUSAGE_THREAD; clock_gettime(2) CLOCK_MONOTONIC; madvise(2) MADV_DONTNEED; memfd_create(2)",
    ],
};

impl Workload for LockContention {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::lock_contention::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        results::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("operations_per_s")
    }

    fn may_be_background(&self) -> bool {
        true
    }

    /// All uses share one calibration.
    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn check(&self, _host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        Setup::read(parameters)?.available()
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        for parameters in context.combinations {
            Setup::read(parameters)?.available()?;
        }
        (context.step)("calibrating work of known length");
        Ok(Box::new(Session { calibration: Calibration::measure() }))
    }
}

struct Session {
    calibration: Calibration,
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        self.calibration.facts("lock-contention")
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters)?;
        trial::run(&setup, &self.calibration, trial)
    }
}
