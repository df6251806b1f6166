//! `holdup bisect step`: one commit, good or bad, for git-bisect(1).
//!
//! A step is a search among three: the good end, the commit that git has checked out, the bad end. Trials of the ends are
//! kept for the steps that follow, in a folder beneath `.git`.

use super::worker::Worker;
use super::{Args as All, options};
use crate::commands::searching;
use crate::design::Chosen;
use crate::output;
use crate::progress::Progress;
use crate::world::World;
use holdup_host::Host;
use holdup_model::search::{Begin, Candidate, short};
use holdup_model::{Event, Observer, Problem, ProblemKind};
use holdup_search::{Log, Repository, walk};
use holdup_stats::bisection::{Finding, Next, Options};
use std::path::{Path, PathBuf};

/// Judge the commit that git bisect has checked out: 0 good, 1 bad, 125 skip
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The plan of a trial
    #[arg(value_name = "PLAN.toml")]
    pub(super) file: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) workload: Option<Chosen<false>>,
}

/// What git-bisect(1) takes for "this commit cannot be tested", and for "end the search".
const SKIP: u8 = 125;
const END: u8 = 128;

pub(super) fn run(args: &All) -> anyhow::Result<u8> {
    // Any other code of an error would be taken for a bad commit.
    Ok(judge(args).unwrap_or_else(|problem| {
        output::problem(&problem);
        if problem.kind == ProblemKind::Trial { SKIP } else { END }
    }))
}

fn judge(args: &All) -> Result<u8, Problem> {
    let here = args.search.git.as_deref().unwrap_or(Path::new("."));
    let repository = Repository::open(here, Path::new("."))?;
    let (good, bad) = repository.bisected()?;
    let head = repository.commit("HEAD")?;
    let folder = repository.private(&format!("holdup-{}-{}", short(&good), short(&bad)))?;
    let plain = |name: &str| Candidate { name: name.to_owned(), about: String::new(), date: String::new() };
    let host = Host::real();
    let world = World::here(&host);
    let mut worker = Worker::new(args, &host, &world, &folder)?;
    worker.repository = Some(Repository::open(here, &folder)?);
    let three = vec![plain(&good), plain(&head), plain(&bad)];
    let begin = worker.begin_with(three.clone(), std::env::args().collect())?;
    let mut log = if folder.is_dir() { Log::open(&folder)? } else { Log::create(&folder, begin)? };
    log.search_among(three);
    let mut progress = Progress::new(false);
    searching::note_host(&mut log, worker.at(), &mut progress)?;
    // Each step says anew what it looks for; the log may be of a step that said something else.
    let asked = Begin { look_for: args.search.look_for, least: args.search.least, ..log.begin().clone() };
    let options = Options { most_trials: args.search.most_trials, ..options(&asked) };
    let (state, next) = walk(&mut log, &options, &mut worker, &mut progress)?;
    progress.event(Event::End);
    let (word, code) = match next {
        Next::Done(Finding::Culprit { candidates, .. }) if candidates == [1] => ("bad", 1),
        Next::Done(Finding::Culprit { candidates, .. }) if candidates == [2] => ("good", 0),
        Next::Done(Finding::Culprit { .. }) => return Err(Problem::trial("this commit", "it does not build or run")),
        Next::Done(Finding::NoStep { .. }) => {
            let why = format!("{} does not differ between {} and {}", log.begin().metric, short(&good), short(&bad));
            return Err(Problem::usage("git bisect", why).hint("--least SHARE looks for smaller changes"));
        }
        Next::Done(Finding::WrongDirection { .. }) => {
            let why = format!("{} is better at {} than at {}", log.begin().metric, short(&bad), short(&good));
            return Err(Problem::usage("git bisect", why).hint("--look-for better, or good and bad are swapped"));
        }
        Next::Undecidable { reason, .. } => return Err(Problem::trial("this commit", reason)),
        Next::Measure { .. } => return Err(Problem::internal("the step", "it ended before its end")),
    };
    output::say(&format!("{} is {word} ({} trials of it and the ends so far)", short(&head), state.trials()));
    worker.clear_but(&[&good, &bad])?;
    Ok(code)
}
