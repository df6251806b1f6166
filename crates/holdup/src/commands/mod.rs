//! One file per command.

mod agent;
mod apply;
mod boots;
mod calibrate;
mod check;
mod compare;
mod explain;
mod export;
mod import;
mod kernels;
mod list;
mod packets;
mod predict;
mod record;
mod report;
mod restore;
mod run;
mod verify;

pub(crate) use agent::as_first_process;
use clap::ArgMatches;

/// Runs the command that was typed; gives its exit code.
///
/// # Errors
/// A [`holdup_model::Problem`], whose kind decides the exit code, or a fault of holdup.
pub(crate) fn dispatch(matches: &ArgMatches) -> anyhow::Result<u8> {
    match matches.subcommand() {
        Some(("agent", _)) => agent::run(),
        Some(("check", m)) => check::run(m),
        Some(("run", m)) => run::run(m),
        Some(("record", m)) => record::run(m),
        Some(("explain", m)) => explain::run(m),
        Some(("compare", m)) => compare::run(m),
        Some(("report", m)) => report::run(m),
        Some(("packets", m)) => packets::run(m),
        Some(("kernels", m)) => kernels::run(m),
        Some(("calibrate", m)) => calibrate::run(m),
        Some(("predict", m)) => predict::run(m),
        Some(("list", m)) => list::run(m),
        Some(("export", m)) => export::run(m),
        Some(("import", m)) => import::run(m),
        Some(("apply", m)) => apply::run(m),
        Some(("verify", m)) => verify::run(m),
        Some(("restore", m)) => restore::run(m),
        _ => anyhow::bail!("clap let an unknown command through"),
    }
}
