//! Sessions on the host that holdup runs on.

use crate::levels::{levels, levels_of, names, of_profiles, parameters_of, settings};
use crate::session::{Closed, Readiness, Session, SessionRequest, TrialDraft};
use crate::vocabulary;
use holdup_evidence::CollectContext;
use holdup_host::postgres::PostgresControl;
use holdup_host::{Host, facts, state};
use holdup_kernels::Cache;
use holdup_knobs::KnobContext;
use holdup_knobs::journal::{self, Journal};
use holdup_load::two_ends::parts;
use holdup_load::{OtherEnd, PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::bundle::CollectorState;
use holdup_model::plan::{Level, MetricChoice};
use holdup_model::text::count;
use holdup_model::{
    Arm, Availability, Event, Fact, Observer, Parameters, Plan, Problem, ProblemKind, Replica, Trial, TrialSpec,
    TrialStatus, WorkloadUse,
};
use holdup_postgres::External;
use holdup_watch::window::{self, CollectorHooks, Watched, unix_ns};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Puts back what a run that was killed has left changed. Called with the lock held.
pub(crate) fn recover(host: &Host) -> Result<Vec<String>, Problem> {
    let recovered = journal::recover(host, &state::journal_path(), &|server| reach(host, server))?;
    if recovered.left.is_empty() {
        return Ok(recovered.notes);
    }
    let left: Vec<String> = recovered.left.iter().map(ToString::to_string).collect();
    Err(Problem::new(ProblemKind::NotRestored, "what an earlier run left changed", left.join("; "))
        .hint("put it back by hand, then run `holdup restore --forget`"))
}

/// Reaches a server that is named in the undo journal.
pub fn reach(host: &Host, connection: &str) -> Option<Box<dyn PostgresControl>> {
    External::connect(host, connection).ok().map(|server| Box::new(server) as Box<dyn PostgresControl>)
}

pub(crate) fn workload_of(used: &WorkloadUse) -> Result<&'static dyn Workload, Problem> {
    holdup_workloads::find(&used.kind).ok_or_else(|| {
        Problem::internal(format!("workload {}", used.kind), "the checked plan names one that does not exist")
    })
}

/// Leaves out the optional factors whose knob cannot be used here, or not at each of their levels, and what profiles go
/// without; says why.
pub(crate) fn drop_unavailable_factors(host: &Host, mut plan: Plan) -> (Plan, Vec<String>) {
    let mut notes = Vec::new();
    plan.factors.retain(|factor| {
        let hindrance = hindrance(host, &factor.name, &factor.levels).filter(|_| factor.optional);
        if let Some(reason) = &hindrance {
            notes.push(format!("factor {} is left out: {reason}", factor.name));
        }
        hindrance.is_none()
    });
    for profile in &mut plan.profiles {
        profile.settings.retain(|setting| {
            let hindrance =
                hindrance(host, &setting.knob, std::slice::from_ref(&setting.level)).filter(|_| setting.optional);
            if let Some(reason) = &hindrance {
                notes.push(format!("profile {} goes without {}: {reason}", profile.name, setting.knob));
            }
            hindrance.is_none()
        });
    }
    (plan, notes)
}

/// Why a knob of the host cannot be set to each of these levels.
fn hindrance(host: &Host, name: &str, levels: &[Level]) -> Option<String> {
    let context = KnobContext { host, postgres: None, pids: vec![std::process::id()] };
    let (knob, instance) = holdup_knobs::find(name).filter(|(knob, _)| !knob.is_of_server())?;
    match knob.probe(&context, instance) {
        Availability::Unavailable { reason, .. } => Some(reason),
        // What is no value anywhere is a mistake in the plan, and not left out but refused.
        _ => levels
            .iter()
            .filter(|level| knob.check(instance, &level.value).is_ok())
            .find_map(|level| Some((level, knob.check_here(&context, instance, &level.value).err()?)))
            .map(|(level, refused)| format!("{} cannot be set: {}", level.label, refused.why)),
    }
}

/// Asks everything that the plan needs whether it can work here. Touches nothing.
pub(crate) fn ready(request: &SessionRequest<'_>) -> Result<Readiness, Problem> {
    crate::servers::specs(request.plan)?;
    let mut notes = Vec::new();
    let mut metrics = Vec::new();
    for used in &request.plan.workloads {
        let workload = workload_of(used)?;
        let what = format!("workload {}", used.kind);
        usable(&what, workload.probe(request.host, request.postgres), &mut notes)?;
        metrics.extend(metrics_of(request.plan, used, workload));
        let mut seen: Vec<Parameters> = Vec::new();
        for arm in request.schedule.arms.iter().filter(|arm| arm.workload == used.name) {
            let parameters = parameters_of(used, arm);
            if !seen.contains(&parameters) {
                workload.check(request.host, &parameters)?;
                if let Some(hosts) = &request.plan.hosts {
                    for part in parts(&used.kind, workload.shared(), &parameters, hosts.clients.len())? {
                        workload.check_two_ends(request.host, &part)?;
                    }
                }
                seen.push(parameters);
            }
        }
    }
    let context = KnobContext { host: request.host, postgres: None, pids: vec![std::process::id()] };
    for name in names(request.plan) {
        let Some((knob, instance)) = holdup_knobs::find(name) else { continue };
        // A server's settings can only be asked when there is a server: `LocalSession::open` does that.
        if !knob.is_of_server() {
            usable(&format!("factor {name}"), knob.probe(&context, instance), &mut notes)?;
            levels(request.plan, name).try_for_each(|level| knob.check_here(&context, instance, &level.value))?;
        }
    }
    let collecting = CollectContext { host: request.host.clone(), ..CollectContext::default() };
    let collectors = request
        .plan
        .collectors
        .iter()
        .filter_map(|id| holdup_evidence::find(id))
        .map(|c| CollectorState {
            id: c.meta().id.to_owned(),
            availability: probe_collector(c, &collecting, request.plan),
        })
        .collect();
    Ok(Readiness { metrics, collectors, touches: touches(request.plan), notes, emulated: None })
}

/// What each factor and setting of a plan changes, as (factor, in words).
pub(crate) fn touches(plan: &Plan) -> Vec<(String, String)> {
    let knobs = names(plan).filter(|name| !plan.workloads.iter().any(|used| own_factor(&used.kind, name)));
    let known = knobs.filter_map(|name| Some((name, holdup_knobs::find(name)?)));
    known.map(|(name, (knob, instance))| (name.to_owned(), knob.touches(instance))).collect()
}

/// A collector that needs a server is asked again when there is one; before that only its host side counts.
fn probe_collector(
    collector: &'static dyn holdup_evidence::Collector,
    context: &CollectContext,
    plan: &Plan,
) -> Availability {
    let server =
        plan.workloads.iter().any(|used| holdup_workloads::find(&used.kind).is_some_and(|w| w.has_postgres_in(used)));
    if collector.needs_postgres() && server { Availability::Ready } else { collector.probe(context) }
}

/// The metrics that the plan names for one of its workloads.
fn chosen_metrics(plan: &Plan, workload: &str) -> Vec<MetricChoice> {
    plan.metrics.iter().filter(|m| m.workload.as_deref().is_none_or(|name| name == workload)).cloned().collect()
}

pub(crate) fn metrics_of(
    plan: &Plan,
    used: &WorkloadUse,
    workload: &dyn Workload,
) -> Vec<(String, holdup_model::Metric)> {
    let mut metrics = workload.metrics_of(used, &chosen_metrics(plan, &used.name));
    for metric in &mut metrics {
        if let Some(better) = plan.metric_choice(&used.name, &metric.id).and_then(|choice| choice.better) {
            metric.better = better;
        }
    }
    metrics.into_iter().map(|metric| (used.name.clone(), metric)).collect()
}

fn usable(what: &str, availability: Availability, notes: &mut Vec<String>) -> Result<(), Problem> {
    match availability {
        Availability::Ready => Ok(()),
        Availability::Degraded { reason } => {
            notes.push(format!("{what} works in part: {reason}"));
            Ok(())
        }
        Availability::Unavailable { reason, remedy } => {
            let problem = Problem::host(what, reason);
            Err(match remedy {
                Some(remedy) => problem.hint(remedy),
                None => problem,
            })
        }
    }
}

/// Uses of one workload that share a prepared session.
struct Group {
    kind: String,
    key: String,
    members: Vec<String>,
    prepared: Box<dyn Prepared>,
    /// Collectors that cost too much for windows as short as its.
    left_out: Vec<String>,
}

/// The share of a window that default collectors may cost where its length is not known before: a program may end after a
/// millisecond, in which they would take ten.
const MOST_COST: f64 = 0.01;

impl Group {
    /// Leaves out the most expensive collectors until the others cost no more than a hundredth of such a window; returns
    /// whether it did.
    fn leaves_out_expensive(&mut self, watched: &Watched) -> bool {
        let Some(window) = &watched.window else { return false };
        let window_ns = window.length_ns as f64;
        let mut costs: Vec<(u64, &str)> =
            watched.evidence.iter().map(|e| (e.cost.cpu_ns, e.collector.as_str())).collect();
        costs.sort_unstable();
        let share = |costs: &[(u64, &str)]| costs.iter().map(|(ns, _)| *ns as f64).sum::<f64>() / window_ns;
        let kept = (0..=costs.len()).rev().find(|n| share(&costs[..*n]) <= MOST_COST).unwrap_or(0);
        let expensive = &costs[kept..];
        self.left_out.extend(expensive.iter().map(|(_, id)| (*id).to_owned()));
        !expensive.is_empty()
    }
}

/// An open session on this host. Dropping it without `close` still puts the knobs back.
pub(crate) struct LocalSession<'a> {
    request: &'a SessionRequest<'a>,
    groups: Vec<Group>,
    journal: Journal,
    collectors: Vec<String>,
    /// What to say when the trial has ended.
    news: Vec<String>,
    /// Where a trial that is under way says what it begins.
    says: Box<dyn Fn(&str) + 'a>,
    closed: bool,
}

impl<'a> LocalSession<'a> {
    /// Sets what holds for all arms, prepares every workload, and asks the server's knobs.
    pub(crate) fn open(request: &'a SessionRequest<'a>, observer: &mut dyn Observer) -> Result<Self, Problem> {
        let collecting = CollectContext { host: request.host.clone(), ..CollectContext::default() };
        let collectors = request
            .plan
            .collectors
            .iter()
            .filter(|id| {
                holdup_evidence::find(id).is_some_and(|c| probe_collector(c, &collecting, request.plan).is_usable())
            })
            .cloned()
            .collect();
        let mut journal = Journal::open(request.host.clone(), &state::journal_path(), unix_ns())?;
        if !touches(request.plan).is_empty() {
            journal.must_be_writable()?;
        }
        let mut session = LocalSession {
            request,
            groups: Vec::new(),
            journal,
            collectors,
            news: Vec::new(),
            says: Box::new(|_| {}),
            closed: false,
        };
        // Host-wide settings come first: huge pages must be there before a server starts.
        session.apply(None, &settings(request.plan, false))?;
        for used in &request.plan.workloads {
            session.prepare(used, observer)?;
        }
        for index in 0..session.groups.len() {
            session.probe_server_knobs(index)?;
            session.apply(Some(index), &settings(request.plan, true))?;
        }
        session.find_locks(observer);
        Ok(session)
    }

    /// Finds the locks in the programs under test before their load takes the CPUs: beside eight tasks that spin on two CPUs
    /// the first trial took a minute for that. What fails here is tried again, and said, in the trial.
    fn find_locks(&self, observer: &mut dyn Observer) {
        let Some(maps) = self.maps().filter(|_| holdup_evidence::want_sections(&self.collectors)) else { return };
        let program = |group: &Group| match group.prepared.postgres() {
            Some(server) => server.postmaster_pid().map(|pid| format!("/proc/{pid}/exe")),
            None => (group.kind == "lock-contention").then(|| "/proc/self/exe".to_owned()),
        };
        let programs: BTreeSet<PathBuf> = self
            .groups
            .iter()
            .filter_map(|group| self.request.host.read_link(&program(group)?).ok())
            .map(PathBuf::from)
            .collect();
        for path in programs {
            let mut begins = || observer.event(Event::Step(&format!("looking for locks in {}", path.display())));
            let (host, sections) = (self.request.host, &self.request.plan.collect.sections);
            let _said_by_the_trial = holdup_evidence::keep_map(host, &path, sections, &maps, &mut begins);
        }
    }

    /// The folder of section maps.
    fn maps(&self) -> Option<PathBuf> {
        let cache = self.request.guests.cache.clone().unwrap_or_else(Cache::default_root);
        Cache::open(&cache).ok().map(|cache| Cache::maps(cache.root()))
    }

    /// The same session, whose trials say what they begin.
    pub(crate) fn saying(mut self, says: impl Fn(&str) + 'a) -> Self {
        self.says = Box::new(says);
        self
    }

    fn prepare(&mut self, used: &WorkloadUse, observer: &mut dyn Observer) -> Result<(), Problem> {
        let workload = workload_of(used)?;
        let key = workload.session_key(&used.parameters);
        if let Some(group) = self.groups.iter_mut().find(|g| g.kind == used.kind && g.key == key) {
            group.members.push(used.name.clone());
            return Ok(());
        }
        let combinations = self.combinations(used, workload, &key);
        let mut step = |text: &str| observer.event(Event::Step(text));
        let prepared = workload.prepare(PrepareContext {
            other_end: self.request.clients.as_ref().map(OtherEnd::Clients),
            host: self.request.host,
            parameters: &used.parameters,
            combinations: &combinations,
            metrics: &chosen_metrics(self.request.plan, &used.name),
            postgres: self.request.postgres,
            workdir: self.request.workdir.clone(),
            cancel: self.request.cancel.clone(),
            step: &mut step,
        })?;
        self.groups.push(Group {
            kind: used.kind.clone(),
            key,
            members: vec![used.name.clone()],
            prepared,
            left_out: Vec::new(),
        });
        Ok(())
    }

    /// The parameters of every arm that will use a session with this key.
    fn combinations(&self, used: &WorkloadUse, workload: &dyn Workload, key: &str) -> Vec<Parameters> {
        let sharing: Vec<&WorkloadUse> = self
            .request
            .plan
            .workloads
            .iter()
            .filter(|other| other.kind == used.kind && workload.session_key(&other.parameters) == key)
            .collect();
        let mut all: Vec<Parameters> = Vec::new();
        for arm in &self.request.schedule.arms {
            if let Some(owner) = sharing.iter().find(|w| w.name == arm.workload) {
                let parameters = parameters_of(owner, arm);
                if !all.contains(&parameters) {
                    all.push(parameters);
                }
            }
        }
        all
    }

    fn probe_server_knobs(&self, index: usize) -> Result<(), Problem> {
        let Some(server) = self.groups[index].prepared.postgres() else { return Ok(()) };
        let context = KnobContext { host: self.request.host, postgres: Some(server), pids: Vec::new() };
        for name in names(self.request.plan) {
            if let Some((knob, instance)) = holdup_knobs::find(name).filter(|(knob, _)| knob.is_of_server()) {
                if own_factor(&self.groups[index].kind, name) {
                    continue;
                }
                usable(&format!("factor {name}"), knob.probe(&context, instance), &mut Vec::new())?;
            }
        }
        Ok(())
    }

    /// Puts back what other profiles than that of this arm have set.
    fn put_back_but(&mut self, group: usize, levels: &BTreeMap<String, Level>) -> Result<(), Problem> {
        for name in of_profiles(self.request.plan) {
            if !levels.contains_key(name) {
                let context = context_of(self.request.host, Some(&self.groups[group]));
                self.journal.put_back_factor(&context, name)?;
            }
        }
        Ok(())
    }

    /// Puts levels in force through the journal; `group` is whose processes and server are meant.
    fn apply(&mut self, group: Option<usize>, levels: &BTreeMap<String, Level>) -> Result<(), Problem> {
        let group = group.map(|index| &self.groups[index]);
        for (name, level) in levels {
            let Some((knob, _)) = holdup_knobs::find(name) else { continue };
            // Asked anew for each level: a setting before this one may have restarted the server.
            let context = context_of(self.request.host, group);
            if group.is_some_and(|g| own_factor(&g.kind, name)) || (knob.is_of_server() && context.postgres.is_none()) {
                continue;
            }
            self.journal.apply(&context, name, &level.value)?;
        }
        Ok(())
    }

    fn group_of(&self, workload: &str) -> Result<usize, Problem> {
        self.groups
            .iter()
            .position(|g| g.members.iter().any(|m| m == workload))
            .ok_or_else(|| Problem::internal(format!("workload {workload}"), "it was not prepared"))
    }

    fn facts(&mut self, group: usize) -> Vec<Fact> {
        let mut all = facts(self.request.host);
        all.extend(self.groups[group].prepared.facts());
        all
    }

    /// Everything of a trial; what was measured until a failure is in `trial`.
    fn attempt(&mut self, arm: &Arm, seed: u64, trial: &mut Trial) -> Result<(), Problem> {
        let plan = self.request.plan;
        let design = &plan.design;
        let group = self.group_of(&arm.workload)?;
        let used = plan
            .workload(&arm.workload)
            .ok_or_else(|| Problem::internal(format!("workload {}", arm.workload), "it is not in the plan"))?;
        let levels = levels_of(plan, arm);
        let set = self.put_back_but(group, &levels).and_then(|()| self.apply(Some(group), &levels));
        if let Err(problem) = set {
            // Where no change can be noted, no other trial can be set either.
            self.journal.must_be_writable()?;
            return Err(void(problem, "the arm could not be set"));
        }
        self.groups[group].prepared.set(&levels)?;
        let cancel = self.request.cancel.clone();
        if !window::sleep(design.settle_ns, &|| cancel.is_cancelled()) {
            return Err(Problem::interrupted("the trial"));
        }
        trial.environment_before = self.facts(group);
        let (mut result, mut watched) = self.measured(group, used, arm, seed);
        let is_default = || plan.collectors == vocabulary().default_collectors;
        if result.is_ok() && workload_of(used)?.ends_its_window() && is_default() {
            let is_first = self.groups[group].left_out.is_empty();
            while self.groups[group].leaves_out_expensive(&watched) {
                (result, watched) = self.measured(group, used, arm, seed);
            }
            let n = self.groups[group].left_out.len();
            if let Some(window) = watched.window.as_ref().filter(|_| is_first && n > 0) {
                let (left_out, ms) = (count(n, "collector"), window.length_ns as f64 / 1e6);
                let why = format!("they would take more than 1 % of a window of {ms:.1} ms");
                self.news.push(format!("{left_out} left out: {why}; --collect ID,… runs them"));
            }
        }
        let stood_still = watched.steady(design.max_steal_share);
        (trial.evidence, trial.window) = (watched.evidence, watched.window);
        // What stood still is the better reason for what the workload then missed.
        let TrialResult { measurements, histograms, notes, .. } = match (result, &stood_still) {
            (Err(problem), Err(reason)) if problem.kind == ProblemKind::Trial => return Err(reason.clone()),
            (result, _) => result?,
        };
        (trial.measurements, trial.histograms, trial.notes) = (measurements, histograms, notes);
        let after = self.facts(group);
        trial.environment_moved = holdup_host::moved(&trial.environment_before, &after);
        stood_still?;
        steady(trial)
    }

    /// One window of an arm that is set.
    fn measured(
        &mut self,
        group: usize,
        used: &WorkloadUse,
        arm: &Arm,
        seed: u64,
    ) -> (Result<TrialResult, Problem>, Watched) {
        let (plan, maps) = (self.request.plan, self.maps());
        let group = &mut self.groups[group];
        let connection = group.prepared.postgres().map(holdup_host::postgres::PostgresControl::connection_string);
        let is_observed = arm.replica != Some(Replica::Unobserved);
        let runs = |id: &&String| is_observed && !group.left_out.contains(*id);
        let collectors: Vec<String> = self.collectors.iter().filter(runs).cloned().collect();
        let hooks = CollectorHooks::new(self.request.host, &collectors, connection);
        let mut hooks = hooks.with_options(plan.collect.clone(), maps).saying(&*self.says);
        let result = group.prepared.run(TrialContext {
            parameters: &parameters_of(used, arm),
            warmup_ns: plan.design.warmup_ns,
            duration_ns: plan.design.duration_ns,
            seed,
            cancel: self.request.cancel.clone(),
            enough: holdup_load::Cancel::default(),
            window: &mut hooks,
        });
        (result, hooks.finish())
    }

    /// Puts everything back: knobs first, while the server still answers, then the workloads.
    fn put_back(&mut self) -> (Vec<String>, Vec<String>) {
        self.closed = true;
        let servers: Vec<_> = self.groups.iter().filter_map(|g| g.prepared.postgres()).collect();
        let restored = self.journal.restore_with(&servers);
        let mut left: Vec<String> = restored.left.iter().map(ToString::to_string).collect();
        let notes = restored.notes;
        for group in self.groups.drain(..).rev() {
            if let Err(problem) = group.prepared.close() {
                left.push(problem.to_string());
            }
        }
        (notes, left)
    }
}

impl Session for LocalSession<'_> {
    fn environment(&mut self) -> Vec<Fact> {
        let mut all = facts(self.request.host);
        for group in &mut self.groups {
            all.extend(group.prepared.facts());
        }
        all
    }

    fn trial(&mut self, arm: &Arm, _spec: &TrialSpec, seed: u64) -> TrialDraft {
        let mut trial = Trial::begun(unix_ns());
        let problem = self.attempt(arm, seed, &mut trial).err();
        if let Some(problem) = &problem {
            trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
        }
        trial.ended_unix_ns = unix_ns();
        TrialDraft { trial, problem }
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn close(mut self: Box<Self>) -> Closed {
        let (notes, left) = self.put_back();
        let left = (!left.is_empty())
            .then(|| Problem::new(ProblemKind::NotRestored, "the host was not fully restored", left.join("; ")));
        Closed { notes, logs: Vec::new(), left }
    }
}

impl Drop for LocalSession<'_> {
    fn drop(&mut self) {
        if !self.closed {
            // Only reached when opening failed half way; what could not be put back stays in the journal,
            // where the next start and `holdup restore` find it.
            let _nothing_to_report = self.put_back();
        }
    }
}

/// What knobs act on: the server and the processes of a group, else holdup itself.
fn context_of<'a>(host: &'a Host, group: Option<&'a Group>) -> KnobContext<'a> {
    let pids = group.map(|g| g.prepared.scheduled_pids()).filter(|pids| !pids.is_empty());
    KnobContext {
        host,
        postgres: group.and_then(|g| g.prepared.postgres()),
        pids: pids.unwrap_or_else(|| vec![std::process::id()]),
    }
}

/// True if a name is one of the workload's own factors (`postgres.pool`), which look like a knob's.
fn own_factor(kind: &str, name: &str) -> bool {
    holdup_workloads::find(kind).is_some_and(|w| w.factors().iter().any(|f| f.name == name))
}

fn void(problem: Problem, why: &str) -> Problem {
    if matches!(problem.kind, ProblemKind::Interrupted | ProblemKind::Internal) {
        return problem;
    }
    Problem {
        kind: ProblemKind::Trial,
        what: why.to_owned(),
        why: format!("{}: {}", problem.what, problem.why),
        hint: problem.hint,
    }
}

/// A trial whose environment moved does not count.
fn steady(trial: &Trial) -> Result<(), Problem> {
    if trial.environment_moved.is_empty() {
        return Ok(());
    }
    let moved: Vec<String> = trial
        .environment_moved
        .iter()
        .map(|now| {
            let before = trial.environment_before.iter().find(|f| f.key == now.key).and_then(|f| f.value.as_deref());
            format!(
                "{} went from {} to {}",
                now.key,
                before.unwrap_or("unknown"),
                now.value.as_deref().unwrap_or("unknown")
            )
        })
        .collect();
    Err(Problem::trial("the environment moved", moved.join(", ")))
}

/// The trial of a session that could not be opened.
pub(crate) fn never_begun(problem: &Problem) -> Trial {
    let mut trial = Trial::begun(unix_ns());
    trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
    trial.notes.extend(problem.hint.clone());
    trial
}
