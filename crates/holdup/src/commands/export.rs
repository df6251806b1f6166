//! `holdup export`: a bundle's numbers, or a profile, for other tools.

use crate::{bundles, output};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::{BundleData, Problem};
use holdup_report::Choice;
use std::path::PathBuf;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    if let Some(("profile", matches)) = matches.subcommand() {
        return profile(matches);
    }
    let path =
        matches.get_one::<PathBuf>("bundle").ok_or_else(|| anyhow::anyhow!("clap let a missing bundle through"))?;
    let bundle = bundles::read(path)?;
    let format = matches.get_one::<String>("format").map_or("json", String::as_str);
    if let Some(text) = of_trials(format, &bundle, matches)? {
        return write(matches, &text);
    }
    let analysis = holdup_analysis::analyse(&bundle);
    let text = match format {
        "csv" => holdup_report::csv(&bundle, &analysis),
        "benchstat" => holdup_report::benchstat(&bundle, &analysis),
        "plan" => bundle.plan_source.clone(),
        "flows" => holdup_report::flows(&bundle)?,
        _ => holdup_report::json(&bundle, &analysis),
    };
    write(matches, &text)
}

/// The formats of some trials alone; `None` for those of the whole bundle.
fn of_trials(format: &str, bundle: &BundleData, matches: &ArgMatches) -> Result<Option<String>, Problem> {
    let choice = Choice {
        arm: matches.get_one::<String>("arm").cloned(),
        trial: matches.get_one::<u32>("trial").copied(),
        profile: matches.get_one::<String>("profile-name").cloned(),
    };
    let text = match format {
        "perfetto" if choice.profile.is_some() => {
            return Err(Problem::usage("--profile", "it chooses stacks, and perfetto shows a timeline"));
        }
        "perfetto" => {
            let (trial, timeline) = holdup_report::timeline(bundle, &choice)?;
            let arm = bundle.schedule.arms.iter().find(|a| a.id == trial.arm).map_or("", |a| a.label.as_str());
            holdup_report::perfetto(timeline, &format!("trial {}, {arm}", trial.seq))
        }
        other if let Some(format) = holdup_report::stacks::ALL.iter().find(|f| f.id == other) => {
            (format.render)(&holdup_report::stack_profile(bundle, &choice)?)
        }
        other if choice != Choice::default() => {
            return Err(Problem::usage(
                "--arm, --trial and --profile",
                format!("the format {other} is of the whole bundle"),
            )
            .hint("leave them out, or choose a format of stacks or timelines"));
        }
        _ => return Ok(None),
    };
    Ok(Some(text))
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
        None => output::exact(text)?,
    }
    Ok(0)
}
