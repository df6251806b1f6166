//! `holdup report`: the terminal's table, a page, Markdown, JSON.

use crate::cli::MemoryLimit;
use crate::output;
use holdup_bundle::Reader;
use holdup_model::Problem;
use std::path::{Path, PathBuf};

/// Print the report of a bundle, or write it as HTML or Markdown
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The bundle
    #[arg(value_name = "FILE.holdup")]
    bundle: PathBuf,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Write one page that works offline (- for stdout)
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Write Markdown (- for stdout)
    #[arg(long, value_name = "OUT.md")]
    markdown: Option<PathBuf>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let budget = args.memory.budget();
    let bundle = holdup_bundle::read_without_events(&args.bundle, &budget)?;
    let analysis = holdup_analysis::analyse(&bundle);
    if let Some(out) = &args.html {
        let reader = Reader::open(&args.bundle, &budget)?;
        write_file(out, &holdup_report::html_with(&bundle, &analysis, &|seq| reader.trial(seq))?)?;
    }
    if let Some(out) = &args.markdown {
        write_file(out, &holdup_report::markdown(&bundle, &analysis))?;
    }
    if args.json {
        output::data(&holdup_report::json(&bundle, &analysis))?;
    } else if args.html.is_none() && args.markdown.is_none() {
        output::data(&holdup_report::terminal(&bundle, &analysis, &output::terminal(args.details)))?;
    }
    Ok(0)
}

/// Writes a rendering; `-` is stdout.
pub(super) fn write_file(out: &Path, text: &str) -> Result<(), Problem> {
    if out == Path::new("-") {
        return output::exact(text);
    }
    holdup_files::write_output(out, text.as_bytes()).map_err(|e| unwritable(out, &e))?;
    output::say(&format!("wrote {}", out.display()));
    Ok(())
}

/// A file that cannot be written.
pub(super) fn unwritable(out: &Path, e: &std::io::Error) -> Problem {
    Problem::host(format!("cannot write {}", out.display()), e.to_string())
        .hint("name a new file, or a regular file to replace, in a folder that exists")
}
