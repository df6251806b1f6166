//! `holdup verify`: whether a bundle is intact, or the values of a profile are set.

use crate::cli::{MemoryLimit, Subjects};
use crate::output;
use holdup_host::Host;
use holdup_model::foreign::line;
use holdup_model::profile::ProfileState;
use holdup_model::{Problem, Profile};
use holdup_report::profile;
use holdup_target::profiles;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Verify that a bundle is intact, or that a profile is in force
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Without a file it verifies the profiles that were applied on this host.

Exit codes:
  0  yes
  1  no
  2  wrong command line
  3  undecided")]
pub(crate) struct Args {
    /// The bundle or the profile
    #[arg(value_name = "FILE.holdup|PROFILE.toml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    subjects: Subjects,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    match &args.file {
        Some(path) if is_profile(path) => {
            let host = Host::real();
            let profile = super::apply::read(&host, path)?;
            in_force(&host, args, &profile)
        }
        Some(path) => whole(path, args),
        None => {
            let host = Host::real();
            let applied = profiles::applied(&host)?;
            let profile = profiles::together(&applied).ok_or_else(|| {
                Problem::usage("holdup verify", "no profile is applied on this host")
                    .hint("name a profile (PROFILE.toml) or a bundle (FILE.holdup)")
            })?;
            in_force(&host, args, &profile)
        }
    }
}

/// A profile ends in `.toml`; a file that begins as a database does is a bundle under any name.
fn is_profile(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = holdup_files::open_input(path).and_then(|file| file.take(16).read_to_end(&mut begin));
    path.extension().is_some_and(|ending| ending == "toml") && (read.is_err() || begin != b"SQLite format 3\0")
}

fn in_force(host: &Host, args: &Args, profile: &Profile) -> anyhow::Result<u8> {
    let lines = profiles::verify(host, &super::apply::subjects(host, &args.subjects)?, &profile.settings)?;
    output::data(&if args.json { profile::json(profile, &lines) } else { profile::terminal(profile, &lines) })?;
    let has = |state| lines.iter().any(|line| line.state == state);
    Ok(if has(ProfileState::Differs) {
        1
    } else if has(ProfileState::Unavailable) {
        3
    } else {
        0
    })
}

fn whole(path: &Path, args: &Args) -> anyhow::Result<u8> {
    let wholeness = holdup_bundle::verify(path, &args.memory.budget())?;
    if args.json {
        let document = serde_json::json!({
            "schema": "holdup.verify/1",
            "file": path.display().to_string(),
            "whole": wholeness.whole,
            "lines": wholeness.lines,
        });
        output::data(&serde_json::to_string_pretty(&document)?)?;
    } else {
        let head = if wholeness.whole { "whole" } else { "not whole" };
        let lines: Vec<String> = wholeness.lines.iter().map(|found| line(found)).collect();
        output::data(&format!("{}: {head}\n  {}", line(&path.display().to_string()), lines.join("\n  ")))?;
    }
    Ok(u8::from(!wholeness.whole))
}
