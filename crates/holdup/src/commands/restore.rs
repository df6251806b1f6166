//! `holdup restore`: what a run that was killed left changed.

use crate::output;
use clap::ArgMatches;
use holdup_host::lock::HostLock;
use holdup_host::{Host, state};
use holdup_knobs::journal;
use std::time::Duration;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    // A run under way restores by itself at its end; taking its knobs away now would spoil it.
    let _lock = HostLock::take(Duration::ZERO, &|| false)?;
    let host = Host::real();
    let path = state::journal_path();
    if matches.get_flag("forget") {
        let forgotten = journal::forget(&host, &path)?;
        for line in forgotten {
            output::say(&format!("forgotten: {line}"));
        }
        return Ok(0);
    }
    let recovered = journal::recover(&host, &path, &|server| holdup_target::reach(&host, server))?;
    for note in &recovered.notes {
        output::say(note);
    }
    if recovered.left.is_empty() {
        output::data(if recovered.restored.is_empty() { "nothing to restore" } else { "restored" })?;
        return Ok(0);
    }
    for left in &recovered.left {
        output::error(&left.to_string());
    }
    Ok(5)
}
