//! SIGINT, SIGTERM and SIGHUP ask a run to end; it restores the host and keeps what was measured.

use holdup_load::Cancel;
use holdup_model::Problem;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A cancel that signals set.
pub(crate) fn cancel_on_signals() -> Result<Cancel, Problem> {
    let cancel = Cancel::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, cancel.flag())
            .map_err(|e| Problem::internal("signal handler", e.to_string()))?;
    }
    Ok(cancel)
}
