//! `holdup verify`: whether a bundle is whole, or a profile in force.

use crate::output;
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::profile::ProfileState;
use holdup_model::{Problem, Profile};
use holdup_report::profile;
use holdup_target::profiles;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.get_one::<PathBuf>("file") {
        Some(path) if is_profile(path) => {
            let host = Host::real();
            let profile = super::apply::read(&host, path)?;
            in_force(&host, matches, &profile)
        }
        Some(path) => whole(path, matches.get_flag("json")),
        None => {
            let host = Host::real();
            let applied = profiles::applied(&host)?;
            let profile = profiles::together(&applied).ok_or_else(|| {
                Problem::usage("holdup verify", "no profile is applied on this host")
                    .hint("name a profile (PROFILE.toml) or a bundle (FILE.holdup)")
            })?;
            in_force(&host, matches, &profile)
        }
    }
}

/// A profile is text that is called `.toml`; whatever begins as a database does is a bundle under any name.
fn is_profile(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = holdup_files::open_input(path).and_then(|file| file.take(16).read_to_end(&mut begin));
    path.extension().is_some_and(|ending| ending == "toml") && (read.is_err() || begin != b"SQLite format 3\0")
}

fn in_force(host: &Host, matches: &ArgMatches, profile: &Profile) -> anyhow::Result<u8> {
    let lines = profiles::verify(host, &super::apply::subjects(host, matches)?, &profile.settings)?;
    let as_json = matches.get_flag("json");
    output::data(&if as_json { profile::json(profile, &lines) } else { profile::terminal(profile, &lines) })?;
    let has = |state| lines.iter().any(|line| line.state == state);
    Ok(if has(ProfileState::Differs) {
        1
    } else if has(ProfileState::Unavailable) {
        3
    } else {
        0
    })
}

fn whole(path: &Path, as_json: bool) -> anyhow::Result<u8> {
    let wholeness = holdup_store::verify(path)?;
    if as_json {
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
