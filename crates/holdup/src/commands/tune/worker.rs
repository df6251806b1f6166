//! Carries out the blocks of a search: writes profiles, makes the plan of a block, runs it.

use super::Args;
use super::asked::GuardAsked;
use crate::commands::searching::{Planned, only_workload};
use crate::design::plan_of;
use crate::world::World;
use crate::{bundles, signals};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::bundle::{BundleData, Ending};
use holdup_model::profile::{FACTOR, NONE};
use holdup_model::tuning::{Begin, Entry, FORMAT, Guard, LeftOut, Seen, Tried, TriedLevel};
use holdup_model::{
    Arm, Direction, Event, MemoryBudget, Metric, Observer, Plan, Problem, Trial, TrialStatus, WorkloadUse,
};
use holdup_plan::Overrides;
use holdup_postgres::External;
use holdup_postgres::find::{Binaries, Need, SearchPath};
use holdup_search::{Blocks, Log, Place, chosen, settings_of};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a search waits for another run to end, before it asks what is set and between its own runs.
const PATIENCE: Duration = Duration::from_secs(600);
/// What is tried where the command line names nothing.
const DEFAULT_KNOBS: &[&str] = &["scheduler", "memory", "power", "postgres"];
/// Names of profiles that are compared: the answer, the winner before single settings were left out, what the plan starts from.
pub(super) const WINNER: &str = "winner";
pub(super) const ALL: &str = "winner-before";
const BASELINE: &str = "baseline";
/// Points and settings that were found: trials of a block.
const BLOCK: f64 = 8.0;

/// What a search runs its blocks with.
pub(super) struct Worker<'a> {
    args: &'a Args,
    host: &'a Host,
    world: &'a World,
    pub(super) folder: PathBuf,
    cancel: Cancel,
    /// The plan without what it varies, as TOML.
    source: String,
    /// Where the winner is measured.
    target: String,
    /// What the plan varies.
    varied: Vec<Tried>,
    /// What it sets.
    fixed: Vec<String>,
    used: WorkloadUse,
    metrics: Vec<Metric>,
    metric: Metric,
}

/// The arm of a profile, in a plan that compares profiles.
pub(super) fn arm_of<'a>(compared: &'a Planned, profile: &str) -> Option<&'a Arm> {
    let is_it = |arm: &&Arm| arm.factors.get(FACTOR).is_some_and(|level| level.label == profile);
    compared.schedule.arms.iter().filter(|arm| arm.replica.is_none()).find(is_it)
}

/// A profile that is measured: its name, and what it sets.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) sets: Vec<(String, String)>,
}

impl<'a> Worker<'a> {
    /// Checks all that can be known before anything runs.
    pub(super) fn new(args: &'a Args, host: &'a Host, world: &'a World, folder: &Path) -> Result<Self, Problem> {
        let cancel = signals::cancel_on_signals()?;
        let overrides = overrides(args);
        let (plan, source) = plan_of((args.file.as_deref(), args.workload()), &args.design.metric, &overrides, world)?;
        let source = holdup_plan::comparing_profiles(&source, &[])
            .map_err(|why| Problem::internal("the plan of the search", why))?;
        let used = workload(&plan)?.clone();
        let varied = varied(&plan)?;
        let (metrics, metric) = metrics(&plan, &used)?;
        let folder = folder.to_owned();
        let target = plan.target.clone();
        let fixed = plan.settings.iter().map(|(name, _)| name.clone()).collect();
        Ok(Worker { args, host, world, folder, cancel, source, target, varied, fixed, used, metrics, metric })
    }

    /// The plan of the search, without what it varies, as TOML.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The first line of the log: what is tried, and what is measured.
    pub(super) fn begin(&self, command: Vec<String>) -> Result<Begin, Problem> {
        // What a killed run left set is not what was found.
        holdup_target::put_back_left(self.host, PATIENCE)?;
        let (tried, left_out) = self.space()?;
        let folder = std::env::current_dir().map_err(|e| Problem::host("this folder", e.to_string()))?;
        let guards = self.args.search.guard.iter().map(|asked| self.guard(asked)).collect::<Result<_, _>>()?;
        let begin = Begin {
            format: FORMAT,
            command,
            folder: folder.display().to_string(),
            began_unix_ns: holdup_watch::unix_ns(),
            plan: self.source.clone(),
            workload: self.used.name.clone(),
            searched_on: self.search_target().unwrap_or(&self.target).to_owned(),
            target: self.target.clone(),
            workload_has_server: self.has_postgres(),
            metric: self.metric.id.clone(),
            better: self.metric.better,
            guards,
            tried,
            left_out,
            least: self.args.search.least,
            budget_s: self.budget_s()?,
            seed: self.args.design.seed().unwrap_or(1),
        };
        // A plan that cannot be is refused before anything is run.
        let plan = self.plan_of_profiles(&[], self.search_target(), |_| {})?.plan;
        self.check_beside()?;
        let design = &plan.design;
        let block_s = BLOCK * (design.settle_ns + design.warmup_ns + design.duration_ns) as f64 / 1e9;
        // Screening needs some blocks, and the answer as many again.
        // How long a program takes is not known before.
        let ends_itself = holdup_workloads::find(&self.used.kind).is_some_and(holdup_load::Workload::ends_its_window);
        if !ends_itself && begin.budget_s < 4.0 * block_s {
            let why = format!("four blocks of trials as long as the plan's take {:.0} s", 4.0 * block_s);
            return Err(Problem::usage("--budget", why).hint("a longer budget, or shorter trials (--duration)"));
        }
        Ok(begin)
    }

    /// The profiles that are measured beside the winner, and the place where it is measured, are asked for before hours of
    /// search.
    fn check_beside(&self) -> Result<(), Problem> {
        let mut files = vec![NONE.to_owned()];
        files.extend(self.beside().iter().map(|path| self.named_in_plan(path)));
        let files = if files.len() > 1 { files } else { Vec::new() };
        let plan = self.plan_of_profiles(&files, None, |_| {})?.plan;
        let taken = |name: &str| [WINNER, ALL, BASELINE].contains(&name);
        match plan.profiles.iter().find(|profile| taken(&profile.name)) {
            Some(profile) => {
                Err(Problem::usage(format!("--beside: profile {}", profile.name), "the search uses this name")
                    .hint("give the profile another name"))
            }
            None => Ok(()),
        }
    }

    fn budget_s(&self) -> Result<f64, Problem> {
        let Some(text) = self.args.design.budget() else {
            return Err(Problem::usage("--budget", "it is missing").hint("how long the search may take, such as 1h"));
        };
        let ns = holdup_plan::parse_duration_ns(text);
        ns.map(|ns| ns as f64 / 1e9)
            .ok_or_else(|| Problem::usage(format!("--budget {text}"), "not a duration such as 30m or 2h"))
    }

    /// What is tried here, and what not.
    fn space(&self) -> Result<(Vec<Tried>, Vec<LeftOut>), Problem> {
        let search = &self.args.search;
        if !self.varied.is_empty() && search.knobs.is_none() && search.tried.is_empty() {
            return Ok((self.varied.clone(), Vec::new()));
        }
        if !self.varied.is_empty() {
            return Err(Problem::usage("--knobs", "the plan says what is tried: what it varies")
                .hint("leave --knobs and --try out, or take [factors] out of the plan"));
        }
        let named: Vec<String> = match (&search.knobs, search.tried.is_empty()) {
            (Some(names), _) => names.iter().map(|name| name.trim().to_owned()).collect(),
            (None, true) => DEFAULT_KNOBS.iter().map(|name| (*name).to_owned()).collect(),
            (None, false) => Vec::new(),
        };
        let has_postgres = self.has_postgres();
        let options = self.args.place.postgres();
        let server = match &options.url {
            Some(url) if has_postgres => Some(External::connect(self.host, url)?),
            _ => None,
        };
        let settings = match &server {
            _ if !has_postgres => None,
            Some(server) => Some(server.settings()?),
            None => {
                let paths = SearchPath::of_this_host(options.bin.as_deref());
                Some(Binaries::find(&paths, Need::Server)?.settings()?)
            }
        };
        let is_simulated = self.target.starts_with("sim");
        let simulates = |knob: &str| holdup_target::is_simulated_factor(knob);
        let place = Place {
            host: self.host,
            machine: self.world.machine,
            settings,
            server: server.as_ref().map(|server| server as &dyn holdup_host::postgres::PostgresControl),
            simulated: (is_simulated || self.search_target().is_some()).then_some(&simulates),
            is_real: !is_simulated,
            fixed: &self.fixed,
        };
        place.space(&chosen(&named)?, &search.tried)
    }

    fn has_postgres(&self) -> bool {
        holdup_workloads::find(&self.used.kind).is_some_and(|w| w.has_postgres_in(&self.used))
    }

    fn guard(&self, asked: &GuardAsked) -> Result<Guard, Problem> {
        let what = format!("--guard {}", asked.metric);
        let known = || self.metrics.iter().map(|m| m.id.as_str()).collect::<Vec<_>>().join(", ");
        let metric = self.metrics.iter().find(|m| m.id == asked.metric).ok_or_else(|| {
            let why = format!("{} does not measure it", self.used.kind);
            Problem::usage(&what, why).hint(format!("it measures {}", known()))
        })?;
        let is_turned = asked.at_most.is_some_and(|at_most| at_most != (metric.better == Direction::Lower));
        if is_turned {
            let way = if metric.better == Direction::Lower { "lower" } else { "higher" };
            return Err(Problem::usage(what, format!("{way} is better, so the bound lies on the other side")));
        }
        Ok(Guard { metric: metric.id.clone(), better: metric.better, bound: asked.bound })
    }

    /// Where the search runs, if not where the plan says.
    fn search_target(&self) -> Option<&str> {
        self.args.search.first.as_deref()
    }

    /// The plan that compares these profiles with the settings that were found.
    fn plan_of_profiles(
        &self,
        files: &[String],
        target: Option<&str>,
        change: impl FnOnce(&mut Overrides),
    ) -> Result<Planned, Problem> {
        let mut overrides = Overrides { vary: Vec::new(), ..overrides(self.args) };
        if let Some(target) = target {
            overrides.target = Some(target.to_owned());
        }
        change(&mut overrides);
        let source = holdup_plan::comparing_profiles(&self.source, files)
            .map_err(|why| Problem::internal("the plan of a block", why))?;
        let name = self.args.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
        let plan = self.world.with(&overrides, |inputs| holdup_plan::check(&name, &source, inputs))?;
        if plan.target != "local" && !plan.target.starts_with("sim") {
            return Err(Problem::usage(format!("target {}", plan.target), "settings are tried on a running host")
                .hint("target local; or run holdup tune inside of the guest"));
        }
        let (plan, _) = crate::commands::run::target(&plan)?.drop_unavailable_factors(self.host, plan);
        let schedule = holdup_plan::schedule(&plan)?;
        Ok(Planned { plan, source, schedule })
    }

    /// The file of a profile in the folder of the search, as plans name it; `of` begins its name.
    fn file_of(&self, measured: &Measured, of: &str) -> Result<String, Problem> {
        let path = self.folder.join(format!("{of}-{}.toml", measured.name));
        let text = holdup_plan::profile_toml(&measured.name, "", &measured.sets);
        holdup_files::write_output(&path, text.as_bytes())
            .map_err(|e| Problem::host(format!("profile {}", path.display()), e.to_string()))?;
        Ok(self.named_in_plan(&path))
    }

    /// A plan names files from its own folder.
    fn named_in_plan(&self, path: &Path) -> String {
        let absolute = self.args.file.as_ref().and_then(|_| std::path::absolute(path).ok());
        absolute.as_deref().unwrap_or(path).display().to_string()
    }

    /// The name of the arm with the settings that were found.
    pub(super) fn name_of_found(begin: &Begin) -> &'static str {
        let is_none = begin.tried.iter().all(|tried| tried.levels[0].sets.is_empty());
        if is_none { NONE } else { BASELINE }
    }

    /// The settings that were found, as a level of a plan.
    fn found(&self, begin: &Begin) -> Result<String, Problem> {
        match Self::name_of_found(begin) {
            NONE => Ok(NONE.to_owned()),
            name => {
                let sets = sets(begin, &vec![0; begin.tried.len()]);
                self.file_of(&Measured { name: name.to_owned(), sets }, "profile")
            }
        }
    }

    /// Runs profiles against the first of `measured`, or against the settings that were found, and gives the bundle.
    pub(super) fn compare(
        &self,
        begin: &Begin,
        (measured, beside): (&[Measured], &[PathBuf]),
        (against_found, name): (bool, &str),
        change: impl FnOnce(&mut Overrides),
        observer: &mut dyn Observer,
    ) -> Result<(Planned, PathBuf), Problem> {
        let mut files = Vec::new();
        if against_found {
            files.push(self.found(begin)?);
        }
        for one in measured {
            files.push(self.file_of(one, "profile")?);
        }
        files.extend(beside.iter().map(|path| self.named_in_plan(path)));
        let compared = self.plan_of_profiles(&files, None, change)?;
        let bundle = bundles::free_name(self.folder.join(name));
        self.run(&compared, &bundle, observer)?;
        Ok((compared, bundle))
    }

    fn run(&self, compared: &Planned, out: &Path, observer: &mut dyn Observer) -> Result<(), Problem> {
        let place = (&self.args.place, PATIENCE);
        let outcome = compared.run::<Entry>(place, self.at(), (out, &self.folder), self.cancel.clone(), observer)?;
        match outcome.ending {
            Ending::Failed { reason } if outcome.trials_done == 0 => Err(Problem::host("the block", reason)),
            _ => Ok(()),
        }
    }

    /// The host, and what plans are checked against.
    pub(super) fn at(&self) -> (&'a Host, &'a World) {
        (self.host, self.world)
    }

    /// How long a trial of the answer takes, s, where the search was simulated: its windows and what lies between them.
    pub(super) fn trial_s(&self) -> Result<Option<f64>, Problem> {
        const BETWEEN_S: f64 = 3.0;
        if self.search_target().is_none() {
            return Ok(None);
        }
        let design = self.plan_of_profiles(&[], None, |_| {})?.plan.design;
        Ok(Some((design.settle_ns + design.warmup_ns + design.duration_ns) as f64 / 1e9 + BETWEEN_S))
    }

    /// Profiles that are measured beside the winner.
    pub(super) fn beside(&self) -> &'a [PathBuf] {
        &self.args.search.beside
    }

    /// The trials of a block as the log takes them.
    fn seen(&self, data: &BundleData, compared: &Planned, points: &[(String, Vec<u8>)], begin: &Begin) -> Vec<Seen> {
        points
            .iter()
            .filter_map(|(name, levels)| {
                let arm = arm_of(compared, name)?.id;
                let trials: Vec<&Trial> = data.trials.iter().filter(|t| t.arm == arm).collect();
                seen_of(&trials, levels, &self.metric.id, begin)
            })
            .collect()
    }
}

/// What the trials of one point say; nothing where only the host or the one at the keyboard was at fault.
fn seen_of(trials: &[&Trial], levels: &[u8], metric: &str, begin: &Begin) -> Option<Seen> {
    let levels = levels.to_vec();
    if let Some(trial) = trials.iter().find(|t| t.is_done()) {
        let guards = begin.guards.iter().map(|guard| trial.metric(&guard.metric)).collect();
        let value = trial.metric(metric).filter(|v| *v > 0.0 && v.is_finite())?;
        return Some(Seen { levels, value: Some(value), guards, failed: None });
    }
    let reason = trials.iter().rev().find_map(|trial| match &trial.status {
        TrialStatus::Void { reason } => Some(reason.clone()),
        TrialStatus::Done => None,
    })?;
    let is_of_host = OF_HOST.iter().any(|words| reason.contains(words));
    (!is_of_host).then(|| Seen { levels, value: None, guards: vec![None; begin.guards.len()], failed: Some(reason) })
}

/// Words of the reasons that say nothing about a setting (`holdup_host::stalls`, the run loop, the undo journal).
const OF_HOST: &[&str] = &[
    ": interrupted",
    "the environment moved",
    "the wall clock jumped",
    "the host was suspended",
    "holdup was stopped",
    "a process of the load was stopped",
    "the machine stood still",
    "hypervisor",
    "someone else changed it",
];

/// What a point sets.
pub(super) fn sets(begin: &Begin, levels: &[u8]) -> Vec<(String, String)> {
    let chosen = begin.tried.iter().zip(levels).map(|(tried, level)| &tried.levels[usize::from(*level)]);
    chosen.flat_map(|level| level.sets.iter().cloned()).collect()
}

impl Blocks for Worker<'_> {
    fn measure(
        &mut self,
        points: &[Vec<u8>],
        phase: &str,
        log: &mut Log<Entry>,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem> {
        let begun = Instant::now();
        let begin = log.begin().clone();
        let mut named = vec![(Self::name_of_found(&begin).to_owned(), vec![0; begin.tried.len()])];
        let mut files = vec![self.found(&begin)?];
        for (at, levels) in points.iter().enumerate() {
            let (name, sets) = (format!("point-{}", at + 1), sets(&begin, levels));
            let of = format!("block-{}", log.entries().len());
            files.push(self.file_of(&Measured { name: name.clone(), sets }, &of)?);
            named.push((name, levels.clone()));
        }
        let seed = begin.seed.wrapping_add(log.entries().len() as u64);
        let compared = self.plan_of_profiles(&files, self.search_target(), |overrides| {
            overrides.set.push(("aa".to_owned(), "false".to_owned()));
            overrides.set.push(("retries".to_owned(), "1".to_owned()));
            (overrides.max_blocks, overrides.blocks, overrides.sessions) = (None, Some(1), Some(1));
            (overrides.seed, overrides.collect) = (Some(seed), Some(Vec::new()));
        })?;
        let out = bundles::free_name(self.folder.join("block"));
        let ran = self.run(&compared, &out, &mut Quiet(observer));
        if !out.exists() {
            return ran;
        }
        let data = holdup_bundle::read_numbers(&out, &MemoryBudget::default())?;
        let seen = self.seen(&data, &compared, &named, &begin);
        for failed in seen.iter().filter(|s| s.failed.is_some()) {
            let why = failed.failed.as_deref().unwrap_or_default();
            let settings = settings_of(&begin, &failed.levels);
            let what = if settings.len() > 3 { format!("{} settings", settings.len()) } else { settings.join(", ") };
            observer.event(Event::Note(&format!("{what}: the trial failed: {why}")));
        }
        let bundle = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (phase, spent_s) = (phase.to_owned(), begun.elapsed().as_secs_f64());
        log.add(Entry::Block { phase, bundle, spent_s, seen })?;
        ran
    }
}

/// Each block is a run, but not one of the user's.
struct Quiet<'a>(&'a mut dyn Observer);

impl Observer for Quiet<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            // What works in part was said by the first block.
            Event::Note(note) if note.contains(" works in part: ") => {}
            Event::Note(_) => self.0.event(event),
            Event::Begin { .. } | Event::TrialBegin { .. } | Event::TrialEnd { .. } | Event::End | Event::Step(_) => {}
        }
    }
}

/// What the command line changes in the plan; the budget is that of the search and not of each run.
fn overrides(args: &Args) -> Overrides {
    let mut overrides = Overrides { budget: None, ..args.design.overrides(args.place.changes()) };
    if let Some(target) = &args.search.confirm {
        overrides.target = Some(target.clone());
    }
    overrides
}

/// The workload of the plan; a search of settings varies nothing of it.
fn workload(plan: &Plan) -> Result<&WorkloadUse, Problem> {
    let used = only_workload(plan)?;
    match used.axes.first() {
        None => Ok(used),
        Some(axis) => Err(Problem::usage(format!("axis {}", axis.name), "a search varies settings and nothing else")
            .hint(format!("--set {}=V chooses one value", axis.name))),
    }
}

/// What a plan varies, as what is tried: the first level is what was found.
fn varied(plan: &Plan) -> Result<Vec<Tried>, Problem> {
    if plan.factors.len() > holdup_search::MOST_TRIED {
        let why = format!("it varies {} factors, and a search takes {}", plan.factors.len(), holdup_search::MOST_TRIED);
        return Err(Problem::usage("the plan", why).hint("take some of them out"));
    }
    let own = |name: &str| {
        plan.workloads
            .iter()
            .any(|used| holdup_workloads::find(&used.kind).is_some_and(|w| w.factors().iter().any(|f| f.name == name)))
    };
    plan.factors
        .iter()
        .map(|factor| {
            if own(&factor.name) || holdup_knobs::find(&factor.name).is_none() {
                return Err(Problem::usage(
                    format!("factor {}", factor.name),
                    "it is no knob, so no profile can hold it",
                )
                .hint("a search tries knobs of the host and settings of PostgreSQL"));
            }
            let level = |level: &holdup_model::plan::Level| TriedLevel {
                label: level.label.clone(),
                sets: vec![(factor.name.clone(), level.label.clone())],
            };
            Ok(Tried {
                name: factor.name.clone(),
                levels: factor.levels.iter().map(level).collect(),
                is_ordered: factor.is_numeric(),
                restarts: false,
                why: "the plan varies it".to_owned(),
            })
        })
        .collect()
}

/// All metrics of the workload, and the one that is to get better.
fn metrics(plan: &Plan, used: &WorkloadUse) -> Result<(Vec<Metric>, Metric), Problem> {
    let of = holdup_workloads::find(&used.kind)
        .ok_or_else(|| Problem::internal(format!("workload {}", used.kind), "it is not in the catalogue"))?;
    let metrics = holdup_target::metrics_of(plan, used)?;
    let named = plan.metrics.iter().find(|m| m.primary).map(|m| m.id.as_str());
    let id = named.or_else(|| of.primary_metric()).or(plan.metrics.first().map(|m| m.id.as_str())).unwrap_or_default();
    let metric = metrics.iter().find(|m| m.id == id).or(metrics.first()).cloned();
    let metric = metric.ok_or_else(|| Problem::usage("the plan", "it measures nothing").hint("--metric NAME"))?;
    Ok((metrics, metric))
}
