//! `holdup run --on slurm`: the plan in parts on a cluster, and the parts as one bundle.

use super::{Args, Run, end, target, verdicts};
use crate::progress::Progress;
use crate::world::World;
use crate::{bundles, output, signals};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::bundle::Ending;
use holdup_model::plan::StopRule;
use holdup_model::{Event, Fact, Machine, Observer, Plan, Problem, ProblemKind, Schedule};
use holdup_slurm::{Collected, Follow, Job, Needs, Options, Partition, RunFolder, Slurm};
use holdup_target::{
    Added, Begun, Earlier, GuestOptions, Merger, NotAdded, Part, RunOutcome, RunRequest, SessionRequest,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

// Where parts of a run are run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Slurm options")]
pub(super) struct ClusterArgs {
    /// Run in parts on a cluster: slurm[:PARTITION]
    #[arg(long, value_name = "CLUSTER", global = true, hide_short_help = true)]
    on: Option<String>,
    /// The folder of the run, which all nodes see [default: FILE.slurm]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    state: Option<PathBuf>,
    /// Cut a simulation into N parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), global = true, hide_short_help = true)]
    parts: Option<u32>,
    /// Give this option to sbatch, too (repeatable)
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, global = true, hide_short_help = true)]
    slurm_option: Vec<String>,
    /// Continue the run in this folder
    #[arg(long = "continue", value_name = "DIR", global = true, hide_short_help = true)]
    resume: Option<PathBuf>,
    /// With --continue: cancel its jobs
    #[arg(long, requires = "resume", global = true, hide_short_help = true)]
    cancel: bool,
    /// Run this part: what the jobs do
    #[arg(long, requires = "of", global = true, hide = true)]
    part: Option<u32>,
    #[arg(long, requires = "part", global = true, hide = true)]
    of: Option<PathBuf>,
}

/// A cluster, and what of it is used.
pub(super) struct Cluster {
    slurm: Slurm,
    partition: Partition,
    /// Whether the user named the partition.
    is_named: bool,
}

impl Cluster {
    /// What relative sizes are relative to: the smallest node.
    pub(super) fn machine(&self) -> Machine {
        let Partition { node_cpus, node_memory_mb, .. } = self.partition;
        Machine { cpus: node_cpus, memory_bytes: node_memory_mb << 20 }
    }
}

impl ClusterArgs {
    /// The cluster that was named.
    ///
    /// # Errors
    /// When there is no such cluster, or it cannot be asked.
    pub(super) fn chosen(&self) -> Result<Option<Cluster>, Problem> {
        let Some(on) = &self.on else {
            let given = [
                (self.state.is_some(), "--state"),
                (self.parts.is_some(), "--parts"),
                (!self.slurm_option.is_empty(), "--slurm-option"),
            ];
            return match given.iter().find(|(is_given, _)| *is_given) {
                Some((_, option)) => Err(Problem::usage(*option, "it is for runs on a cluster").hint("add --on slurm")),
                None => Ok(None),
            };
        };
        let (kind, partition) =
            on.split_once(':').map_or((on.as_str(), None), |(kind, partition)| (kind, Some(partition)));
        if kind != "slurm" {
            return Err(Problem::usage(format!("--on {on}"), "there is no such cluster").hint("--on slurm[:PARTITION]"));
        }
        let slurm = Slurm;
        let is_named = partition.is_some();
        Ok(Some(Cluster { slurm, partition: slurm.partition(partition)?, is_named }))
    }
}

/// What needs no plan on the command line: a part of a run, or one that is continued.
pub(super) fn without_plan(args: &Args) -> anyhow::Result<Option<u8>> {
    let ClusterArgs { resume, cancel, part, of, .. } = &args.cluster;
    if let (Some(part), Some(of)) = (part, of) {
        return run_part(*part, of).map(Some).map_err(Into::into);
    }
    let Some(folder) = resume else { return Ok(None) };
    if args.planned.is_given() || args.out.is_some() || args.cluster.on.is_some() {
        return Err(Problem::usage(
            "--continue",
            "the plan, the bundle and the cluster are those of the run that it continues",
        )
        .hint("leave everything else out")
        .into());
    }
    let (folder, job) = RunFolder::open(folder)?;
    if *cancel {
        Slurm.cancel(&job.name())?;
        output::say(&format!("its jobs are cancelled; what they did is kept in {}", folder.path().display()));
        return Ok(Some(0));
    }
    follow(args, folder, &job).map(Some)
}

/// Cuts a plan, submits its parts and follows them.
pub(super) fn run(
    args: &Args,
    cluster: &Cluster,
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
    let (parts, needs) = match is_simulated {
        true => simulated(args, cluster, (plan, schedule), host, cancel)?,
        false => measured(args, plan, schedule)?,
    };
    let begun_unix_ns = holdup_watch::unix_ns();
    let run_id = format!("{begun_unix_ns:016x}{:08x}", std::process::id());
    let partition = cluster.is_named.then_some(cluster.partition.name.as_str());
    let out = args.out.clone().unwrap_or_else(|| bundles::free_name(&plan.name));
    let out = std::path::absolute(&out).unwrap_or(out);
    let given = &args.cluster.slurm_option;
    holdup_slurm::check_time(&needs, &cluster.partition, given)?;
    let sbatch = holdup_slurm::arguments(&format!("holdup-{run_id}"), partition, &needs, given);
    if args.dry_run {
        return dry_run(plan, schedule, parts.len(), &sbatch);
    }
    if out.symlink_metadata().is_ok() {
        return Err(holdup_bundle::taken(&out).into());
    }
    let state = args.cluster.state.clone().unwrap_or_else(|| with_suffix(&out, ".slurm"));
    let job = Job {
        run_id,
        begun_unix_ns,
        holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: plan.clone(),
        plan_source: source.to_owned(),
        command: std::env::args().collect(),
        notes,
        machine: holdup_target::machine_of(host, &plan.target)?.unwrap_or(world.machine),
        out,
        working_folder: std::env::current_dir()?,
        is_simulated,
        parts,
        sbatch,
        options: args.place.of_nodes(),
    };
    let machine = if is_simulated { holdup_target::machine_text(host, &plan.target)? } else { None };
    let folder = RunFolder::create(&state, &job, &std::env::current_exe()?, machine.as_deref())?;
    if !args.quiet {
        let trials = schedule.trials.len();
        output::say(&format!("{trials} trials in {} parts; folder {}", job.parts.len(), folder.path().display()));
    }
    follow(args, folder, &job)
}

/// How long a part of a simulation takes at least, so that starting it is a small share.
const LEAST_PART: Duration = Duration::from_secs(10);
/// How many parts each CPU gets: the last ones to end leave fewer CPUs idle then.
const PARTS_OF_A_CPU: u32 = 4;
/// How long this host computes trials to know what they cost.
const LOOK: Duration = Duration::from_secs(4);
/// What a trial is taken to cost that takes longer than that.
const LONG_TRIAL: Duration = Duration::from_secs(60);

/// The parts of a simulation: as many as keep all CPUs of the partition busy.
fn simulated(
    args: &Args,
    cluster: &Cluster,
    (plan, schedule): (&Plan, &Schedule),
    host: &Host,
    cancel: Cancel,
) -> Result<(Vec<holdup_slurm::Span>, Needs), Problem> {
    let (guests, postgres) = (GuestOptions::default(), PostgresOptions::default());
    let request = SessionRequest {
        client: None,
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
    let all = cost.saturating_mul(trials);
    let by_cpus = cluster.partition.usable_cpus.max(1).saturating_mul(PARTS_OF_A_CPU);
    let by_time = u32::try_from(all.as_secs() / LEAST_PART.as_secs()).unwrap_or(u32::MAX).max(1);
    let most = args.cluster.parts.unwrap_or(by_cpus.min(by_time)).min(cluster.slurm.largest_index() + 1);
    let parts = holdup_slurm::cut(schedule, true, most);
    let largest = parts.iter().map(|part| part.len()).max().unwrap_or(0);
    Ok((parts, Needs { time: cost.saturating_mul(largest), is_simulated: true }))
}

/// The parts of a plan that is measured: its sessions.
fn measured(args: &Args, plan: &Plan, schedule: &Schedule) -> Result<(Vec<holdup_slurm::Span>, Needs), Problem> {
    if args.cluster.parts.is_some() {
        return Err(Problem::usage("--parts", "what is measured is cut between its sessions").hint("--sessions N"));
    }
    let parts = holdup_slurm::cut(schedule, false, 0);
    let time = |part: &holdup_slurm::Span| {
        holdup_plan::estimate_ns(plan, &part.of(schedule), &holdup_plan::Overhead::default())
    };
    let longest = parts.iter().map(time).max().unwrap_or(0);
    Ok((parts, Needs { time: Duration::from_nanos(longest), is_simulated: false }))
}

fn dry_run(plan: &Plan, schedule: &Schedule, parts: usize, sbatch: &[String]) -> anyhow::Result<u8> {
    let estimate_ns = holdup_plan::estimate_ns(plan, schedule, &holdup_plan::Overhead::default());
    output::data(&holdup_report::dry_run(plan, schedule, estimate_ns, &[]))?;
    output::data(&format!("sbatch {} --array=0-{} job.sh", sbatch.join(" "), parts.saturating_sub(1)))?;
    Ok(0)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Follows a run to its end, prints its result as a run on this host does, and removes its folder.
fn follow(args: &Args, folder: RunFolder, job: &Job) -> anyhow::Result<u8> {
    let held = folder.hold()?;
    let cancel = signals::cancel_on_signals()?;
    let merged = merge(&folder, job, &cancel, &mut Progress::new(args.quiet)).map_err(|p| continued(p, &folder))?;
    drop(held);
    if let Err(e) = folder.remove() {
        output::say(&format!("the folder of the run cannot be removed whole: {e}"));
    }
    if !args.quiet {
        verdicts(&job.out, args.details)?;
    }
    Ok(end(&job.out, &merged))
}

/// The same problem, with how the run is continued.
fn continued(problem: Problem, folder: &RunFolder) -> Problem {
    let again = format!("holdup run --continue {}", folder.path().display());
    let hint = match (problem.kind, &problem.hint) {
        (ProblemKind::Interrupted, _) => {
            format!("its jobs continue: follow them with `{again}`, or end them with `{again} --cancel`")
        }
        (_, Some(hint)) => format!("{hint}\nwhat was done is kept, and `{again}` does the rest"),
        (_, None) => format!("what was done is kept, and `{again}` does the rest"),
    };
    problem.hint(hint)
}

/// Follows the jobs and merges their parts as they come.
fn merge(folder: &RunFolder, job: &Job, cancel: &Cancel, observer: &mut dyn Observer) -> Result<RunOutcome, Problem> {
    let schedule = holdup_plan::schedule(&job.plan)?;
    let host = Host::real();
    let request =
        RunRequest { notes: job.notes.clone(), ..request(job, (&job.plan, &schedule), &host, &job.out, cancel) };
    let begun = Begun { run_id: job.run_id.clone(), unix_ns: job.begun_unix_ns };
    let mut merger = Merger::new(&request, begun.clone())?;
    let is_cancelled = || cancel.is_cancelled();
    let following = Follow { slurm: Slurm, folder, job, is_cancelled: &is_cancelled };
    holdup_slurm::follow(&following, observer, &mut |_, part| match merger.add(part) {
        Ok(Added::Whole) => Ok(Collected::Whole),
        Ok(Added::Decides) => Ok(Collected::Decides),
        Err(NotAdded::Damaged(problem)) => {
            merger = Merger::new(&request, begun.clone())?;
            Ok(Collected::Damaged(problem))
        }
        Err(NotAdded::Unwritable(problem)) => Err(problem),
    })?;
    observer.event(Event::End);
    let outcome = merger.finish()?;
    let left = folder.whole().into_iter().filter_map(|part| folder.problem(part)).map(|problem| problem.to_string());
    Ok(RunOutcome { left: left.collect(), ..outcome })
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

/// Runs a part: what a task of the array does on its node. Its bundle is whole or not there.
fn run_part(number: u32, folder: &Path) -> Result<u8, Problem> {
    let (folder, job) = RunFolder::open(folder)?;
    let ran = part(number, &folder, &job);
    if let Err(problem) = &ran
        && problem.kind != ProblemKind::Interrupted
    {
        folder.write_problem(number, problem);
    }
    ran
}

fn part(number: u32, folder: &RunFolder, job: &Job) -> Result<u8, Problem> {
    let Some(span) = job.parts.get(number as usize) else {
        return Err(Problem::usage(format!("part {number}"), format!("the run has {} parts", job.parts.len())));
    };
    if folder.part(number).exists() {
        return Ok(0);
    }
    folder.forget_problem(number);
    let variable = |name: &str| std::env::var(name).ok();
    let schedule = span.of(&holdup_plan::schedule(&job.plan)?);
    let mut plan = job.plan.clone();
    // Whether there is enough is decided over all parts, where they become one bundle.
    plan.design.stop = StopRule::Blocks;
    if let Some(machine) = folder.machine() {
        plan.target = format!("sim:{}", machine.display());
    }
    let node = variable("SLURMD_NODENAME");
    let here = node.clone().unwrap_or_else(|| "another node".to_owned());
    let why_void = format!("the attempt at this session ended early; it was repeated on {here}");
    let earlier = folder.partials(number).into_iter().map(|path| Earlier { path, why_void: why_void.clone() });
    let source = "the environment variable SLURMD_NODENAME";
    let fact = match node {
        Some(node) => Fact::read("slurm.node", node, source),
        None => Fact::absent("slurm.node", source, "it is not set"),
    };
    let threads = variable("SLURM_CPUS_PER_TASK").and_then(|count| count.parse().ok()).unwrap_or(1);
    let part = Part { earlier: earlier.collect(), facts: vec![fact], threads: Some(threads) };
    // Slurm sets the count of restarts from the first one on.
    let attempt = ["SLURM_JOB_ID", "SLURM_RESTART_COUNT"].map(|name| variable(name).unwrap_or_else(|| "0".to_owned()));
    let partial = folder.partial(number, &format!("{}.{}", attempt.join("."), std::process::id()));
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
