//! Other hosts, over OpenSSH.

use crate::session::{Readiness, Session, SessionRequest, Target};
use crate::ssh;
use holdup_host::Host;
use holdup_model::{Availability, Machine, Meta, Observer, Plan, Problem, TrialSpec};

/// Trials on another host.
pub(crate) struct SshHosts;

static META: Meta = Meta {
    id: "ssh",
    summary: "trials on other hosts, over OpenSSH",
    docs: "`ssh:HOST` is the target `local` on another host. The user's own ssh program connects, with the user's \
           configuration and keys; holdup copies itself there once for each version, into ~/.cache/holdup/bin, checks \
           the copy by its SHA-256 before each use, and runs it over the connection's streams. No port is opened and \
           nothing keeps running. The undo journal is on that host's disk: when the line ends, or is silent for \
           `--dead-after`, the agent there ends the trial, puts everything back and exits, and the next connection \
           reports it. `ssh:A,B` has the sessions of a plan on A and B in turn; the factor `host` compares hosts. \
           `--sudo` runs the agent by `sudo -n`; nothing else becomes root.",
    references: &["ssh(1)", "sshd_config(5)", "docs/hosts.md"],
};

impl Target for SshHosts {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn takes_argument(&self) -> bool {
        true
    }

    fn machine(&self, host: &Host, argument: &str) -> Result<Option<Machine>, Problem> {
        ssh::machine(host, argument)
    }

    fn probe(&self, _host: &Host) -> Availability {
        Availability::Ready
    }

    /// An optional factor stays: only the host could say whether it can be set.
    fn drop_unavailable_factors(&self, _host: &Host, plan: Plan) -> (Plan, Vec<String>) {
        (plan, Vec::new())
    }

    fn ready(&self, request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        ssh::ready(request, observer)
    }

    fn open<'a>(
        &self,
        request: &'a SessionRequest<'a>,
        at: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Session + 'a>, Problem> {
        ssh::open(request, at, observer).map(|session| Box::new(session) as Box<dyn Session + 'a>)
    }
}
