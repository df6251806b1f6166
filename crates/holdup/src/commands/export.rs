//! `holdup export`: a bundle's numbers, or a profile, for other tools.

use crate::{bundles, output};
use clap::ArgMatches;
use holdup_host::Host;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    if let Some(("profile", matches)) = matches.subcommand() {
        return profile(matches);
    }
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
    write(matches, &text)
}

fn profile(matches: &ArgMatches) -> anyhow::Result<u8> {
    let path =
        matches.get_one::<PathBuf>("profile").ok_or_else(|| anyhow::anyhow!("clap let a missing profile through"))?;
    let profile = super::apply::read(&Host::real(), path)?;
    let places = holdup_target::profiles::places(&profile)?;
    let format = matches.get_one::<String>("profile-format").map_or("", String::as_str);
    let text = holdup_report::profile::export(format, &profile, &places)
        .ok_or_else(|| anyhow::anyhow!("clap let the format {format} through"))?;
    write(matches, &text)
}

fn write(matches: &ArgMatches, text: &str) -> anyhow::Result<u8> {
    match matches.get_one::<PathBuf>("out") {
        Some(out) => super::report::write_file(out, text)?,
        None => output::data(text)?,
    }
    Ok(0)
}
