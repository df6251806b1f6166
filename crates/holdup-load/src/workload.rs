//! What a workload is: the traits and what is handed to them.

use crate::ClientHosts;
use crate::combine::Combination;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::ends::ServiceAccess;
use holdup_model::plan::{Level, MetricChoice};
use holdup_model::trial::TrialResult;
use holdup_model::{Availability, Fact, Meta, Metric, Parameter, Parameters, Problem, Semantics, Window, WorkloadUse};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by a signal; every wait in a workload looks at it at least every 20 ms.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks everything to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// True if everything is asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The flag itself, for a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// How to find or reach PostgreSQL: `--pg-bin`, `--pg`.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// The folder with `postgres`, `initdb`, `pgbench`.
    pub bin: Option<PathBuf>,
    /// An existing server; nothing is started or stopped then.
    pub url: Option<String>,
    /// Servers of one version that were built for the plan: the levels of `postgres.build`, each with the folder of its
    /// programs. Where there are some, `bin` is not looked at.
    pub builds: BTreeMap<String, PathBuf>,
}

impl PostgresOptions {
    /// The build whose initdb and pgbench serve all arms: stock, else the first.
    pub fn client(builds: &BTreeMap<String, PathBuf>) -> Option<&PathBuf> {
        builds.get("stock").or_else(|| builds.values().next())
    }
}

/// The end of a workload that is on another host.
#[derive(Clone, Copy)]
pub enum OtherEnd<'a> {
    /// This is the host under test, and those make the load.
    Clients(&'a Arc<dyn ClientHosts>),
    /// This host makes the load of that one.
    Server(&'a ServiceAccess),
}

/// What a session gives a workload.
pub struct PrepareContext<'a> {
    pub host: &'a Host,
    /// The parameters that are the same in all arms.
    pub parameters: &'a Parameters,
    /// Every combination of axis values that this session will run, so that what is needed
    /// for any of them can be made ready now.
    pub combinations: &'a [Parameters],
    /// The metrics that the plan names (`command` reads its definitions from here).
    pub metrics: &'a [MetricChoice],
    /// How to find or reach PostgreSQL.
    pub postgres: &'a PostgresOptions,
    /// The other end, where that is on another host.
    pub other_end: Option<OtherEnd<'a>>,
    /// Where large temporary files go.
    pub workdir: PathBuf,
    /// Asks to end.
    pub cancel: Cancel,
    /// Is called with what takes long ("making a cluster with pgbench scale 50").
    pub step: &'a mut dyn FnMut(&str),
}

/// The two moments between which a trial is measured.
pub trait WindowHooks {
    /// The warm-up is over: collectors start. Returns when they run.
    ///
    /// # Errors
    /// When the trial cannot continue.
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem>;
    /// The window ends now: its time is taken first, then the collectors stop.
    ///
    /// # Errors
    /// When the window was never opened.
    fn close(&mut self) -> Result<Window, Problem>;
}

/// One trial as a workload sees it.
pub struct TrialContext<'a> {
    /// All parameters of the arm.
    pub parameters: &'a Parameters,
    /// Load before the window, ns.
    pub warmup_ns: u64,
    /// Length of the window, ns. A workload of fixed work may take its own time.
    pub duration_ns: u64,
    /// Differs in every trial, for programs that want a seed.
    pub seed: u64,
    /// Asks to end.
    pub cancel: Cancel,
    /// Asks to end the window before its length is over: a background has enough when its foreground has. What was
    /// measured until then counts.
    pub enough: Cancel,
    /// To be called when the window opens and closes.
    pub window: &'a mut dyn WindowHooks,
}

/// How several client hosts share a load.
pub struct Shared {
    /// The parameters of each of this number of hosts, which have the connections in equal parts. An error when they cannot.
    pub divide: fn(&Parameters, usize) -> Result<Vec<Parameters>, Problem>,
    /// How the values of a metric become one.
    pub combine: fn(&str) -> Combination,
}

pub trait Workload: Sync {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;
    /// Its parameters; each may be an axis.
    fn parameters(&self) -> &'static [Parameter];
    /// Factors that it offers beside the knobs, such as `postgres.pool`.
    fn factors(&self) -> &'static [Parameter] {
        &[]
    }
    /// Its metrics; for `command` those that the plan defines.
    fn metrics(&self, chosen: &[MetricChoice]) -> Vec<Metric>;
    /// The id of the metric of the headline, when the plan names none.
    fn primary_metric(&self) -> Option<&'static str>;
    /// What its metrics mean beside their direction.
    fn semantics(&self) -> Semantics {
        Semantics::default()
    }
    /// True if it can run behind another one: it runs until there is enough ([`TrialContext::enough`]).
    fn may_be_background(&self) -> bool {
        false
    }
    /// True if another host can make its load ([`PrepareContext::other_end`]).
    fn has_two_ends(&self) -> bool {
        false
    }
    /// Whether the ends of an arm may be on two hosts. Called like [`Workload::check`], where they are.
    ///
    /// # Errors
    /// When they may not.
    fn check_two_ends(&self, _host: &Host, _parameters: &Parameters) -> Result<(), Problem> {
        Ok(())
    }
    /// How several client hosts share its load; `None` where that is one connection, which one host has.
    fn shared(&self) -> Option<&'static Shared> {
        None
    }
    /// True if its window is as long as its work takes, not the plan's duration.
    fn ends_its_window(&self) -> bool {
        false
    }
    /// True if a plan may define metrics for it: it runs a program that holdup knows nothing about.
    fn takes_metrics(&self) -> bool {
        false
    }
    /// True if it is made of other workloads, whose parameters it has as `KIND.parameter`.
    fn combines(&self) -> bool {
        false
    }
    /// The metrics of one use in a plan; those of [`Workload::metrics`] where they do not depend on the parameters.
    fn metrics_of(&self, _used: &WorkloadUse, chosen: &[MetricChoice]) -> Vec<Metric> {
        self.metrics(chosen)
    }
    /// True if it drives a PostgreSQL server.
    fn has_postgres(&self) -> bool {
        false
    }
    /// True if one use in a plan does.
    fn has_postgres_in(&self, _used: &WorkloadUse) -> bool {
        self.has_postgres()
    }
    /// Uses of this workload whose keys are equal share one prepared session (one cluster for
    /// two pgbench scripts); each trial gets its own parameters in any case.
    fn session_key(&self, parameters: &Parameters) -> String {
        format!("{parameters:?}")
    }
    /// Whether it can work here. Never writes.
    fn probe(&self, _host: &Host, _postgres: &PostgresOptions) -> Availability {
        Availability::Ready
    }
    /// Whether the parameters of an arm go together, and whether this host has what they ask for, as far as that can be
    /// known without making anything. Called for every arm before the first trial.
    ///
    /// # Errors
    /// When they do not.
    fn check(&self, _host: &Host, _parameters: &Parameters) -> Result<(), Problem> {
        Ok(())
    }
    /// Makes a session ready. Dropping what it returns puts everything away.
    ///
    /// # Errors
    /// When the session cannot be made ready; nothing is left behind.
    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem>;
}

/// A workload that is ready to run trials. Dropping it ends and removes all that it started.
pub trait Prepared: Send {
    /// The server under test, for knobs and collectors.
    fn postgres(&self) -> Option<&dyn PostgresControl> {
        None
    }
    /// The processes whose scheduling `sched-policy` sets; empty for "holdup's own children".
    fn scheduled_pids(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Facts of the session: versions, calibration, sizes. Asked before and after each trial as
    /// well, so it must be quick; those marked steady must not move.
    fn facts(&mut self) -> Vec<Fact> {
        Vec::new()
    }
    /// Puts the workload's own factors (`postgres.pool`) into the state of an arm. Called
    /// after the knobs were set, before every trial.
    ///
    /// # Errors
    /// When it cannot be done; the trial is void then.
    fn set(&mut self, _factors: &BTreeMap<String, Level>) -> Result<(), Problem> {
        Ok(())
    }
    /// Runs one trial.
    ///
    /// # Errors
    /// Of kind `Trial` when the trial is void and another may be tried, of kind `Interrupted`
    /// when asked to end, of any other kind when the session cannot continue.
    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem>;
    /// Ends and removes all that it started, and says when that failed.
    ///
    /// # Errors
    /// When something is left behind.
    fn close(self: Box<Self>) -> Result<(), Problem> {
        Ok(())
    }
}
