//! `holdup run`: plan → schedule → trials → bundle → verdicts.

mod slurm;

use crate::cli::{GUESTS, GuestSource, OverSsh, Wait};
use crate::cluster::ClusterArgs;
use crate::design::{Design, Planned, REPLAY};
use crate::progress::Progress;
use crate::world::World;
use crate::{bundles, output, signals};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::bundle::Ending;
use holdup_model::{Observer, Plan, Problem, Schedule};
use holdup_plan::Overrides;
use holdup_target::{GuestOptions, Readiness, RunOutcome, RunRequest, SessionRequest, SshOptions, Target};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a plan, or a workload, and compare its arms
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Several values of a workload option are an axis, those of --vary a factor; the
first value is the baseline. `holdup run WORKLOAD -h` lists the options of a
workload.

Examples:
  holdup run plans/demo.toml
  holdup run command --vary autogroup=on,off -- make -j4
  holdup run lock-contention --threads 8 --algorithm tas,ticket
  holdup run pgbench --clients 8,64 --vary postgres.huge_pages=off,on
  holdup run --replay trace.dat --target sim:server-8 --vary preempt=none,lazy

Exit codes:
  0  measured
  2  wrong command line or plan
  3  this host cannot do it
  4  interrupted, host restored
  5  host not fully restored")]
pub(crate) struct Args {
    #[command(flatten)]
    planned: Planned<false>,
    /// Replay this scheduler trace on a simulated machine
    #[arg(long, value_name = "TRACE")]
    replay: Option<PathBuf>,
    /// Write this bundle [default: NAME-N.holdup]
    #[arg(short, long, value_name = "FILE", global = true)]
    out: Option<PathBuf>,
    /// Print the schedule and what it changes; run nothing
    #[arg(short = 'n', long, global = true)]
    dry_run: bool,
    /// Print everything instead of one screen
    #[arg(long, global = true)]
    details: bool,
    /// Write the bundle; print no progress and no result
    #[arg(short, long, global = true, hide_short_help = true)]
    quiet: bool,
    /// Save the command line as this plan
    #[arg(long, value_name = "FILE.toml", global = true, hide_short_help = true)]
    save_plan: Option<PathBuf>,
    #[command(flatten)]
    design: Design,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    cluster: ClusterArgs,
}

// Where trials run, and when.
#[derive(Debug, clap::Args)]
pub(super) struct Place {
    #[command(flatten)]
    wait: Wait,
    #[command(flatten, next_help_heading = "Host options")]
    target: TargetArgs,
    #[command(flatten)]
    guests: Guests,
}

// The target and its server.
#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// Run on this target: local, qemu, ssh:HOST[,…] or sim[:MACHINE]
    #[arg(long, global = true, hide_short_help = true)]
    target: Option<String>,
    /// The folder with postgres, initdb and pgbench
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    pg_bin: Option<PathBuf>,
    /// Use this PostgreSQL server instead of a temporary one
    #[arg(long, value_name = "URL", global = true, hide_short_help = true)]
    pg: Option<String>,
    /// The folder for temporary clusters [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    ssh: OverSsh,
}

/// What is to be run.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Plan,
    /// As TOML.
    pub(super) source: &'a str,
    pub(super) schedule: &'a Schedule,
    /// For the log of the bundle.
    pub(super) notes: Vec<String>,
    /// How long it waits for another run to end, where `--wait` says no longer.
    pub(super) patience: Duration,
}

impl Place {
    /// The server that trials use.
    pub(super) fn postgres(&self) -> PostgresOptions {
        PostgresOptions { bin: self.target.pg_bin.clone(), url: self.target.pg.clone(), ..PostgresOptions::default() }
    }

    /// What kernels are fetched with.
    pub(super) fn kernel_options(&self) -> holdup_kernels::Options {
        self.guests.source.kernel_options()
    }

    /// The folder of what is fetched and built.
    pub(super) fn cache(&self) -> PathBuf {
        self.guests.source.cache()
    }

    /// What the options change in a plan.
    pub(super) fn changes(&self) -> Overrides {
        let servers = self.guests.pg_deb.as_ref().map(|majors| {
            let servers: Vec<String> = majors.split(',').map(|major| format!("deb:{}", major.trim())).collect();
            (holdup_model::guest::POSTGRES_SERVER.to_owned(), servers.join(","))
        });
        Overrides {
            set: servers.into_iter().collect(),
            target: self.target.target.clone(),
            accel: self.guests.source.accel.clone(),
            ..Overrides::default()
        }
    }

    /// What holds on the nodes of a cluster too.
    fn of_nodes(&self) -> holdup_slurm::Options {
        let TargetArgs { pg_bin, pg, workdir, .. } = &self.target;
        let GuestOptions { cache, mirror, offline, .. } = self.guests.source.options(1);
        let (pg_bin, pg, workdir) = (pg_bin.clone(), pg.clone(), workdir.clone());
        holdup_slurm::Options { pg_bin, pg, workdir, cache, mirror, offline }
    }

    /// How other hosts are worked on.
    fn ssh(&self) -> SshOptions {
        SshOptions { wait: self.wait.longest(), workdir: self.target.workdir.clone(), ..self.target.ssh.options() }
    }

    /// Asks the first host that the command line names, so that one that cannot be reached is no mistake in a plan.
    fn reach(&self, host: &Host) -> Result<(), Problem> {
        match &self.target.target {
            Some(target) if target.starts_with("ssh:") => holdup_target::machine_of(host, target).map(drop),
            _ => Ok(()),
        }
    }

    fn workdir(&self) -> PathBuf {
        self.target.workdir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// What can be said of a plan before anything is fetched, built or booted for it.
    ///
    /// # Errors
    /// When something that the plan needs cannot work here.
    pub(super) fn preview(
        &self,
        plan: &Plan,
        schedule: &Schedule,
        host: &Host,
        cancel: Cancel,
    ) -> Result<Readiness, Problem> {
        let (guests, postgres) = (self.guests.source.options(self.guests.parallel), self.postgres());
        let request = SessionRequest {
            clients: None,
            host,
            plan,
            schedule,
            postgres: &postgres,
            workdir: self.workdir(),
            guests: &guests,
            boot_cache: holdup_target::BootCache::default(),
            threads: None,
            ssh: &self.ssh(),
            cancel,
        };
        target(plan)?.preview(&request, &mut Progress::new(true))
    }

    /// Runs what is planned, and writes its bundle.
    ///
    /// # Errors
    /// As for [`holdup_target::run`].
    pub(super) fn run(
        &self,
        planned: Run<'_>,
        (host, world): (&Host, &World),
        out: &Path,
        cancel: Cancel,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Problem> {
        let Run { plan, source, schedule, notes, patience } = planned;
        if self.guests.parallel > 1 && plan.guest.is_none() && !target(plan)?.is_elsewhere() {
            return Err(Problem::usage("--parallel", format!("target {} boots no guests", plan.target)));
        }
        let request = RunRequest {
            host,
            plan,
            plan_source: source,
            schedule,
            machine: match &plan.guest {
                Some(guest) => guest.machine(),
                None => holdup_target::machine_of(host, &plan.target)?.unwrap_or(world.machine),
            },
            out,
            command: std::env::args().collect(),
            notes,
            postgres: self.postgres(),
            workdir: self.workdir(),
            guests: self.guests.source.options(self.guests.parallel),
            ssh: self.ssh(),
            wait: self.wait.longest().max(patience),
            part: None,
            cancel,
            is_decided: &holdup_analysis::is_decided,
        };
        holdup_target::run(&request, observer)
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = GUESTS)]
struct Guests {
    #[command(flatten)]
    source: GuestSource,
    /// PostgreSQL from Debian's packages, such as 17; several are a factor
    #[arg(long, value_name = "MAJOR[,…]", conflicts_with_all = ["pg_bin", "pg"], global = true, hide_short_help = true)]
    pg_deb: Option<String>,
    /// Run N guests or hosts at the same time; guests compete for CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64),
        global = true, hide_short_help = true)]
    parallel: u32,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(code) = slurm::without_plan(args)? {
        return Ok(code);
    }
    let host = Host::real();
    let mut world = World::here(&host);
    let mut cluster = args.cluster.chosen()?;
    if let Some(cluster) = &cluster {
        world.machine = cluster.machine();
    }
    args.place.reach(&host)?;
    let (mut plan, mut source) = plan_of(args, &world)?;
    if let Some(cluster) = &mut cluster {
        cluster.narrow(&plan)?;
        // The smallest node may be one that the plan does not run on.
        if std::mem::replace(&mut world.machine, cluster.machine()) != cluster.machine() {
            (plan, source) = plan_of(args, &world)?;
        }
    }
    if let Some(path) = &args.save_plan {
        save_plan(path, &source)?;
    }
    let target = target(&plan)?;
    // Only the nodes could say what they have, and they are asked after the schedule is made.
    let (plan, mut notes) = match cluster.is_some() && !target.is_simulated() {
        true => (plan, Vec::new()),
        false => target.drop_unavailable_factors(&host, plan),
    };
    notes.extend(holdup_plan::notes(&plan));
    let schedule = holdup_plan::schedule(&plan)?;
    if let Some(cluster) = &mut cluster {
        let planned = Run { plan: &plan, source: &source, schedule: &schedule, notes, patience: Duration::ZERO };
        return slurm::run(args, cluster, planned, (&host, &world));
    }
    if args.dry_run {
        notes.iter().for_each(|note| output::say(note));
        return dry_run(args, &host, &plan, &schedule);
    }
    let out = args.out.clone().unwrap_or_else(|| bundles::free_name(&plan.name));
    let planned = Run { plan: &plan, source: &source, schedule: &schedule, notes, patience: Duration::ZERO };
    let cancel = signals::cancel_on_signals()?;
    let outcome = args.place.run(planned, (&host, &world), &out, cancel, &mut Progress::new(args.quiet))?;
    Ok(show(args, &out, &outcome)?)
}

/// What the command line plans, and its TOML.
fn plan_of(args: &Args, world: &World) -> Result<(Plan, String), Problem> {
    let (design, changes) = (&args.design, args.place.changes());
    let (plan, source) = match &args.replay {
        Some(trace) => args.planned.replay(trace, design, changes, world)?,
        None => args.planned.plan(design, changes, world)?,
    };
    let replays = plan.workloads.iter().any(|used| used.kind == REPLAY);
    if replays && !target(&plan)?.is_simulated() {
        let why = format!("target {} runs real tasks, and a trace has none", plan.target);
        return Err(Problem::usage("workload replay", why)
            .hint("--target sim, or sim:MACHINE; `holdup list machines` has their names"));
    }
    Ok((plan, source))
}

/// Prints the result, and then the end as [`end`] does, also after an error.
///
/// # Errors
/// When the result cannot be printed, and the exit code is 0 otherwise.
fn show(args: &Args, out: &Path, outcome: &RunOutcome) -> Result<u8, Problem> {
    let shown = if args.quiet { Ok(()) } else { verdicts(out, args.details) };
    match (shown, end(out, outcome)) {
        (Ok(()), code) => Ok(code),
        (Err(problem), 0) => Err(problem),
        (Err(problem), code) => {
            output::problem(&problem);
            Ok(code)
        }
    }
}

/// Prints the result as `holdup report` does.
fn verdicts(out: &Path, details: bool) -> Result<(), Problem> {
    let Some(bundle) = super::read_result(out)? else { return Ok(()) };
    let analysis = holdup_analysis::analyse(&bundle);
    output::data(&holdup_report::terminal(&bundle, &analysis, &output::terminal(details)))
}

/// Prints where the bundle is and how the run ended; returns the exit code.
pub(super) fn end(out: &Path, outcome: &RunOutcome) -> u8 {
    let void = match outcome.trials_void {
        0 => String::new(),
        n => format!(", {n} void"),
    };
    output::say(&format!("bundle: {} ({} trials{void})", out.display(), outcome.trials_done));
    if !outcome.left.is_empty() {
        for line in &outcome.left {
            output::error(line);
        }
        return 5;
    }
    match &outcome.ending {
        Ending::Interrupted => {
            output::say("interrupted; the host is restored and the bundle holds what was measured");
            4
        }
        Ending::Failed { reason } => {
            output::error(&format!("the run ended early: {reason}"));
            3
        }
        Ending::Complete | Ending::Decided | Ending::Budget if outcome.trials_done == 0 => {
            output::error("no trial counts: all are void; `holdup list trials FILE` has the reasons");
            3
        }
        Ending::Complete | Ending::Decided | Ending::Budget => 0,
    }
}

fn dry_run(args: &Args, host: &Host, plan: &Plan, schedule: &Schedule) -> anyhow::Result<u8> {
    let estimate_ns = holdup_plan::estimate_ns(plan, schedule, &holdup_plan::Overhead::default());
    // A plan that cannot run here is still shown: that is what a dry run is for.
    let ready = args.place.preview(plan, schedule, host, signals::cancel_on_signals()?);
    ready.iter().flat_map(|r| &r.notes).for_each(|note| output::say(note));
    let touches = ready.as_ref().map(|r| r.touches.clone()).unwrap_or_default();
    output::data(&holdup_report::dry_run(plan, schedule, estimate_ns, &touches))?;
    ready?;
    Ok(0)
}

pub(super) fn target(plan: &Plan) -> Result<&'static dyn Target, Problem> {
    holdup_target::find(&plan.target)
        .ok_or_else(|| Problem::usage(format!("target `{}`", plan.target), "there is no such target"))
}

fn save_plan(path: &Path, source: &str) -> Result<(), Problem> {
    let what = || format!("cannot write the plan {}", path.display());
    if path.symlink_metadata().is_ok() {
        return Err(Problem::usage(what(), "it exists").hint("name a file that does not exist"));
    }
    holdup_files::write_output(path, source.as_bytes())
        .map_err(|e| Problem::usage(what(), e.to_string()).hint("name a file in a folder that exists"))
}
