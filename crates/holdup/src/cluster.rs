//! `--on slurm`: what the commands have in common that run in parts on a cluster.

use crate::output;
use holdup_host::{Host, meminfo};
use holdup_model::{Machine, Plan, Problem, ProblemKind};
use holdup_slurm::{Job, Kind, Needs, Options, Partition, RunFolder, Slurm, Span, Stage};
use std::path::{Path, PathBuf};
use std::time::Duration;

// Where parts of a run are run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Slurm options")]
pub(crate) struct ClusterArgs {
    /// Run in parts on a cluster: slurm[:PARTITION]
    #[arg(long, value_name = "CLUSTER", global = true, hide_short_help = true)]
    on: Option<String>,
    /// The folder of the run, which all nodes see [default: FILE.slurm]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    state: Option<PathBuf>,
    /// Bring what the jobs need: nodes share no storage with this host
    ///
    /// The jobs get it by sbcast, in a folder below DIR of their node [default: /tmp], which they remove; parts are fetched by srun.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "/tmp", global = true,
        hide_short_help = true)]
    stage: Option<PathBuf>,
    /// With --stage: bring this file, too, into the working folder (repeatable)
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true)]
    stage_file: Vec<PathBuf>,
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
pub(crate) struct Cluster {
    slurm: Slurm,
    partition: Partition,
    /// True if the user named the partition.
    is_named: bool,
    /// What the plan needs of nodes.
    needs: Needs,
}

/// What a command line is about that names no plan.
pub(crate) enum Earlier {
    /// A part, in the folder of its run.
    Part(u32, PathBuf),
    /// A run that is followed again.
    Run(RunFolder, Box<Job>),
    /// A run whose jobs were cancelled.
    Cancelled,
}

/// What is to be submitted.
pub(crate) struct Work<'a> {
    pub(crate) kind: Kind,
    pub(crate) plan: &'a Plan,
    /// As TOML.
    pub(crate) source: &'a str,
    pub(crate) notes: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) is_simulated: bool,
    /// The bundle; empty for a prediction.
    pub(crate) out: PathBuf,
    pub(crate) options: Options,
    pub(crate) parts: Vec<Span>,
}

/// How long a part of a simulation takes at least, so that starting it is a small share.
const LEAST_PART: Duration = Duration::from_secs(10);
/// How many parts each CPU gets: the last ones to end leave fewer CPUs idle then. Where each part is brought its own copy
/// of holdup, it is one.
const PARTS_OF_A_CPU: u32 = 4;
/// The least memory of a part whose trials are computed, MB.
const LEAST_MB: u64 = 1024;
/// How much more than guests take their host needs, bytes.
const BESIDE_GUESTS: u64 = 2 << 30;
/// How long this host computes trials to know what they cost.
pub(crate) const LOOK: Duration = Duration::from_secs(4);

impl Cluster {
    /// What relative sizes are relative to: the smallest node that has what the plan needs.
    pub(crate) fn machine(&self) -> Machine {
        let Partition { node_cpus, node_memory_mb, .. } = self.partition;
        Machine { cpus: node_cpus, memory_bytes: node_memory_mb << 20 }
    }

    /// Leaves the nodes that have what a plan needs. Guests need their CPUs and memory, unless the plan says more of its nodes.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn narrow(&mut self, plan: &Plan) -> Result<(), Problem> {
        let mut nodes = plan.nodes.clone().unwrap_or_default();
        if let Some(guest) = &plan.guest {
            nodes.cpus = nodes.cpus.or(Some(guest.cpus * guest.machines()));
            let guests = guest.memory_bytes * u64::from(guest.machines());
            nodes.memory_bytes = nodes.memory_bytes.or(Some(guests + BESIDE_GUESTS));
        }
        self.needs.nodes = nodes;
        self.needs.narrow(&mut self.partition)
    }

    /// Into how many parts trials are cut that are computed, by what one of them costs.
    pub(crate) fn parts(&mut self, args: &ClusterArgs, host: &Host, (cost, trials): (Duration, u32)) -> u32 {
        let of_a_cpu = if args.stage.is_some() { 1 } else { PARTS_OF_A_CPU };
        let by_cpus = self.partition.usable_cpus.max(1).saturating_mul(of_a_cpu);
        let by_time = cost.saturating_mul(trials).as_secs() / LEAST_PART.as_secs();
        let by_time = u32::try_from(by_time).unwrap_or(u32::MAX).max(1);
        let parts =
            args.parts.unwrap_or(by_cpus.min(by_time)).min(self.slurm.largest_index() + 1).clamp(1, trials.max(1));
        self.needs.time = cost.saturating_mul(trials.div_ceil(parts));
        // A node computes on one CPU what this host computed for the look: it takes no more memory. Twice that, as later trials may
        // take more.
        let peak = host.read_text("/proc/self/status").ok().and_then(|text| meminfo(&text, "VmHWM"));
        self.needs.computed_mb = Some((peak.unwrap_or(0) >> 19).max(LEAST_MB));
        parts
    }

    /// How long a part that is measured takes.
    pub(crate) fn takes(&mut self, time: Duration) {
        self.needs.time = time;
    }

    /// The command line of sbatch for a run of this name.
    ///
    /// # Errors
    /// When the partition ends jobs too early for it.
    pub(crate) fn sbatch(&self, args: &ClusterArgs, name: &str) -> Result<Vec<String>, Problem> {
        let given = &args.slurm_option;
        let needs = Needs { is_staged: args.stage.is_some(), ..self.needs.clone() };
        holdup_slurm::check_time(&needs, &self.partition, given)?;
        let partition = self.is_named.then_some(self.partition.name.as_str());
        Ok(holdup_slurm::arguments(name, partition, &needs, given))
    }
}

impl ClusterArgs {
    /// The cluster that was named.
    ///
    /// # Errors
    /// When there is no such cluster, or it cannot be asked.
    pub(crate) fn chosen(&self) -> Result<Option<Cluster>, Problem> {
        if !self.stage_file.is_empty() && self.stage.is_none() {
            return Err(
                Problem::usage("--stage-file", "nothing is brought to nodes without --stage").hint("add --stage")
            );
        }
        let Some(on) = &self.on else {
            let given = [
                (self.state.is_some(), "--state"),
                (self.stage.is_some(), "--stage"),
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
        Ok(Some(Cluster { slurm, partition: slurm.partition(partition)?, is_named, needs: Needs::default() }))
    }

    /// What the command line is about without a plan, if it is.
    ///
    /// # Errors
    /// When something else is given too, or there is no such run.
    pub(crate) fn earlier(&self, is_else_given: bool) -> Result<Option<Earlier>, Problem> {
        if let (Some(part), Some(of)) = (self.part, &self.of) {
            return Ok(Some(Earlier::Part(part, of.clone())));
        }
        let Some(folder) = &self.resume else { return Ok(None) };
        if is_else_given || self.on.is_some() {
            let why = "the plan, the bundle and the cluster are those of the run that it continues";
            return Err(Problem::usage("--continue", why).hint("leave everything else out"));
        }
        let (folder, job) = RunFolder::open(folder)?;
        if self.cancel {
            Slurm.cancel(&job.name())?;
            output::say(&format!("its jobs are cancelled; what they did is kept in {}", folder.path().display()));
            return Ok(Some(Earlier::Cancelled));
        }
        Ok(Some(Earlier::Run(folder, Box::new(job))))
    }

    /// True if the user says how many parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// The name of a run that begins now, and when that is, ns since 1970.
    pub(crate) fn name_run() -> (String, i64) {
        let unix_ns = holdup_watch::unix_ns();
        (format!("{unix_ns:016x}{:08x}", std::process::id()), unix_ns)
    }

    /// Makes the folder of a run.
    ///
    /// # Errors
    /// When there is one already, or what is to be brought to nodes is not there.
    pub(crate) fn begin(
        &self,
        work: Work<'_>,
        (run_id, begun_unix_ns): (String, i64),
        (sbatch, host, beside): (Vec<String>, &Host, &Path),
    ) -> Result<(RunFolder, Job), Problem> {
        let state = self.state.clone().unwrap_or_else(|| with_suffix(beside, ".slurm"));
        let here = |e: std::io::Error| Problem::host("the folder of this process", e.to_string());
        let working_folder = std::env::current_dir().map_err(here)?;
        let stage =
            self.stage.as_deref().map(|folder| Stage::new(folder, &self.stage_file, &working_folder)).transpose()?;
        let job = Job {
            run_id,
            kind: work.kind,
            begun_unix_ns,
            holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: work.plan.clone(),
            plan_source: work.source.to_owned(),
            command: std::env::args().collect(),
            notes: work.notes,
            machine: work.machine,
            out: work.out,
            working_folder,
            is_simulated: work.is_simulated,
            parts: work.parts,
            sbatch,
            options: work.options,
            stage,
        };
        let machine = if work.is_simulated { holdup_target::machine_text(host, &work.plan.target)? } else { None };
        let program = std::env::current_exe().map_err(here)?;
        let folder = RunFolder::create(&state, &job, &program, machine.as_deref())?;
        Ok((folder, job))
    }
}

/// The plan as a node runs it: a simulated machine is the one that the run brought.
pub(crate) fn plan_of_node(folder: &RunFolder, job: &Job) -> Plan {
    let mut plan = job.plan.clone();
    if let Some(machine) = folder.machine() {
        plan.target = format!("sim:{}", machine.display());
    }
    plan
}

/// How many CPUs the task has that this is.
pub(crate) fn threads_of_task() -> usize {
    std::env::var("SLURM_CPUS_PER_TASK").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// The name of this attempt at a part. Slurm sets the count of restarts from the first one on.
pub(crate) fn attempt() -> String {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| "0".to_owned());
    format!("{}.{}.{}", variable("SLURM_JOB_ID"), variable("SLURM_RESTART_COUNT"), std::process::id())
}

/// The command line that continues a run.
pub(crate) fn again(folder: &RunFolder, job: &Job) -> String {
    let command = match job.kind {
        Kind::Run => "run",
        Kind::Predict { .. } => "predict",
    };
    format!("holdup {command} --continue {}", folder.path().display())
}

/// The same problem, with how the run is continued.
pub(crate) fn continued(problem: Problem, folder: &RunFolder, job: &Job) -> Problem {
    let again = again(folder, job);
    let hint = match (problem.kind, &problem.hint) {
        (ProblemKind::Interrupted, _) => {
            let waits = match job.stage {
                Some(_) => "; parts that end wait for that for ten minutes, and are repeated then",
                None => "",
            };
            format!("its jobs continue: follow them with `{again}`, or end them with `{again} --cancel`{waits}")
        }
        (_, Some(hint)) => format!("{hint}\nwhat was done is kept, and `{again}` does the rest"),
        (_, None) => format!("what was done is kept, and `{again}` does the rest"),
    };
    problem.hint(hint)
}

/// Removes the folder of a run that is through.
pub(crate) fn removed(folder: RunFolder) {
    if let Err(e) = folder.remove() {
        output::say(&format!("the folder of the run cannot be removed whole: {e}"));
    }
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
