//! The host that holdup runs on.

use crate::local;
use crate::session::{Readiness, Session, SessionRequest, Target};
use holdup_host::Host;
use holdup_model::{Availability, Meta, Observer, Plan, Problem, TrialSpec};

/// Trials on this host.
pub(crate) struct Local;

static META: Meta = Meta {
    id: "local",
    summary: "trials on the host that holdup runs on",
    docs: "A session prepares each workload once (for pgbench a temporary cluster on a Unix socket) and puts \
           everything away at its end. Knobs are set before each trial and put back at the end of the session; \
           the old values are on disk before the first write. One run at a time: a second one is refused with \
           the pid of the first.",
    references: &["flock(2), for the lock"],
};

impl Target for Local {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn probe(&self, _host: &Host) -> Availability {
        Availability::Ready
    }

    fn drop_unavailable_factors(&self, host: &Host, plan: Plan) -> (Plan, Vec<String>) {
        local::drop_unavailable_factors(host, plan)
    }

    fn ready(&self, request: &SessionRequest<'_>, _observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        local::ready(request)
    }

    fn open<'a>(
        &self,
        request: &'a SessionRequest<'a>,
        _at: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Session + 'a>, Problem> {
        local::LocalSession::open(request, observer).map(|session| Box::new(session) as Box<dyn Session + 'a>)
    }
}
