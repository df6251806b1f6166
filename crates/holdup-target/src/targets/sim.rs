//! A machine that does not exist.

use crate::session::{Readiness, Session, SessionRequest, Target};
use crate::sim;
use holdup_host::Host;
use holdup_model::{Availability, Machine, Meta, Observer, Plan, Problem, TrialSpec};

/// Trials in the simulator.
pub(crate) struct Sim;

static META: Meta = Meta {
    id: "sim",
    summary: "trials on a simulated machine, of any number of CPUs",
    docs: "The same plan on a machine that is not there: `sim` is this host as `holdup calibrate` measured it, \
           `sim:NAME` a machine of the catalogue (`holdup list machines`), `sim:PATH` a machine file. The simulator \
           (holdup-sim) executes what the workload's tasks do, event by event: scheduling, preemption, locks, faults, \
           wake-ups. It writes an ordinary bundle, whose times are those of the simulated machine; every rendering says \
           so. The same plan and seed give the same bundle, byte for byte. Trials run on all CPUs of this host in parallel. \
           Nothing on this host is touched.",
    references: &["docs/simulator.md"],
};

impl Target for Sim {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn takes_argument(&self) -> bool {
        true
    }

    fn machine(&self, host: &Host, argument: &str) -> Result<Option<Machine>, Problem> {
        let described = sim::described(host, argument)?;
        Ok(Some(Machine { cpus: described.machine.topology.cpus(), memory_bytes: described.memory_bytes }))
    }

    fn probe(&self, _host: &Host) -> Availability {
        Availability::Ready
    }

    fn drop_unavailable_factors(&self, _host: &Host, plan: Plan) -> (Plan, Vec<String>) {
        sim::drop_unavailable_factors(plan)
    }

    fn ready(&self, request: &SessionRequest<'_>, _observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        sim::ready(request)
    }

    fn open<'a>(
        &self,
        request: &'a SessionRequest<'a>,
        at: &TrialSpec,
        _observer: &mut dyn Observer,
    ) -> Result<Box<dyn Session + 'a>, Problem> {
        sim::SimSession::open(request, at).map(|session| Box::new(session) as Box<dyn Session + 'a>)
    }
}
