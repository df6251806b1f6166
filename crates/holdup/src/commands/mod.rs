//! One file per command: its arguments and what it does.

pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod bisect;
mod boots;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod exporter;
mod fleet;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod import;
pub(crate) mod kernels;
pub(crate) mod list;
pub(crate) mod packets;
pub(crate) mod postgres;
pub(crate) mod predict;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod run;
mod searching;
pub(crate) mod store;
pub(crate) mod tune;
pub(crate) mod verify;
pub(crate) mod watch;

use crate::cli::Command;
use crate::output;
pub(crate) use agent::as_first_process;
use holdup_kernels::Cache;
use holdup_model::{BundleData, MemoryBudget, Problem};
use std::path::{Path, PathBuf};

/// The folder in which section maps are kept; `None` where this user has no cache.
fn maps() -> Option<PathBuf> {
    let cache = Cache::open(&Cache::default_root()).ok()?;
    Some(Cache::maps(cache.root()))
}

/// A bundle that was just written, for what is printed of it; `None`, which is said, where it is too large for that.
///
/// # Errors
/// When it cannot be read.
fn read_result(out: &Path) -> Result<Option<BundleData>, Problem> {
    let budget = MemoryBudget::default();
    match holdup_bundle::read_without_events(out, &budget) {
        Err(problem) if budget.exceeded().is_some() => {
            output::problem(&problem);
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Runs a command and returns its exit code.
///
/// # Errors
/// A [`holdup_model::Problem`], whose kind decides the exit code, or a fault of holdup.
pub(crate) fn run(command: &Command) -> anyhow::Result<u8> {
    match command {
        Command::Agent(args) => agent::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Check(args) => check::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Export(args) => export::run(args),
        Command::Exporter(args) => exporter::run(args),
        Command::Gate(args) => gate::run(args),
        Command::History(args) => history::run(args),
        Command::Hosts(args) => hosts::run(args),
        Command::Import(args) => import::run(args),
        Command::Kernels(args) => kernels::run(args),
        Command::List(args) => list::run(args),
        Command::Packets(args) => packets::run(args),
        Command::Postgres(args) => postgres::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Record(args) => record::run(args),
        Command::Report(args) => report::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Run(args) => run::run(args),
        Command::Store(args) => store::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Watch(args) => watch::run(args),
    }
}
