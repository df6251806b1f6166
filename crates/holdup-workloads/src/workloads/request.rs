//! Messengers that wake workers, which do a piece of work each time.

use crate::request;
use crate::request::setup::Setup;
use holdup_host::Host;
use holdup_load::{PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_locks::calibrate::Calibration;
use holdup_model::plan::MetricChoice;
use holdup_model::{ClosedLoop, Fact, Meta, Metric, Parameter, Parameters, Problem, Semantics, Think};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Request;

const META: Meta = Meta {
    id: "request",
    summary: "messengers that wake workers, which then work (schbench)",
    docs: "Each worker repeats: ask a messenger, sleep until called (futex), sleep for `think`, take the spin lock of \
           the CPU that it runs on, do `operations` times `work`, give the lock back. A holder that is preempted or \
           migrated makes the next worker on that CPU spin.\n\n\
           Wake-up latency goes from the messenger's clock reading to the worker's, in ns, and every value counts, 0 \
           too. As in schbench, one reading stands for all workers that a messenger calls together.\n\n\
           With `rate = 0` a request comes when a worker asks, and its latency begins when the worker runs: a slow \
           worker just gets fewer requests (closed loop, as in schbench). With a rate, requests arrive at fixed \
           distances regardless of the workers, and latency begins at the scheduled arrival, so that queueing counts \
           (open loop). A request that found no free worker when it arrived is a late one, and what had arrived and \
           was not completed at the end is the backlog; the oldest waiting one counts for request_max_us.\n\n\
           The defaults are those of schbench: 5 operations of 1 ms come near its 5 multiplications of two matrices \
           of 104 x 104 (256 KB for three), which took 5.2 ms at best in a run on a virtual machine.\n\n\
           Limits: the work is arithmetic, so it does not compete for caches or memory. Workers have the default \
           timer slack (50 us), as schbench's have; messengers on a schedule have 1 ns. Preemptions and CPU time are \
           each worker's own accounts, taken when it first completes a request after the window opened or closed.",
    references: &[
        "C. Mason, schbench (24e32b8): messengers, workers, operations, sleep, per-CPU locks, requests per second",
        "G. Tene, How NOT to Measure Latency: coordinated omission",
        "futex(2); getrusage(2) RUSAGE_THREAD; prctl(2) PR_SET_TIMERSLACK; sched_getcpu(3)",
    ],
};

impl Workload for Request {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::request::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        request::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("requests_per_s")
    }

    fn semantics(&self) -> Semantics {
        Semantics {
            closed_loops: vec![ClosedLoop {
                in_flight: vec!["messengers".to_owned(), "workers".to_owned()],
                closed_when: vec![("rate".to_owned(), 0.into())],
                throughput: "requests_per_s".to_owned(),
                latency: "latency".to_owned(),
                think: Think::Unmeasured,
            }],
            diagnostics: Vec::new(),
        }
    }

    fn may_be_background(&self) -> bool {
        true
    }

    /// All uses share one calibration.
    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let own = || Setup::read(parameters, host).map(drop);
        crate::request::REFERENCE_TOOLS.check(host, parameters, own)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        crate::request::REFERENCE_TOOLS.prepare(context, |context| {
            for parameters in context.combinations {
                Setup::read(parameters, context.host)?;
            }
            (context.step)("calibrating work of known length");
            Ok(Box::new(Session { host: context.host.clone(), calibration: Calibration::measure() }))
        })
    }
}

struct Session {
    host: Host,
    calibration: Calibration,
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        self.calibration.facts("request")
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters, &self.host)?;
        request::run(&setup, &self.calibration, trial)
    }
}
