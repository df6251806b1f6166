//! `holdup export`: a bundle's numbers for other tools.

use crate::{bundles, output};
use clap::ArgMatches;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path =
        matches.get_one::<PathBuf>("bundle").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let bundle = bundles::read(path)?;
    let analysis = holdup_analysis::analyse(&bundle);
    let text = match matches.get_one::<String>("format").map(String::as_str) {
        Some("csv") => holdup_report::csv(&bundle, &analysis),
        Some("benchstat") => holdup_report::benchstat(&bundle, &analysis),
        Some("plan") => bundle.plan_source.clone(),
        _ => holdup_report::json(&bundle, &analysis),
    };
    match matches.get_one::<PathBuf>("out") {
        Some(out) => super::report::write_file(out, &text)?,
        None => output::data(&text)?,
    }
    Ok(0)
}
