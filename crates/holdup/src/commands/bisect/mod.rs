//! `holdup bisect`: candidates → trials until one is left → fresh, interleaved blocks → the answer.

mod builder;
mod candidates;
mod confirm;
mod log;
mod step;
mod worker;

use super::searching::{self, Again};
use crate::design::{Chosen, Design};
use crate::output;
use crate::progress::Progress;
use crate::world::World;
use holdup_host::Host;
use holdup_model::search::{Begin, Candidate, Entry, FORMAT, LookFor, short};
use holdup_model::{Direction, Event, Observer, Problem};
use holdup_search::{Log, walk};
use holdup_stats::bisection::{self, Finding, Next, Options};
use std::path::{Path, PathBuf};
use worker::Worker;

/// Find which commit, kernel or value brought a change
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Candidates are commits (--git, --range), kernels of guests (--kernels) or the
values of a parameter (--values). What does not build or run is skipped. The
change is searched by a probability for each candidate, then measured in fresh,
interleaved blocks of the candidate and the one before it: that ratio is the
answer. A search continues after Ctrl-C, kill -9 and a reboot with --continue.

Examples:
  holdup bisect command --git . --range v1..v2 --build 'make' -- ./bench
  holdup bisect plans/mine.toml --values clients=8..1024
  holdup bisect pgbench --target qemu --kernels debian:6.12..7.0
  git bisect run holdup bisect step --build 'make' command -- ./bench
  holdup bisect pgbench --target qemu --git linux --kernel-commits --range v1..v2
  holdup bisect --continue
  holdup bisect log

Exit codes:
  0  no change
  1  found
  2  wrong command line, plan or range
  3  undecided, or this host cannot do it
  4  interrupted, host restored
  5  host not fully restored
step has those of git-bisect(1): 0 good, 1 bad, 125 skip, 128 to end")]
pub(crate) struct Args {
    /// The plan of a trial
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
    Step(step::Args),
    Log(log::Args),
    /// The plan of a trial
    Run {
        /// The plan
        #[arg(value_name = "PLAN.toml")]
        file: PathBuf,
    },
    #[command(flatten)]
    Workload(Chosen<false>),
}

// What is searched, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search options")]
struct SearchArgs {
    /// The repository whose commits are searched
    #[arg(long, value_name = "DIR", global = true)]
    git: Option<PathBuf>,
    /// The commits: the last good one and the first known bad one
    #[arg(long, value_name = "GOOD..BAD", requires = "git", global = true)]
    range: Option<String>,
    /// Build a commit with this shell command, in its tree; {dir} is the tree
    #[arg(long, value_name = "COMMAND", global = true)]
    build: Option<String>,
    /// Build likely next candidates while trials run, at the lowest priority
    #[arg(long, global = true, hide_short_help = true)]
    build_ahead: bool,
    /// The repository is that of a kernel: guests boot its commits
    #[arg(long, requires = "git", conflicts_with = "build", global = true, hide_short_help = true)]
    kernel_commits: bool,
    /// The kernels that guests boot, from one version to another
    #[arg(long, value_name = "debian:A..B", conflicts_with_all = ["git", "values"], global = true)]
    kernels: Option<String>,
    /// The values of a parameter or setting, such as clients=8..1024, or
    /// postgres-server=deb:16,deb:17,deb:18
    #[arg(long, value_name = "KEY=A..B", conflicts_with = "git", global = true)]
    values: Option<String>,
    /// Look for a change in this direction
    #[arg(long, value_name = "WHICH", value_parser = look_for, default_value = "worse", global = true)]
    look_for: LookFor,
    /// Smaller changes count as none, such as 0.5%
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = searching::share, global = true, hide_short_help = true)]
    least: f64,
    /// Give up after this many trials
    #[arg(long, value_name = "N", default_value_t = 1000, global = true, hide_short_help = true)]
    most_trials: u32,
    /// The folder of the search [default: bisect-N]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    state: Option<PathBuf>,
    /// Go on with this search [default: the newest bisect-N here]
    #[arg(long = "continue", value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["git", "values", "kernels", "state"])]
    go_on: Option<Option<PathBuf>>,
}

fn look_for(text: &str) -> Result<LookFor, String> {
    match text {
        "worse" => Ok(LookFor::Worse),
        "better" => Ok(LookFor::Better),
        "any" => Ok(LookFor::Any),
        _ => Err("it is worse, better or any".to_owned()),
    }
}

/// What the engine is asked in a search that began like this.
fn options(begin: &Begin) -> Options {
    let (worse, better) = match begin.better {
        Direction::Higher => (bisection::Direction::Down, bisection::Direction::Up),
        Direction::Lower => (bisection::Direction::Up, bisection::Direction::Down),
    };
    let direction = match begin.look_for {
        LookFor::Any => bisection::Direction::Any,
        LookFor::Better => better,
        LookFor::Worse => worse,
    };
    Options { direction, min_step: begin.least, ..Options::default() }
}

impl Args {
    fn is_of_commits(&self) -> bool {
        self.search.git.is_some() || matches!(self.what, Some(What::Step(_)))
    }

    fn workload(&self) -> Option<&Chosen<false>> {
        match &self.what {
            Some(What::Workload(chosen)) => Some(chosen),
            Some(What::Step(step)) => step.workload.as_ref(),
            _ => None,
        }
    }

    fn file(&self) -> Option<&Path> {
        match &self.what {
            Some(What::Run { file }) => Some(file),
            Some(What::Step(step)) => step.file.as_deref(),
            _ => self.file.as_deref(),
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match (&args.what, &args.search.go_on) {
        (Some(What::Log(log)), _) => log::run(log),
        (Some(What::Step(_)), _) => step::run(args),
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
    let mut log = Log::create(&folder, begin)?;
    output::say(&format!("search: {} (holdup bisect --continue {0}, holdup bisect log {0})", folder.display()));
    search(args, &mut worker, &mut log)
}

/// Continues a search, in the folder and with the command line that it was begun with.
fn go_on(folder: Option<&Path>) -> anyhow::Result<u8> {
    let Again { mut log, command, folder, what } = match searching::again::<Entry>(folder)? {
        Ok(again) => again,
        Err(code) => return Ok(code),
    };
    let crate::cli::Command::Bisect(args) = &command else {
        return Err(Problem::usage(what, "its command line is no bisect").into());
    };
    let host = Host::real();
    let world = World::here(&host);
    let mut worker = Worker::new(args, &host, &world, &folder)?;
    let begun = log.begin();
    let now = worker.begin(begun.command.clone())?;
    if (&now.plan, &now.candidates) != (&begun.plan, &begun.candidates) {
        let changed = if now.plan == begun.plan { "candidates" } else { "plan" };
        return Err(Problem::usage(what, format!("its {changed} changed since it began"))
            .hint("put them back, or begin a new search")
            .into());
    }
    search(args, &mut worker, &mut log)
}

/// Walks to the end and gives the answer.
fn search(args: &Args, worker: &mut Worker<'_>, log: &mut Log) -> anyhow::Result<u8> {
    let mut progress = Progress::new(false);
    searching::note_host(log, worker.at(), &mut progress)?;
    let options = Options { most_trials: args.search.most_trials, ..options(log.begin()) };
    let (state, next) = walk(log, &options, worker, &mut progress)?;
    worker.end_ahead();
    let begin = log.begin().clone();
    let (sentence, code) = match next {
        Next::Done(Finding::Culprit { candidates, probability, step_ratio }) => {
            progress.event(Event::Step("found; now in fresh, interleaved blocks"));
            let answer = confirm::confirm(worker, log, &state, (&candidates, probability, step_ratio), &mut progress)?;
            let code = if answer.is_confirmed() { 1 } else { 3 };
            (holdup_report::search_answer(&answer), code)
        }
        Next::Done(Finding::NoStep { probability }) => {
            (holdup_report::search_without_change(&begin, probability, options.min_step, state.trials()), 0)
        }
        Next::Done(Finding::WrongDirection { step_ratio, .. }) => {
            worker.clear()?;
            progress.event(Event::End);
            return Err(wrong_way(&begin, step_ratio).into());
        }
        Next::Undecidable { reason, credible } => {
            let left: Vec<&Candidate> = credible.iter().map(|&i| &begin.candidates[i]).collect();
            let others = state.two_steps().map(|two| worker.ranges(&begin.candidates, &two.ranges)).unwrap_or_default();
            (holdup_report::search_undecided(&begin, &reason, &left, &others), 3)
        }
        Next::Measure { .. } => return Err(Problem::internal("the search", "it ended before its end").into()),
    };
    progress.event(Event::End);
    log.add(Entry::Answer { sentence: sentence.clone(), code })?;
    worker.clear()?;
    output::data(&sentence)?;
    Ok(code)
}

fn wrong_way(begin: &Begin, ratio: f64) -> Problem {
    let (good, bad) = (&begin.candidates[0].name, &begin.candidates[begin.candidates.len() - 1].name);
    let way = if ratio > 1.0 { "higher" } else { "lower" };
    let change = (ratio.max(1.0 / ratio) - 1.0) * 100.0;
    let found = if (begin.better == Direction::Higher) == (ratio > 1.0) { "better" } else { "worse" };
    let why = format!("{} is {change:.1} % {way} at its end, which is {found}", begin.metric);
    Problem::usage(format!("the range {}..{}", short(good), short(bad)), why)
        .hint(format!("--look-for {found} searches where that came; or good and bad are swapped"))
}
