//! `holdup tune`: settings → blocks until the best is found → fresh, interleaved blocks → a profile.

mod asked;
mod confirm;
mod log;
mod worker;

use super::searching::{self, Again};
use crate::design::{Chosen, Design};
use crate::output;
use crate::progress::Progress;
use crate::world::World;
use holdup_host::Host;
use holdup_model::tuning::{Answer, Begin, Entry};
use holdup_model::{Event, Observer, Problem};
use holdup_search::{Asked, Log, of_host, tune, tuning};
use holdup_stats::tuning::Ended;
use std::path::{Path, PathBuf};
use worker::Worker;

/// Find the settings that make a workload faster, and what each adds
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Settings of the host and of PostgreSQL are tried in blocks beside those that were
found: first each alone, then together, then the best against each other. The
winner is measured again in fresh, interleaved blocks: that ratio is the answer.
The profile holds what adds to it; `holdup apply` puts it in force. Settings
that may lose data are tried only when --knobs names them.

Examples:
  holdup tune pgbench --clients 64 --budget 2h --guard latency_p99_us=+5%
  holdup tune pgbench --clients 8 --budget 30m --knobs postgres,autogroup
  holdup tune command --budget 10m --knobs scheduler,memory -- ./bench
  holdup tune plans/mine.toml --budget 1h --beside pgtune.toml
  holdup tune --continue
  holdup tune log --html page.html

Exit codes:
  0  nothing is better than the settings that were found
  1  found
  2  wrong command line or plan
  3  not confirmed, or this host cannot do it
  4  interrupted, host restored
  5  host not fully restored")]
pub(crate) struct Args {
    /// The plan; what it varies is tried
    #[arg(value_name = "PLAN.toml", hide_short_help = true)]
    file: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    design: Design,
    #[command(flatten)]
    place: super::run::Place,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Log(log::Args),
    #[command(flatten)]
    Workload(Chosen<false>),
}

impl Args {
    fn workload(&self) -> Option<&Chosen<false>> {
        match &self.what {
            Some(What::Workload(chosen)) => Some(chosen),
            _ => None,
        }
    }
}

// What is tried, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search options")]
struct SearchArgs {
    /// Try these: groups (scheduler, memory, power, postgres), GROUP.durability,
    /// GROUP.risky, or names of `holdup list tunables` [default: all groups]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', global = true)]
    knobs: Option<Vec<String>>,
    /// Try these values of a knob, such as postgres.work_mem=16MB,64MB
    #[arg(long = "try", value_name = "KEY=V,…", value_parser = asked::values, global = true)]
    tried: Vec<Asked>,
    /// A metric that may not get worse by more, such as latency_p99_us=+5%, or
    /// beyond a value: 'latency_p99_us<=20000'
    #[arg(long, value_name = "METRIC=SHARE", value_parser = asked::guard, global = true)]
    guard: Vec<asked::GuardAsked>,
    /// Measure this profile beside the winner (repeatable)
    #[arg(long, value_name = "PROFILE.toml", global = true, hide_short_help = true)]
    beside: Vec<PathBuf>,
    /// Search here first, such as sim:graviton4-96
    #[arg(long, value_name = "sim:MACHINE", global = true, hide_short_help = true)]
    first: Option<String>,
    /// Measure the winner here [default: the target of the plan]
    #[arg(long, value_name = "TARGET", global = true, hide_short_help = true)]
    confirm: Option<String>,
    /// Smaller gains do not pay, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = searching::share, global = true, hide_short_help = true)]
    least: f64,
    /// Print what would be tried; run nothing
    #[arg(short = 'n', long, global = true)]
    dry_run: bool,
    /// The folder of the search [default: tune-N]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    state: Option<PathBuf>,
    /// Go on with this search [default: the newest tune-N here]
    #[arg(long = "continue", value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["state", "dry_run"])]
    go_on: Option<Option<PathBuf>>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match (&args.what, &args.search.go_on) {
        (Some(What::Log(log)), _) => log::run(log),
        (_, Some(folder)) => go_on(folder.as_deref()),
        _ => begin(args),
    }
}

/// Begins a search.
fn begin(args: &Args) -> anyhow::Result<u8> {
    let host = Host::real();
    let world = World::here(&host);
    let folder = args.search.state.clone().unwrap_or_else(searching::free_folder::<Entry>);
    let mut worker = Worker::new(args, &host, &world, &folder)?;
    let begin = worker.begin(std::env::args().collect())?;
    if args.search.dry_run {
        output::data(&holdup_report::tuning_space(&begin))?;
        return Ok(0);
    }
    let mut log = Log::create(&folder, begin)?;
    output::say(&format!("search: {} (holdup tune --continue {0})", folder.display()));
    search(&mut worker, &mut log)
}

/// Continues a search, in the folder and with the command line that it was begun with.
fn go_on(folder: Option<&Path>) -> anyhow::Result<u8> {
    let Again { mut log, command, folder, what } = match searching::again::<Entry>(folder)? {
        Ok(again) => again,
        Err(code) => return Ok(code),
    };
    let crate::cli::Command::Tune(args) = &command else {
        return Err(Problem::usage(what, "its command line is no tune").into());
    };
    let host = Host::real();
    let world = World::here(&host);
    let mut worker = Worker::new(args, &host, &world, &folder)?;
    if worker.source() != log.begin().plan {
        return Err(Problem::usage(what, "its plan changed since it began")
            .hint("put it back, or begin a new search")
            .into());
    }
    search(&mut worker, &mut log)
}

/// Searches to the end and gives the answer.
fn search(worker: &mut Worker<'_>, log: &mut Log<Entry>) -> anyhow::Result<u8> {
    let mut progress = Progress::new(false);
    searching::note_host(log, worker.at(), &mut progress)?;
    let answer = answer(worker, log, &mut progress)?;
    progress.event(Event::End);
    let code = code(&answer, log.begin());
    let sentence = holdup_report::tuning_answer(log.begin(), &answer);
    log.add(Entry::Answer { sentence: sentence.clone(), code })?;
    output::data(&sentence)?;
    Ok(code)
}

fn code(answer: &Answer, begin: &Begin) -> u8 {
    match &answer.confirmed {
        None => 0,
        Some(_) if answer.is_confirmed(begin) => 1,
        Some(_) => 3,
    }
}

fn answer(worker: &mut Worker<'_>, log: &mut Log<Entry>, observer: &mut dyn Observer) -> Result<Answer, Problem> {
    let found = of_host(log.entries()).iter().find_map(|entry| match entry {
        Entry::Found { levels } => Some(levels.clone()),
        _ => None,
    });
    let (search, levels) = match found {
        Some(levels) => (tuning(log.begin(), log.entries())?, levels),
        None => {
            let (search, ended) = tune(log, worker, observer)?;
            let best = search.outcome().best.0;
            if ended == Ended::OutOfTrials {
                observer.event(Event::Note("the search used up its share of the budget: a better point may be left"));
            }
            log.add(Entry::Found { levels: best.clone() })?;
            (search, best)
        }
    };
    if levels.iter().all(|level| *level == 0) {
        return Ok(confirm::nothing(log, &search));
    }
    let (levels, shares) = confirm::prune(worker, log, &levels, observer)?;
    confirm::confirm(worker, log, &search, (levels, shares), observer)
}
