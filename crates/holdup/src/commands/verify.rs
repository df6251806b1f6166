//! `holdup verify`: whether a bundle is whole.

use crate::output;
use clap::ArgMatches;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path =
        matches.get_one::<PathBuf>("bundle").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let wholeness = holdup_store::verify(path)?;
    if matches.get_flag("json") {
        let document = serde_json::json!({
            "schema": "holdup.verify/1",
            "file": path.display().to_string(),
            "whole": wholeness.whole,
            "lines": wholeness.lines,
        });
        output::data(&serde_json::to_string_pretty(&document)?)?;
    } else {
        let head = if wholeness.whole { "whole" } else { "not whole" };
        output::data(&format!("{}: {head}\n  {}", path.display(), wholeness.lines.join("\n  ")))?;
    }
    Ok(u8::from(!wholeness.whole))
}
