//! `holdup record`: watches a live system, writes a bundle and explains what delayed the system.

use super::explain;
use crate::cli::{OverSsh, Wait, Watched, duration};
use crate::design::{Sampling, collectors};
use crate::progress::Progress;
use crate::{bundles, output, signals};
use holdup_host::Host;
use holdup_model::Problem;
use holdup_model::bundle::Ending;
use holdup_watch::{DEFAULT_WINDOWS, RecordOutcome, RecordRequest, default_collectors, record};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod over_ssh;

/// The shortest window: shorter ones hold too few events.
const SHORTEST_NS: u64 = 1_000_000_000;

/// Watch a live system and explain what delays it
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "holdup record [OPTIONS] <--pid <PID,…> | --comm <NAME> | --cgroup <PATH> | --pg <SERVER>>",
    after_long_help = "\
Starts nothing and changes nothing. The time is divided into windows, from
which the intervals come. Without root some collectors are missing; each is
named with its reason.

Examples:
  holdup record --pg auto
  holdup record --comm nginx -d 1m

Exit codes:
  0  watched to the end, or until the watched processes ended
  2  wrong command line
  3  the watched processes ended before a window was over
  4  interrupted, bundle complete until then"
)]
pub(crate) struct Args {
    #[command(flatten)]
    watched: Watched,
    /// Watch for this long
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    duration: Duration,
    /// Divide it into N windows of 1 s or more [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    windows: Option<u32>,
    /// Run these collectors [default: those that explain]
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    collect: Option<Vec<String>>,
    /// Write this bundle [default: record-N.holdup]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the bundle; print nothing
    #[arg(short, long)]
    quiet: bool,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    sampling: Sampling,
    /// Record on these hosts over ssh instead, a bundle each
    #[arg(long, value_name = "ssh:HOST,…")]
    target: Option<String>,
    #[command(flatten)]
    ssh: OverSsh,
    /// Write the bundle to standard output, in frames
    #[arg(long, hide = true, conflicts_with_all = ["out", "target", "json"])]
    to_stdout: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(target) = &args.target {
        return over_ssh::run(args, target);
    }
    let host = Host::real();
    let duration_ns = duration_ns(args)?;
    let windows = windows(args, duration_ns)?;
    let (watching, postgres) = args.watched.find(&host)?;
    let collectors = args.collect.as_deref().map_or_else(|| default_collectors(postgres.is_some()), collectors);
    if collectors.is_empty() {
        return Err(Problem::usage("--collect", "without collectors there is nothing to record").into());
    }
    let out = match args.to_stdout {
        true => over_ssh::temporary(),
        false => args.out.clone().unwrap_or_else(|| bundles::free_name("record")),
    };
    let quiet = args.quiet || args.to_stdout;
    if !quiet {
        let each_s = duration_ns as f64 / f64::from(windows) / 1e9;
        output::say(&format!(
            "watching {} in {windows} windows of {each_s:.1} s; nothing is changed",
            watching.in_words()
        ));
        output::say(&format!("collectors: {}; the result includes their overhead", collectors.join(", ")));
    }
    let request = RecordRequest {
        host: &host,
        watching: &watching,
        postgres,
        duration_ns,
        windows,
        collectors: &collectors,
        options: args.sampling.options(),
        maps: super::maps(),
        machine: holdup_host::machine(&host),
        out: &out,
        command: std::env::args().collect(),
        wait: args.wait.longest(),
        cancel: signals::cancel_on_signals()?,
    };
    let outcome = record(&request, &mut Progress::new(quiet))?;
    if args.to_stdout {
        return Ok(over_ssh::send(&out).and_then(|()| end(&out, &outcome))?);
    }
    if !quiet
        && outcome.windows_done > 0
        && let Some(bundle) = super::read_result(&out)?
    {
        explain::print(&holdup_analysis::explain(&bundle), &out, args.json, args.details)?;
    }
    Ok(end(&out, &outcome)?)
}

/// Prints where the bundle is and how the record ended; returns the exit code.
///
/// # Errors
/// When no window was measured.
fn end(out: &Path, outcome: &RecordOutcome) -> Result<u8, Problem> {
    output::say(&format!("bundle: {} ({} windows)", out.display(), outcome.windows_done));
    match &outcome.ending {
        Ending::Interrupted => {
            output::say("interrupted; the bundle holds what was recorded");
            Ok(4)
        }
        Ending::Failed { reason } => Err(Problem::host("record", format!("{reason}, before a window was over"))
            .hint("shorter windows: a smaller --duration, or more --windows; for a short program: holdup run command")),
        Ending::Complete | Ending::Decided | Ending::Budget => Ok(0),
    }
}

fn duration_ns(args: &Args) -> Result<u64, Problem> {
    let ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    if ns < SHORTEST_NS {
        return Err(Problem::usage(format!("--duration {:?}", args.duration), "a window takes a second at least")
            .hint("--duration 2s has two windows, the least that give an interval"));
    }
    Ok(ns)
}

fn windows(args: &Args, duration_ns: u64) -> Result<u32, Problem> {
    let most = u32::try_from(duration_ns / SHORTEST_NS).unwrap_or(u32::MAX);
    match args.windows {
        None => Ok(most.min(DEFAULT_WINDOWS)),
        Some(asked) if asked <= most => Ok(asked),
        Some(asked) => Err(Problem::usage(format!("--windows {asked}"), "a window takes a second at least")
            .hint(format!("--windows {most}, or a longer --duration"))),
    }
}
