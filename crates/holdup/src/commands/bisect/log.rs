//! `holdup bisect log`: what a search has measured, and what it believes.

use super::newest_folder;
use crate::output;
use holdup_model::search::{Entry, Measured};
use holdup_search::{Log, state};
use holdup_stats::bisection::Options;
use std::path::PathBuf;

/// Print what a search has measured so far
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the search [default: the newest bisect-N here]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print every line of the log as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let folder = args.folder.clone().map_or_else(newest_folder, Ok)?;
    let (begin, entries) = Log::read(&folder)?;
    if args.json {
        let document = serde_json::json!({"schema": "holdup.search/1", "begin": begin, "entries": entries});
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(0);
    }
    let search = state(&begin, &entries, &Options::default())?;
    let posterior = search.posterior();
    let mut measured: Vec<Measured> = Vec::new();
    for (candidate, probability) in begin.candidates.iter().zip(&posterior) {
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
        measured.push(Measured { candidate: candidate.clone(), values, skipped, probability: *probability });
    }
    output::data(&holdup_report::search_log(&begin, &entries, &measured, search.no_step(), &output::terminal(false)))?;
    Ok(0)
}
