//! Carries out the steps of a search: builds candidates, makes the plan of a step, runs it.

use super::builder::Builder;
use super::candidates::{self, Followed};
use super::{Args, FORMAT};
use crate::bundles;
use crate::commands::searching::Planned;
use crate::design::plan_of;
use crate::signals;
use crate::world::World;
use holdup_host::Host;
use holdup_kernels::Options;
use holdup_load::Cancel;
use holdup_model::bundle::Ending;
use holdup_model::guest::{KERNEL, OF_HOST, is_chosen_at_boot};
use holdup_model::search::{Begin, Candidate, Entry, short};
use holdup_model::{Availability, Event, Observer, Problem, ProblemKind, Trial, TrialStatus};
use holdup_plan::Overrides;
use holdup_search::{Ahead, Log, Repository, Steps};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a search runs its trials with.
pub(super) struct Worker<'a> {
    pub(super) args: &'a Args,
    pub(super) host: &'a Host,
    world: &'a World,
    pub(super) folder: PathBuf,
    pub(super) repository: Option<Repository>,
    pub(super) options: Options,
    cancel: Cancel,
    /// What of the plan the candidates are values of.
    pub(super) key: String,
    pub(super) followed: Option<Followed>,
    /// With `--build-ahead`.
    ahead: Option<Ahead>,
}

impl<'a> Worker<'a> {
    /// Checks all that can be known before anything runs.
    pub(super) fn new(args: &'a Args, host: &'a Host, world: &'a World, folder: &Path) -> Result<Self, Problem> {
        let cancel = signals::cancel_on_signals()?;
        let options = Options { cancel: Some(cancel.flag()), ..args.place.kernel_options() };
        let git = args.search.git.as_deref();
        let repository = git.map(|dir| Repository::open(dir, folder)).transpose()?;
        let mut worker = Worker {
            args,
            host,
            world,
            folder: folder.to_owned(),
            repository,
            options,
            cancel,
            key: String::new(),
            followed: None,
            ahead: None,
        };
        let planned = worker.plan_for(&[], |_| {}).map_err(|problem| candidates::with_rates(args, problem))?;
        worker.key = candidates::key(args, &planned.plan)?;
        worker.followed = Some(candidates::followed(args, &planned.plan)?);
        worker.check_collector(&planned)?;
        worker.ahead = worker.begin_ahead()?;
        Ok(worker)
    }

    /// What makes candidates ready. Packaged kernels are fetched when they boot, or ahead.
    fn builder(&self, is_ahead: bool) -> Builder {
        let kernels = self.key == KERNEL && (is_ahead || self.repository.is_some());
        Builder {
            repository: self.repository.clone(),
            build: self.args.search.build.clone(),
            options: self.options.clone(),
            kernels: kernels.then(|| self.args.place.cache()),
        }
    }

    fn begin_ahead(&self) -> Result<Option<Ahead>, Problem> {
        if !self.args.search.build_ahead {
            return Ok(None);
        }
        let builder = self.builder(true);
        if builder.repository.is_none() && builder.kernels.is_none() {
            return Err(Problem::usage("--build-ahead", "nothing is built here").hint("it is for --git and --kernels"));
        }
        let (key, repository) = (self.key.clone(), self.repository.clone());
        Ok(Some(builder.ahead(move |candidate| value(&key, repository.as_ref(), candidate))))
    }

    /// Refuses a metric whose collector cannot work here, as far as that is known without a guest.
    fn check_collector(&self, planned: &Planned) -> Result<(), Problem> {
        let Some(rate) = candidates::rate(self.args) else { return Ok(()) };
        let ready = self.args.place.preview(&planned.plan, &planned.schedule, self.host, self.cancel.clone());
        let state = ready.ok().and_then(|r| r.collectors.into_iter().find(|c| c.id == rate.collector));
        match state.map(|state| state.availability) {
            Some(Availability::Unavailable { reason, remedy }) => {
                let problem = Problem::host(format!("metric {}, collector {}", rate.id, rate.collector), reason);
                Err(match remedy {
                    Some(remedy) => problem.hint(remedy),
                    None => problem,
                })
            }
            _ => Ok(()),
        }
    }

    /// Builds nothing ahead any more.
    pub(super) fn end_ahead(&mut self) {
        self.ahead = None;
    }

    pub(super) fn followed(&self) -> Result<&Followed, Problem> {
        self.followed.as_ref().ok_or_else(|| Problem::internal("the search", "it follows nothing yet"))
    }

    /// The plan with the candidates at these values: one for a step, several to compare them.
    pub(super) fn plan_for(&self, values: &[String], change: impl Fn(&mut Overrides)) -> Result<Planned, Problem> {
        let args = self.args;
        let mut overrides = args.design.overrides(args.place.changes());
        if !overrides.vary.is_empty() {
            return Err(Problem::usage("--vary", "a search varies its candidates and nothing else").hint("--set KEY=V"));
        }
        let escaped = |value: &String| value.replace(',', "\\,");
        if !values.is_empty() {
            let pair = (self.key.clone(), values.iter().map(escaped).collect::<Vec<_>>().join(","));
            match values.len() {
                1 => overrides.set.push(pair),
                _ => overrides.vary.push(pair),
            }
        }
        // A plan of guests names a kernel.
        let kernels = args.search.kernels.as_deref().map(|range| range.split("..").next().unwrap_or_default());
        let kernel = kernels.or(args.search.kernel_commits.then_some(OF_HOST));
        if let (true, Some(kernel)) = (values.is_empty(), kernel) {
            overrides.set.push((KERNEL.to_owned(), kernel.to_owned()));
        }
        change(&mut overrides);
        let metrics = candidates::metrics_of_plan(args);
        let plan_with =
            |overrides: &Overrides| plan_of((args.file(), args.workload()), &metrics, overrides, self.world);
        let (mut plan, mut source) = plan_with(&overrides)?;
        if let Some(rate) = candidates::rate(args)
            && !(overrides.collect.is_some() && plan.collectors.iter().any(|id| id == rate.collector))
        {
            // Collectors that were not asked for would disturb the trials.
            let is_asked = plan.collectors != holdup_target::vocabulary().default_collectors;
            let asked = if is_asked { plan.collectors } else { Vec::new() };
            let others = asked.into_iter().filter(|id| id != rate.collector);
            overrides.collect = Some(others.chain([rate.collector.to_owned()]).collect());
            (plan, source) = plan_with(&overrides)?;
        }
        let schedule = holdup_plan::schedule(&plan)?;
        Ok(Planned { plan, source, schedule })
    }

    /// One arm, this many trials.
    fn step(&self, value: String, trials: u32) -> Result<Planned, Problem> {
        let planned = self.plan_for(&[value], |overrides| {
            overrides.set.push(("aa".to_owned(), "false".to_owned()));
            overrides.max_blocks = None;
            overrides.blocks = Some(trials);
            overrides.sessions = Some(1);
        })?;
        if planned.schedule.arms.len() > 1 {
            let why = format!("it has {} arms, and a search varies its candidates alone", planned.schedule.arms.len());
            return Err(Problem::usage("the plan", why).hint("--set KEY=V chooses one value of what it varies"));
        }
        Ok(planned)
    }

    /// The first line of the log: the candidates, and what is measured of them.
    pub(super) fn begin(&self, command: Vec<String>) -> Result<Begin, Problem> {
        self.begin_with(candidates::all(self)?, command)
    }

    /// The first line of a log with these candidates.
    pub(super) fn begin_with(&self, all: Vec<Candidate>, command: Vec<String>) -> Result<Begin, Problem> {
        // A plan that cannot be is refused before anything is built.
        let planned = self.step(self.value(&all[0]), 1)?;
        if self.args.search.values.is_some() {
            all.iter().try_for_each(|candidate| self.step(candidate.name.clone(), 1).map(drop))?;
        }
        let metric = &self.followed()?.metric;
        let folder = std::env::current_dir().map_err(|e| Problem::host("this folder", e.to_string()))?;
        Ok(Begin {
            format: FORMAT,
            command,
            folder: folder.display().to_string(),
            began_unix_ns: holdup_watch::unix_ns(),
            plan: planned.source,
            metric: metric.id.clone(),
            unit: metric.unit.clone(),
            better: metric.better,
            look_for: self.args.search.look_for,
            least: self.args.search.least,
            key: self.key.clone(),
            candidates: all,
        })
    }

    /// What stands for a candidate in a plan.
    pub(super) fn value(&self, candidate: &Candidate) -> String {
        value(&self.key, self.repository.as_ref(), candidate)
    }

    /// What stands for a tree in a plan.
    pub(super) fn value_of_tree(&self, tree: &Path) -> String {
        value_of_tree(&self.key, tree)
    }

    /// The options that search these ranges; a range is from the last candidate before a change to the first one behind it.
    pub(super) fn ranges(&self, all: &[Candidate], ranges: &[(usize, usize)]) -> Vec<String> {
        let of = |(from, to): &(usize, usize)| {
            let (from, to) = (short(&all[*from].name), short(&all[*to].name));
            let search = &self.args.search;
            if self.repository.is_some() {
                format!("--range {from}..{to}")
            } else if search.kernels.is_some() {
                format!("--kernels {from}..{}", to.trim_start_matches("debian:"))
            } else {
                format!("--values {}={from}..{to}", self.key)
            }
        };
        ranges.iter().map(of).collect()
    }

    /// The host, and what plans are checked against.
    pub(super) fn at(&self) -> (&'a Host, &'a World) {
        (self.host, self.world)
    }

    /// Runs what is planned, and writes its bundle to `out`.
    pub(super) fn run(&self, planned: &Planned, out: &Path, observer: &mut dyn Observer) -> Result<(), Problem> {
        let place = (&self.args.place, Duration::ZERO);
        let ran = planned.run::<Entry>(place, self.at(), (out, &self.folder), self.cancel.clone(), observer);
        // What boots is the candidate, so a guest that does not come up, before the first trial even, is its fault.
        let outcome = ran.map_err(|problem| match problem.kind {
            ProblemKind::Host if is_chosen_at_boot(&self.key) && problem.what.contains("guest with ") => {
                problem.of_kind(ProblemKind::Trial)
            }
            _ => problem,
        })?;
        match outcome.ending {
            Ending::Failed { reason } => Err(Problem::trial("the run ended early", reason)),
            _ => Ok(()),
        }
    }

    /// A bundle beneath the folder of the search that does not exist.
    pub(super) fn free_bundle(&self, name: &str) -> PathBuf {
        bundles::free_name(self.folder.join(name))
    }

    /// Removes what was built, but for these commits.
    pub(super) fn clear_but(&self, kept: &[&str]) -> Result<(), Problem> {
        self.repository.as_ref().map_or(Ok(()), |repository| repository.clear_but(kept))
    }

    /// Removes what was built.
    pub(super) fn clear(&self) -> Result<(), Problem> {
        self.repository.as_ref().map_or(Ok(()), Repository::clear)
    }
}

fn value(key: &str, repository: Option<&Repository>, candidate: &Candidate) -> String {
    match repository {
        Some(repository) => value_of_tree(key, &repository.tree(&candidate.name)),
        None => candidate.name.clone(),
    }
}

fn value_of_tree(key: &str, tree: &Path) -> String {
    let kind = match key {
        holdup_catalogue::pgbench::BUILD => "dir:",
        KERNEL => "build:",
        _ => "",
    };
    format!("{kind}{}", tree.display())
}

/// Adds each trial that counts to the log when it ends.
struct Recorder<'a> {
    log: &'a mut Log,
    observer: &'a mut dyn Observer,
    candidate: &'a str,
    followed: &'a Followed,
    bundle: String,
    since: Instant,
    counted: u32,
    /// Why the last trial does not count, or cannot be written down.
    void: Option<Problem>,
    unwritable: Option<Problem>,
}

impl Recorder<'_> {
    fn take(&mut self, trial: &Trial) {
        if let TrialStatus::Void { reason } = &trial.status {
            self.void = Some(Problem::trial("the trial", reason.clone()));
            return;
        }
        let value = match self.followed.value(trial) {
            Ok(value) => value,
            Err(why) => {
                self.void = Some(Problem::trial(format!("metric {}", self.followed.metric.id), why));
                return;
            }
        };
        let entry = Entry::Trial {
            candidate: self.candidate.to_owned(),
            value,
            bundle: self.bundle.clone(),
            spent_s: self.since.elapsed().as_secs_f64(),
            ended_unix_ns: trial.ended_unix_ns,
        };
        self.since = Instant::now();
        self.counted += 1;
        if let Err(problem) = self.log.add(entry) {
            self.unwritable = Some(problem);
        }
    }
}

impl Observer for Recorder<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::TrialEnd { trial, .. } => self.take(trial),
            // Each step is a run, but not one of the user's.
            Event::Begin { .. } | Event::TrialBegin { .. } | Event::End => {}
            Event::Step(_) | Event::Note(_) => self.observer.event(event),
        }
    }
}

impl Steps for Worker<'_> {
    fn keep(&mut self, kept: &[&str]) -> Result<(), Problem> {
        if let Some(ahead) = &self.ahead {
            ahead.keep(kept);
        }
        self.clear_but(kept)
    }

    fn prepare(&mut self, candidate: &Candidate, observer: &mut dyn Observer) -> Result<Option<f64>, Problem> {
        let taken = self.ahead.as_ref().and_then(|ahead| {
            if ahead.builds(&candidate.name) {
                observer.event(Event::Step(&format!("the build of {}, begun ahead", short(&candidate.name))));
            }
            ahead.take(&candidate.name, &self.cancel.flag())
        });
        match taken {
            Some(made) => made,
            None => self.builder(false).make(candidate, &self.value(candidate), observer),
        }
    }

    fn expect(&mut self, likely: &[&Candidate]) {
        if let Some(ahead) = &self.ahead {
            ahead.want(likely);
        }
    }

    fn measure(
        &mut self,
        candidate: &Candidate,
        trials: u32,
        log: &mut Log,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem> {
        let planned = self.step(self.value(candidate), trials)?;
        let out = self.free_bundle("step");
        let bundle = out.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut recorder = Recorder {
            log,
            observer,
            candidate: &candidate.name,
            followed: self.followed()?,
            bundle,
            since: Instant::now(),
            counted: 0,
            void: None,
            unwritable: None,
        };
        let ran = self.run(&planned, &out, &mut recorder);
        let Recorder { counted, void, unwritable, .. } = recorder;
        match (unwritable, ran) {
            (Some(problem), _) => Err(problem),
            // What was measured before a session broke counts.
            (None, Err(problem)) if problem.kind == ProblemKind::Trial && counted > 0 => Ok(()),
            (None, Err(problem)) => Err(problem),
            (None, Ok(())) if counted == 0 => {
                Err(void.unwrap_or_else(|| Problem::trial(format!("candidate {}", candidate.name), "no trial counts")))
            }
            (None, Ok(())) => Ok(()),
        }
    }
}
