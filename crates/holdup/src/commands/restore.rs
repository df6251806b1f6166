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
    let (restored, broken) = profiles::restore(&host, matches.get_one::<String>("pg").map(String::as_str))?;
    for note in &restored.notes {
        output::say(note);
    }
    for left in &restored.left {
        output::error(&left.to_string());
    }
    if !restored.left.is_empty() {
        output::say(
            "hint: put back by hand what you want back, then `holdup restore` again; --forget lets go of the rest",
        );
    }
    let mut broken = broken.into_iter();
    match (broken.next(), broken.next()) {
        (Some(first), second) => {
            if let Some(second) = second {
                output::error(&format!("{}: {}", second.what, second.why));
            }
            return Err(first.into());
        }
        (None, _) if !restored.left.is_empty() => return Ok(5),
        (None, _) => {}
    }
    output::data(if restored.restored.is_empty() { "nothing to restore" } else { "restored" })?;
    Ok(0)
}
