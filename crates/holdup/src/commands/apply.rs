//! `holdup apply`: sets what a profile says.

use crate::cli;
use crate::output;
use crate::world::{self, World};
use holdup_host::Host;
use holdup_model::{Problem, Profile};
use holdup_target::profiles::{self, Subjects};
use std::path::{Path, PathBuf};

/// Set what a profile says, until `holdup restore` or the next boot
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Checks all settings before it changes the first. Runs then treat them as the
state of this host. `holdup verify PROFILE.toml` reports whether they are
still set.

Exit codes:
  0  set
  2  wrong command line or profile
  3  this host cannot do it, nothing changed
  5  failed in between and not fully restored")]
pub(crate) struct Args {
    /// The profile: name, summary and [knobs]
    #[arg(value_name = "PROFILE.toml")]
    profile: PathBuf,
    #[command(flatten)]
    subjects: cli::Subjects,
    /// Show what would change; change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let host = Host::real();
    let profile = read(&host, &args.profile)?;
    let subjects = subjects(&host, &args.subjects)?;
    let as_json = args.json;
    if args.dry_run {
        let (lines, refusal) = profiles::dry_run(&host, &subjects, &profile)?;
        output::data(&if as_json {
            holdup_report::profile::json(&profile, &lines)
        } else {
            let text = holdup_report::profile::terminal(&profile, &lines);
            format!("{text}{}", holdup_report::profile::touches(&lines))
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
pub(super) fn read(host: &Host, path: &Path) -> Result<Profile, Problem> {
    let text = world::read_profile(path)?;
    World::here(host).profile(&path.display().to_string(), &text)
}

/// The server and the processes that a profile applies to.
///
/// # Errors
/// When the server cannot be reached, or a process is not there.
pub(super) fn subjects(host: &Host, args: &cli::Subjects) -> Result<Subjects, Problem> {
    Subjects::reach(host, args.pg.as_deref(), &args.pid)
}
