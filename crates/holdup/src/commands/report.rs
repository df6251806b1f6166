//! `holdup report`: the terminal's table, a page, Markdown, JSON.

use crate::{bundles, output};
use clap::ArgMatches;
use holdup_model::Problem;
use holdup_report::TerminalOptions;
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path =
        matches.get_one::<PathBuf>("bundle").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let bundle = bundles::read(path)?;
    let analysis = holdup_analysis::analyse(&bundle);
    let mut written = false;
    if let Some(out) = matches.get_one::<PathBuf>("html") {
        write_file(out, &holdup_report::html(&bundle, &analysis))?;
        written = true;
    }
    if let Some(out) = matches.get_one::<PathBuf>("markdown") {
        write_file(out, &holdup_report::markdown(&bundle, &analysis))?;
        written = true;
    }
    if matches.get_flag("json") {
        output::data(&holdup_report::json(&bundle, &analysis))?;
    } else if !written {
        let options = TerminalOptions { width: output::width(), color: output::wants_color() };
        output::data(&holdup_report::terminal(&bundle, &analysis, &options))?;
    }
    Ok(0)
}

/// Writes a rendering; `-` is stdout.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_file(out: &Path, text: &str) -> Result<(), Problem> {
    if out == Path::new("-") {
        return output::exact(text);
    }
    holdup_files::write_output(out, text.as_bytes()).map_err(|e| {
        Problem::host(format!("cannot write {}", out.display()), e.to_string())
            .hint("name a new file, or a regular file to replace, in a folder that exists")
    })?;
    output::say(&format!("wrote {}", out.display()));
    Ok(())
}
