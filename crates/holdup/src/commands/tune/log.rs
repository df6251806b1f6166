//! `holdup tune log`: what a search has measured, and what it believes.

use crate::commands::searching::newest_folder;
use crate::output;
use holdup_model::Problem;
use holdup_model::tuning::Entry;
use holdup_search::{Log, beliefs, tuning};
use std::path::PathBuf;

/// Print what a search has measured so far
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder of the search [default: the newest tune-N here]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print every line of the log as JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write it as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let folder = args.folder.clone().map_or_else(newest_folder::<Entry>, Ok)?;
    let (begin, entries) = Log::<Entry>::read(&folder)?;
    if args.json {
        let document = serde_json::json!({"schema": "holdup.tuning/1", "begin": begin, "entries": entries});
        output::data(&serde_json::to_string_pretty(&document)?)?;
        return Ok(0);
    }
    let beliefs = beliefs(&begin, &entries, &tuning(&begin, &entries)?);
    match &args.html {
        None => output::data(&holdup_report::tuning_log(&begin, &entries, &beliefs))?,
        Some(file) => {
            let page = holdup_report::tuning_html(&begin, &entries, &beliefs);
            holdup_files::write_output(file, page.as_bytes())
                .map_err(|e| Problem::usage(format!("page {}", file.display()), e.to_string()))?;
            output::say(&format!("page: {}", file.display()));
        }
    }
    Ok(0)
}
