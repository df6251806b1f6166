//! `holdup apply`: a profile is put in force and stays.

use crate::output;
use crate::world::{self, World};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::{Problem, Profile};
use holdup_target::profiles::{self, Subjects};
use std::path::{Path, PathBuf};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    let path = matches.get_one::<PathBuf>("profile").ok_or_else(|| anyhow::anyhow!("clap let nothing through"))?;
    let profile = read(&host, path)?;
    let subjects = subjects(&host, matches)?;
    let as_json = matches.get_flag("json");
    if matches.get_flag("dry-run") {
        let (lines, refusal) = profiles::dry_run(&host, &subjects, &profile)?;
        output::data(&if as_json {
            holdup_report::profile::json(&profile, &lines)
        } else {
            let told = holdup_report::profile::terminal(&profile, &lines);
            format!("{told}{}", holdup_report::profile::touches(&lines))
        })?;
        return refusal.map_or(Ok(0), |problem| Err(problem.into()));
    }
    let (lines, notes) = profiles::apply(&host, &subjects, &profile)?;
    notes.iter().for_each(|note| output::say(note));
    output::data(&if as_json {
        holdup_report::profile::json(&profile, &lines)
    } else {
        holdup_report::profile::terminal(&profile, &lines)
    })?;
    Ok(0)
}

/// A profile as it is checked on this host.
///
/// # Errors
/// When the file cannot be read, or is no profile.
pub(super) fn read(host: &Host, path: &Path) -> Result<Profile, Problem> {
    let text = world::read_profile(path)?;
    World::here(host).profile(&path.display().to_string(), &text)
}

/// What the options say that a profile acts on.
///
/// # Errors
/// When the server cannot be reached, or a process is not there.
pub(super) fn subjects(host: &Host, matches: &ArgMatches) -> Result<Subjects, Problem> {
    let pids: Vec<u32> = matches.get_many::<u32>("pid").map(|pids| pids.copied().collect()).unwrap_or_default();
    Subjects::reach(host, matches.get_one::<String>("pg").map(String::as_str), &pids)
}
