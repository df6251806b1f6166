//! `holdup restore`: what a run that was killed left changed, and what a profile has set.

use crate::output;
use clap::ArgMatches;
use holdup_host::Host;
use holdup_target::profiles;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    if matches.get_flag("forget") {
        for line in profiles::forget(&host)? {
            output::say(&format!("forgotten: {line}"));
        }
        return Ok(0);
    }
    let restored = profiles::restore(&host, matches.get_one::<String>("pg").map(String::as_str))?;
    for note in &restored.notes {
        output::say(note);
    }
    if restored.left.is_empty() {
        output::data(if restored.restored.is_empty() { "nothing to restore" } else { "restored" })?;
        return Ok(0);
    }
    for left in &restored.left {
        output::error(&left.to_string());
    }
    Ok(5)
}
