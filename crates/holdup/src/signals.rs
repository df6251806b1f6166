//! Signals that would end the process ask a run to end; it restores the host and keeps what was measured.

use holdup_load::Cancel;
use holdup_model::Problem;
use rustix::process::Signal;

/// With SIGXFSZ a write beyond the limit fails with EFBIG, as on a full disk (write(2)).
const ENDING: [Signal; 14] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::XFSZ,
    Signal::XCPU,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::USR1,
    Signal::USR2,
    Signal::IO,
    Signal::POWER,
    Signal::STKFLT,
];

/// A cancel that signals set.
pub(crate) fn cancel_on_signals() -> Result<Cancel, Problem> {
    cancel_on_signals_but(&[])
}

/// As [`cancel_on_signals`], where some signals ask for something else.
pub(crate) fn cancel_on_signals_but(kept: &[i32]) -> Result<Cancel, Problem> {
    let cancel = Cancel::default();
    for signal in ENDING.map(Signal::as_raw).into_iter().filter(|signal| !kept.contains(signal)) {
        signal_hook::flag::register(signal, cancel.flag())
            .map_err(|e| Problem::internal("signal handler", e.to_string()))?;
    }
    Ok(cancel)
}
