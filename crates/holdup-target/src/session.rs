//! What a target is: something that opens sessions and runs trials in them.

use crate::qemu::BootCache;
use holdup_host::Host;
use holdup_load::{Cancel, ClientHosts, PostgresOptions};
use holdup_model::bundle::CollectorState;
use holdup_model::wire::Checked;
use holdup_model::{
    Arm, Availability, Fact, Machine, Meta, Metric, Observer, Plan, Problem, Schedule, Trial, TrialSpec,
};
use holdup_ssh::SshOptions;
use std::path::PathBuf;
use std::sync::Arc;

/// What a session needs to know.
pub struct SessionRequest<'a> {
    pub host: &'a Host,
    pub plan: &'a Plan,
    pub schedule: &'a Schedule,
    pub postgres: &'a PostgresOptions,
    /// The hosts that make the load, where those are others.
    pub clients: Option<Arc<dyn ClientHosts>>,
    /// Where large temporary files go.
    pub workdir: PathBuf,
    /// Where guests get their kernels and files from.
    pub guests: &'a GuestOptions,
    /// What the boots of this run are made of; filled by `ready`.
    pub boot_cache: BootCache,
    /// On how many threads trials are computed; `None` for all CPUs of this process. Measured trials have their own.
    pub threads: Option<usize>,
    /// How other hosts are worked on.
    pub ssh: &'a SshOptions,
    pub cancel: Cancel,
}

/// Where guests get their kernels and files from.
#[derive(Debug, Clone, Default)]
pub struct GuestOptions {
    /// The folder of what was fetched and built; `None` for the usual one.
    pub cache: Option<PathBuf>,
    /// The archive that packages come from; `None` for the one of this machine's apt.
    pub mirror: Option<String>,
    /// True if only what is cached may be used.
    pub offline: bool,
    /// How many guests run at the same time; 0 and 1 are one after the other.
    pub parallel: u32,
}

/// What was found before anything was touched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readiness {
    /// The metrics of each workload, as (workload name in the plan, metric).
    pub metrics: Vec<(String, Metric)>,
    /// The collectors that the plan asked for, and whether they can work.
    pub collectors: Vec<CollectorState>,
    /// What each factor and setting of the plan changes on the host, as (factor, in words).
    pub touches: Vec<(String, String)>,
    /// What is worth saying before the run starts (a collector or a workload that works in part).
    pub notes: Vec<String>,
    /// When times there are not those of hardware: what they are.
    pub emulated: Option<String>,
}

impl Readiness {
    /// Adds what one of several places reported.
    pub(crate) fn add(&mut self, checked: Checked, place: &str) {
        for metric in checked.metrics {
            if !self.metrics.iter().any(|(w, m)| *w == metric.0 && m.id == metric.1.id) {
                self.metrics.push(metric);
            }
        }
        for state in checked.collectors {
            match self.collectors.iter_mut().find(|c| c.id == state.id) {
                None => self.collectors.push(state),
                Some(known) if known.availability.is_usable() && !state.availability.is_usable() => *known = state,
                Some(_) => {}
            }
        }
        for touched in checked.touches {
            if !self.touches.contains(&touched) {
                self.touches.push(touched);
            }
        }
        for note in checked.notes {
            let note = format!("{note} ({place})");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// A trial as a session brings it; the loop adds its numbers.
pub struct TrialDraft {
    /// The trial, with `seq`, `session`, `block`, `position`, `attempt` and `arm` still zero.
    pub trial: Trial,
    /// The problem that made it void, with its kind.
    pub problem: Option<Problem>,
}

/// What the end of a session leaves.
#[derive(Debug, Default)]
pub struct Closed {
    /// What is worth keeping in the bundle's log.
    pub notes: Vec<String>,
    /// The logs of the machine, as (name, text): `console`, `kernel`. Only of guests.
    pub logs: Vec<(String, Vec<u8>)>,
    /// What could not be put back.
    pub left: Option<Problem>,
}

/// Somewhere trials run.
pub trait Target: Sync {
    /// Its entry in the catalogue.
    fn meta(&self) -> &'static Meta;
    /// True if it boots guests: then plans may name what is chosen at boot.
    fn boots_guests(&self) -> bool {
        false
    }
    /// True if its trials are computed: nothing on this host is touched, and times are those of another machine.
    fn is_simulated(&self) -> bool {
        false
    }
    /// True if its trials run on other hosts: nothing on this one is touched.
    fn is_elsewhere(&self) -> bool {
        false
    }
    /// True if plans name it as `ID:ARGUMENT`.
    fn takes_argument(&self) -> bool {
        false
    }
    /// The machine that relative sizes in a plan are relative to, unless it is this host or a guest.
    ///
    /// # Errors
    /// When the argument names none.
    fn machine(&self, _host: &Host, _argument: &str) -> Result<Option<Machine>, Problem> {
        Ok(None)
    }
    /// Whether it can work here. Never writes.
    fn probe(&self, host: &Host) -> Availability;
    /// Whether a plan can work here, as far as that takes no time. Never writes.
    fn probe_for(&self, host: &Host, _plan: &Plan) -> Availability {
        self.probe(host)
    }
    /// The plan without the optional factors that cannot work here, and what was left out and why.
    fn drop_unavailable_factors(&self, host: &Host, plan: Plan) -> (Plan, Vec<String>);
    /// Whether all that the plan needs can be had. Touches nothing that is under test; a target that boots guests
    /// fetches kernels and boots each kind of guest to ask it.
    ///
    /// # Errors
    /// When something that the plan needs cannot work there.
    fn ready(&self, request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem>;
    /// What a dry run reports: [`Target::ready`] as far as nothing has to be fetched, built or booted for it.
    ///
    /// # Errors
    /// As [`Target::ready`].
    fn preview(&self, request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem> {
        self.ready(request, observer)
    }
    /// Opens the session of a trial: a fresh cluster, a boot.
    ///
    /// # Errors
    /// When it cannot be opened; nothing is left behind. Of the kind [`ProblemKind::Trial`] when another attempt may do
    /// better.
    ///
    /// [`ProblemKind::Trial`]: holdup_model::ProblemKind::Trial
    fn open<'a>(
        &self,
        request: &'a SessionRequest<'a>,
        at: &TrialSpec,
        observer: &mut dyn Observer,
    ) -> Result<Box<dyn Session + 'a>, Problem>;
}

/// An open session.
pub trait Session {
    /// The environment at its begin.
    fn environment(&mut self) -> Vec<Fact>;
    /// Runs one trial of an arm: set, settle, warm up, measure, collect, check.
    fn trial(&mut self, arm: &Arm, spec: &TrialSpec, seed: u64) -> TrialDraft;
    /// What a user should know of the last trial beside its result.
    fn news(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// Puts the host back and ends what was started; says what could not be put back.
    fn close(self: Box<Self>) -> Closed;
}
