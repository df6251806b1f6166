//! `holdup run`: plan → schedule → trials → bundle → verdicts.

use crate::progress::Progress;
use crate::world::{World, read_plan};
use crate::{bundles, output, signals};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::bundle::Ending;
use holdup_model::{ParameterKind, Plan, Problem, Schedule};
use holdup_plan::Overrides;
use holdup_report::TerminalOptions;
use holdup_target::{GuestOptions, RunOutcome, RunRequest, SessionRequest, Target};
use holdup_workloads::PostgresOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    let world = World::here(&host);
    let (plan, source) = plan_for(matches, &world, None)?;
    if let Some(path) = matches.get_one::<PathBuf>("save-plan") {
        save_plan(path, &source)?;
    }
    let (plan, mut notes) = target(&plan)?.settle(&host, plan);
    notes.extend(holdup_plan::notes(&plan));
    let schedule = holdup_plan::schedule(&plan)?;
    if matches.get_flag("dry-run") {
        notes.iter().for_each(|note| output::say(note));
        return dry_run(matches, &host, &plan, &schedule);
    }
    if guests(matches).parallel > 1 && plan.guest.is_none() {
        return Err(Problem::usage("--parallel", format!("target {} boots no guests", plan.target)).into());
    }
    let out = matches.get_one::<PathBuf>("out").cloned().unwrap_or_else(|| bundles::free_name(&plan));
    let quiet = matches.get_flag("quiet");
    let request = RunRequest {
        host: &host,
        plan: &plan,
        plan_source: &source,
        schedule: &schedule,
        machine: match &plan.guest {
            Some(guest) => guest.machine(),
            None => holdup_target::machine_of(&host, &plan.target)?.unwrap_or(world.machine),
        },
        out: &out,
        command: std::env::args().collect(),
        notes,
        postgres: postgres(matches),
        workdir: workdir(matches),
        guests: guests(matches),
        wait: wait(matches)?,
        cancel: signals::cancel_on_signals()?,
        is_decided: &holdup_analysis::is_decided,
    };
    let outcome = holdup_target::run(&request, &mut Progress::new(quiet))?;
    if !quiet {
        verdicts(&out)?;
    }
    Ok(tell(&out, &outcome))
}

/// Prints what the bundle says, as `holdup report` does.
fn verdicts(out: &Path) -> Result<(), Problem> {
    let bundle = bundles::read(out)?;
    let analysis = holdup_analysis::analyse(&bundle);
    let options = TerminalOptions { width: output::width(), color: output::wants_color() };
    output::data(&holdup_report::terminal(&bundle, &analysis, &options))
}

/// Says where the bundle is and how the run ended; gives the exit code.
fn tell(out: &Path, outcome: &RunOutcome) -> u8 {
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
            output::error("no trial counts: each is void; `holdup list trials` tells the reasons");
            3
        }
        Ending::Complete | Ending::Decided | Ending::Budget => 0,
    }
}

fn dry_run(matches: &ArgMatches, host: &Host, plan: &Plan, schedule: &Schedule) -> anyhow::Result<u8> {
    let target = target(plan)?;
    let postgres = postgres(matches);
    let request = SessionRequest {
        host,
        plan,
        schedule,
        postgres: &postgres,
        workdir: workdir(matches),
        guests: &guests(matches),
        kept: holdup_target::Kept::default(),
        cancel: signals::cancel_on_signals()?,
    };
    let estimate_ns = holdup_plan::estimate_ns(plan, schedule, &holdup_plan::Overhead::default());
    // A plan that cannot run here is still shown: that is what a dry run is for.
    let ready = target.ready(&request, &mut Progress::new(matches.get_flag("quiet")));
    let touches = ready.as_ref().map(|r| r.touches.clone()).unwrap_or_default();
    output::data(&holdup_report::dry_run(plan, schedule, estimate_ns, &touches))?;
    ready?;
    Ok(0)
}

pub(super) fn target(plan: &Plan) -> Result<&'static dyn Target, Problem> {
    holdup_target::find(&plan.target)
        .ok_or_else(|| Problem::usage(format!("target `{}`", plan.target), "there is no such target"))
}

/// The plan of a file, or the one that the command line comes to; with its TOML. `on` is a target in the place of
/// whatever they name.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn plan_for(matches: &ArgMatches, world: &World, on: Option<String>) -> Result<(Plan, String), Problem> {
    if let Some((workload, options)) = matches.subcommand() {
        return from_command_line(workload, options, world, on);
    }
    let Some(path) = matches.get_one::<PathBuf>("plan") else {
        return Err(Problem::usage("holdup run", "it needs a plan or a workload")
            .hint("holdup run plans/demo.toml, or `holdup run --help` for the workloads"));
    };
    let text = read_plan(path)?;
    let file = path.display().to_string();
    let plan = world.with(&overrides(matches, on), |inputs| holdup_plan::check(&file, &text, inputs))?;
    Ok((plan, text))
}

fn from_command_line(
    id: &str,
    options: &ArgMatches,
    world: &World,
    on: Option<String>,
) -> Result<(Plan, String), Problem> {
    let workload = holdup_workloads::find(id)
        .ok_or_else(|| Problem::internal(format!("workload {id}"), "clap let an unknown one through"))?;
    let given: Vec<(String, String)> = workload
        .parameters()
        .iter()
        .filter(|p| p.kind != ParameterKind::CommandLine)
        .filter_map(|p| options.get_one::<String>(p.name).map(|v| (p.name.to_owned(), v.clone())))
        .collect();
    let command: Option<Vec<String>> =
        options.try_get_many::<String>("command-line").ok().flatten().map(|words| words.cloned().collect());
    let metrics: Vec<String> = many(options, "metric");
    world
        .with(&overrides(options, on), |inputs| {
            holdup_plan::from_command_line(id, &given, command.as_deref(), &metrics, inputs)
        })
        .map_err(Problem::from)
}

fn overrides(matches: &ArgMatches, on: Option<String>) -> Overrides {
    let pairs = |name: &str| -> Vec<(String, String)> {
        many(matches, name)
            .into_iter()
            .map(|text| match text.split_once('=') {
                Some((key, value)) => (key.to_owned(), value.to_owned()),
                None => (text, String::new()),
            })
            .collect()
    };
    // A prediction has only some of the options of a run.
    let one = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
    let mut set = pairs("set");
    set.extend(one("pg-deb").map(|majors| {
        let servers: Vec<String> = majors.split(',').map(|major| format!("deb:{}", major.trim())).collect();
        (holdup_model::guest::POSTGRES_SERVER.to_owned(), servers.join(","))
    }));
    Overrides {
        set,
        vary: pairs("vary"),
        blocks: matches.get_one("blocks").copied(),
        max_blocks: matches.get_one("max-blocks").copied(),
        sessions: matches.get_one("sessions").copied(),
        seed: matches.get_one("seed").copied(),
        warmup: one("warmup"),
        duration: one("duration"),
        budget: one("budget"),
        collect: one("collect").map(|list| match list.as_str() {
            "none" | "" => Vec::new(),
            list => list.split(',').map(|id| id.trim().to_owned()).collect(),
        }),
        sections: Some(many(matches, "section")).filter(|names| !names.is_empty()),
        frequency: matches.get_one("frequency").copied(),
        target: on.or_else(|| one("target")),
        accel: one("accel"),
    }
}

fn many(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many::<String>(name).map(|values| values.cloned().collect()).unwrap_or_default()
}

fn postgres(matches: &ArgMatches) -> PostgresOptions {
    PostgresOptions {
        bin: matches.get_one::<PathBuf>("pg-bin").cloned(),
        url: matches.get_one::<String>("pg").cloned(),
    }
}

pub(super) fn guests(matches: &ArgMatches) -> GuestOptions {
    GuestOptions {
        cache: matches.get_one::<PathBuf>("cache").cloned(),
        mirror: matches.get_one::<String>("mirror").cloned(),
        offline: matches.get_flag("offline"),
        parallel: matches.try_get_one("parallel").ok().flatten().copied().unwrap_or(1),
    }
}

fn workdir(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("workdir").cloned().unwrap_or_else(std::env::temp_dir)
}

/// How long to wait for another run on this host.
///
/// # Errors
/// When it is not a duration.
pub(super) fn wait(matches: &ArgMatches) -> Result<Duration, Problem> {
    match matches.get_one::<String>("wait") {
        None => Ok(Duration::ZERO),
        Some(text) => holdup_plan::parse_duration_ns(text)
            .map(Duration::from_nanos)
            .ok_or_else(|| Problem::usage(format!("--wait {text}"), "not a duration").hint("for example --wait 10m")),
    }
}

fn save_plan(path: &Path, source: &str) -> Result<(), Problem> {
    let what = || format!("cannot write the plan {}", path.display());
    if path.symlink_metadata().is_ok() {
        return Err(Problem::usage(what(), "something of that name is there").hint("name a file that does not exist"));
    }
    holdup_files::write_output(path, source.as_bytes())
        .map_err(|e| Problem::usage(what(), e.to_string()).hint("name a file in a folder that exists"))
}
