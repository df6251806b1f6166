//! `holdup run --on slurm`: the plan in parts on a cluster, and the parts as one bundle.

use super::{Args, Run, show, target};
use crate::cluster::{
    Cluster, ClusterArgs, Earlier, LOOK, Work, again, attempt, continued, plan_of_node, removed, threads_of_task,
};
use crate::commands::predict;
use crate::progress::Progress;
use crate::world::World;
use crate::{bundles, output, signals};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::bundle::Ending;
use holdup_model::plan::StopRule;
use holdup_model::{Event, Fact, Observer, Plan, Problem, ProblemKind, Schedule};
use holdup_slurm::{Collected, Follow, Job, Kind, Options, Piece, RunFolder, Slurm, Span};
use holdup_target::{
    Added, Begun, Earlier as EarlierAttempt, GuestOptions, Merger, NotAdded, Part, RunOutcome, RunRequest,
    SessionRequest,
};
use std::path::Path;
use std::time::Duration;

/// What needs no plan on the command line: a part of a run, or one that is continued.
pub(super) fn without_plan(args: &Args) -> anyhow::Result<Option<u8>> {
    match args.cluster.earlier(args.planned.is_given() || args.out.is_some())? {
        None => Ok(None),
        Some(Earlier::Cancelled) => Ok(Some(0)),
        Some(Earlier::Part(number, folder)) => Ok(Some(run_part(number, &folder)?)),
        Some(Earlier::Run(folder, job)) => match job.kind {
            Kind::Run => follow(args, folder, &job).map(Some),
            Kind::Predict { .. } => {
                Err(Problem::usage("--continue", "it is a prediction").hint(again(&folder, &job)).into())
            }
        },
    }
}

/// Cuts a plan, submits its parts and follows them.
pub(super) fn run(
    args: &Args,
    cluster: &mut Cluster,
    planned: Run<'_>,
    (host, world): (&Host, &World),
) -> anyhow::Result<u8> {
    let Run { plan, source, schedule, notes, .. } = planned;
    let cancel = signals::cancel_on_signals()?;
    let is_simulated = target(plan)?.is_simulated();
    if args.place.guests.parallel > 1 {
        return Err(Problem::usage("--parallel", "a node of a cluster runs one session at a time").into());
    }
    if args.place.target.pg.is_some() {
        return Err(Problem::usage("--pg", "sessions on several nodes would load one server at the same time")
            .hint("leave it out: each node starts a server of its own")
            .into());
    }
    let parts = match is_simulated {
        true => simulated(args, cluster, (plan, schedule), host, cancel)?,
        false => measured(args, cluster, plan, schedule)?,
    };
    let named = ClusterArgs::name_run();
    let sbatch = cluster.sbatch(&args.cluster, &format!("holdup-{}", named.0))?;
    if args.dry_run {
        return dry_run(plan, schedule, parts.len(), &sbatch);
    }
    let out = args.out.clone().unwrap_or_else(|| bundles::free_name(&plan.name));
    let out = std::path::absolute(&out).unwrap_or(out);
    if out.symlink_metadata().is_ok() {
        return Err(holdup_bundle::taken(&out).into());
    }
    let work = Work {
        kind: Kind::Run,
        plan,
        source,
        notes,
        machine: holdup_target::machine_of(host, &plan.target)?.unwrap_or(world.machine),
        is_simulated,
        out: out.clone(),
        options: args.place.of_nodes(),
        parts,
    };
    let (folder, job) = args.cluster.begin(work, named, (sbatch, host, &out))?;
    if !args.quiet {
        let trials = schedule.trials.len();
        output::say(&format!("{trials} trials in {} parts; folder {}", job.parts.len(), folder.path().display()));
    }
    follow(args, folder, &job)
}

/// What a trial is taken to cost that takes longer than this host looks.
const LONG_TRIAL: Duration = Duration::from_secs(60);

/// The parts of a simulation: as many as keep all CPUs of the partition busy.
fn simulated(
    args: &Args,
    cluster: &mut Cluster,
    (plan, schedule): (&Plan, &Schedule),
    host: &Host,
    cancel: Cancel,
) -> Result<Vec<Span>, Problem> {
    let (guests, postgres) = (GuestOptions::default(), PostgresOptions::default());
    let request = SessionRequest {
        clients: None,
        host,
        plan,
        schedule,
        postgres: &postgres,
        workdir: std::env::temp_dir(),
        guests: &guests,
        ssh: &holdup_target::SshOptions::default(),
        boot_cache: holdup_target::BootCache::default(),
        threads: None,
        cancel,
    };
    target(plan)?.ready(&request, &mut Progress::new(true))?;
    let cost = holdup_target::trial_cost(&request, LOOK)?.unwrap_or(LONG_TRIAL);
    let trials = u32::try_from(schedule.trials.len()).unwrap_or(u32::MAX);
    let most = cluster.parts(&args.cluster, host, (cost, trials));
    Ok(holdup_slurm::cut(schedule, true, most))
}

/// The parts of a plan that is measured: its sessions.
fn measured(args: &Args, cluster: &mut Cluster, plan: &Plan, schedule: &Schedule) -> Result<Vec<Span>, Problem> {
    if args.cluster.has_parts() {
        return Err(Problem::usage("--parts", "what is measured is cut between its sessions").hint("--sessions N"));
    }
    let parts = holdup_slurm::cut(schedule, false, 0);
    let time = |part: &Span| holdup_plan::estimate_ns(plan, &part.of(schedule), &holdup_plan::Overhead::default());
    cluster.takes(Duration::from_nanos(parts.iter().map(time).max().unwrap_or(0)));
    Ok(parts)
}

fn dry_run(plan: &Plan, schedule: &Schedule, parts: usize, sbatch: &[String]) -> anyhow::Result<u8> {
    let estimate_ns = holdup_plan::estimate_ns(plan, schedule, &holdup_plan::Overhead::default());
    output::data(&holdup_report::dry_run(plan, schedule, estimate_ns, &[]))?;
    output::data(&format!("sbatch {} --array=0-{} job.sh", sbatch.join(" "), parts.saturating_sub(1)))?;
    Ok(0)
}

/// Follows a run to its end, prints its result as a run on this host does, and removes its folder. A bundle in which trials are
/// missing leaves the folder, so that the run can be continued.
fn follow(args: &Args, folder: RunFolder, job: &Job) -> anyhow::Result<u8> {
    let held = folder.hold()?;
    let cancel = signals::cancel_on_signals()?;
    let merged =
        merge(&folder, job, &cancel, &mut Progress::new(args.quiet)).map_err(|p| continued(p, &folder, job))?;
    drop(held);
    let (outcome, missing) = merged;
    let code = show(args, &job.out, &outcome);
    match missing {
        Some(problem) => output::problem(&continued(problem, &folder, job)),
        None => removed(folder),
    }
    Ok(code?)
}

/// Follows the jobs and merges their parts as they come. With the bundle, why parts are missing in it, if any are.
fn merge(
    folder: &RunFolder,
    job: &Job,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<(RunOutcome, Option<Problem>), Problem> {
    let schedule = holdup_plan::schedule(&job.plan)?;
    let host = Host::real();
    let request =
        RunRequest { notes: job.notes.clone(), ..request(job, (&job.plan, &schedule), &host, &job.out, cancel) };
    let replaces = folder.is_partial(&job.out);
    let begun = Begun { run_id: job.run_id.clone(), unix_ns: job.begun_unix_ns, replaces };
    let mut merger = Merger::new(&request, begun.clone())?;
    let is_cancelled = || cancel.is_cancelled();
    let following = Follow { slurm: Slurm, folder, job, is_cancelled: &is_cancelled };
    let missing = holdup_slurm::follow(&following, observer, &mut |number, piece| {
        let added = match piece {
            Piece::Whole(part) => merger.add(part),
            Piece::Missing(problem) => {
                let trials = job.parts.get(number as usize).map(|span| span.of(&schedule).trials).unwrap_or_default();
                merger.miss(&trials, problem)?;
                return Ok(Collected::Whole);
            }
        };
        match added {
            Ok(Added::Whole) => Ok(Collected::Whole),
            Ok(Added::Decides) => Ok(Collected::Decides),
            Err(NotAdded::Damaged(problem)) => {
                merger = Merger::new(&request, begun.clone())?;
                Ok(Collected::Damaged(problem))
            }
            Err(NotAdded::Unwritable(problem)) => Err(problem),
        }
    })?;
    observer.event(Event::End);
    let outcome = merger.finish()?;
    if missing.is_some() {
        let noted = |e: std::io::Error| Problem::host(format!("bundle {}", job.out.display()), e.to_string());
        folder.note_partial(&job.out).map_err(noted)?;
    }
    let left = folder.whole().into_iter().filter_map(|part| folder.problem(part)).map(|problem| problem.to_string());
    Ok((RunOutcome { left: left.collect(), ..outcome }, missing))
}

/// A run of the whole schedule of a job, or of a part of it.
fn request<'a>(
    job: &'a Job,
    (plan, schedule): (&'a Plan, &'a Schedule),
    host: &'a Host,
    out: &'a Path,
    cancel: &Cancel,
) -> RunRequest<'a> {
    let Options { pg_bin, pg, workdir, cache, mirror, offline } = job.options.clone();
    RunRequest {
        host,
        plan,
        plan_source: &job.plan_source,
        schedule,
        machine: job.machine,
        out,
        command: job.command.clone(),
        notes: Vec::new(),
        postgres: PostgresOptions { bin: pg_bin, url: pg, ..PostgresOptions::default() },
        workdir: workdir.unwrap_or_else(std::env::temp_dir),
        guests: GuestOptions { cache, mirror, offline, parallel: 1 },
        ssh: holdup_target::SshOptions::default(),
        wait: WAIT,
        part: None,
        cancel: cancel.clone(),
        is_decided: &holdup_analysis::is_decided,
    }
}

/// How long a part waits for another run on its node; the limit of its job ends it earlier.
const WAIT: Duration = Duration::from_secs(3600);

/// Runs a part: what a task of the array does on its node. What it makes is whole or not there.
fn run_part(number: u32, folder: &Path) -> Result<u8, Problem> {
    let (folder, job) = RunFolder::open(folder)?;
    if folder.part(number).exists() {
        return Ok(0);
    }
    folder.forget_problem(number);
    let span = job
        .parts
        .get(number as usize)
        .copied()
        .ok_or_else(|| Problem::usage(format!("part {number}"), format!("the run has {} parts", job.parts.len())));
    let ran = span.and_then(|span| match &job.kind {
        Kind::Run => part(number, span, &folder, &job),
        Kind::Predict { draws, reach } => predict::part((number, span), &folder, &job, (*draws, reach)),
    });
    if let Err(problem) = &ran
        && problem.kind != ProblemKind::Interrupted
    {
        folder.write_problem(number, problem);
    }
    ran
}

fn part(number: u32, span: Span, folder: &RunFolder, job: &Job) -> Result<u8, Problem> {
    let schedule = span.of(&holdup_plan::schedule(&job.plan)?);
    let mut plan = plan_of_node(folder, job);
    // Whether there is enough is decided over all parts, where they become one bundle.
    plan.design.stop = StopRule::Blocks;
    let node = std::env::var("SLURMD_NODENAME").ok();
    let here = node.clone().unwrap_or_else(|| "another node".to_owned());
    let why_void = format!("the attempt at this session ended early; it was repeated on {here}");
    let earlier = folder.partials(number).into_iter().map(|path| EarlierAttempt { path, why_void: why_void.clone() });
    let source = "the environment variable SLURMD_NODENAME";
    let fact = match node {
        Some(node) => Fact::read("slurm.node", node, source),
        None => Fact::absent("slurm.node", source, "it is not set"),
    };
    let part = Part { earlier: earlier.collect(), facts: vec![fact], threads: Some(threads_of_task()) };
    let partial = folder.partial(number, &attempt());
    let (host, cancel) = (Host::real(), signals::cancel_on_signals()?);
    let request = RunRequest { part: Some(part), ..request(job, (&plan, &schedule), &host, &partial, &cancel) };
    let outcome = holdup_target::run(&request, &mut Progress::new(job.is_simulated))?;
    match outcome.ending {
        Ending::Interrupted => return Err(Problem::interrupted(format!("part {number}"))),
        Ending::Failed { reason } => return Err(Problem::host("the run ended early", reason)),
        Ending::Complete | Ending::Decided | Ending::Budget => folder.keep(number, &partial)?,
    }
    match outcome.left.is_empty() {
        true => Ok(0),
        false => Err(Problem::new(ProblemKind::NotRestored, format!("node {here}"), outcome.left.join("; "))),
    }
}
