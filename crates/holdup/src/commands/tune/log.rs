//! `holdup tune log`: what a search has measured, and what it believes.

use crate::commands::searching::{newest_folder, print_json, write_page};
use crate::output;
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
        return print_json("holdup.tuning/1", &begin, &entries);
    }
    let beliefs = beliefs(&begin, &entries, &tuning(&begin, &entries)?);
    if let Some(file) = &args.html {
        return write_page(file, &holdup_report::tuning_html(&begin, &entries, &beliefs));
    }
    output::data(&holdup_report::tuning_log(&begin, &entries, &beliefs))?;
    Ok(0)
}
