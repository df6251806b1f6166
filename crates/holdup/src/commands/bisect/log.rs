//! `holdup bisect log`: what a search has measured, and what it believes.

use super::options;
use crate::commands::searching::{newest_folder, print_json, write_page};
use crate::output;
use holdup_model::Problem;
use holdup_model::search::{Begin, Entry, Measured, Moment};
use holdup_search::{Log, state};
use holdup_stats::bisection::Bisection;
use std::path::PathBuf;

/// Most rows of the picture of beliefs.
const MOST_MOMENTS: usize = 60;

/// Print what a search has measured so far
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the search [default: the newest bisect-N here]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print every line of the log as JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write it as a page, with pictures of what was believed over time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let folder = args.folder.clone().map_or_else(newest_folder::<Entry>, Ok)?;
    let (begin, entries) = Log::read(&folder)?;
    if args.json {
        return print_json("holdup.search/1", &begin, &entries);
    }
    let search = state(&begin, &entries, &options(&begin))?;
    let measured = measured(&begin, &entries, &search);
    if let Some(file) = &args.html {
        let moments = moments(&begin, &entries)?;
        let levels = search.levels().unwrap_or_default();
        let page = holdup_report::search_html(&begin, &entries, &measured, &moments, &levels);
        return write_page(file, &page);
    }
    output::data(&holdup_report::search_log(&begin, &entries, &measured, search.no_step(), &output::terminal(false)))?;
    Ok(0)
}

fn measured(begin: &Begin, entries: &[Entry], search: &Bisection) -> Vec<Measured> {
    let mut measured: Vec<Measured> = Vec::new();
    for (candidate, probability) in begin.candidates.iter().zip(search.posterior()) {
        let values: Vec<f64> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Trial { candidate: of, value, .. } if *of == candidate.name => Some(*value),
                _ => None,
            })
            .collect();
        let skipped = entries.iter().find_map(|entry| match entry {
            Entry::Skipped { candidate: of, why } if *of == candidate.name => Some(why.clone()),
            _ => None,
        });
        measured.push(Measured { candidate: candidate.clone(), values, skipped, probability });
    }
    measured
}

/// What was believed after the trials, or after some of them where there are many.
fn moments(begin: &Begin, entries: &[Entry]) -> Result<Vec<Moment>, Problem> {
    let is_trial = |entry: &Entry| matches!(entry, Entry::Trial { .. });
    let mut ends: Vec<usize> = (0..entries.len()).filter(|i| is_trial(&entries[*i])).map(|i| i + 1).collect();
    if ends.is_empty() {
        ends.push(0);
    }
    let shown = ends.len().min(MOST_MOMENTS);
    let mut moments = Vec::new();
    for i in 0..shown {
        let end = ends[(i + 1) * ends.len() / shown - 1];
        let then = state(begin, &entries[..end], &options(begin))?;
        moments.push(Moment { trials: then.trials(), probabilities: then.posterior(), no_change: then.no_step() });
    }
    Ok(moments)
}
