//! Where trials run, and the loop that runs them.
//!
//! The run loop ([`run()`]) walks the schedule and writes the bundle; a target (`targets`) opens sessions and runs single
//! trials: on this host (`local`), in guests (`qemu`) and on other hosts (`ssh`), both with the agent of [`agent`], or simulated (`sim`, which also
//! calibrates and predicts). Beside it are records of systems that run already ([`record()`]), imports of captures, and
//! profiles on this host ([`profiles`]).
//!
//! Not here: workloads, knobs, collectors and the simulated machine, which sessions use, and the bundle's format. Nothing
//! here prints: progress goes through an [`Observer`](holdup_model::Observer). Start with `run.rs` and `session.rs`.

pub mod agent;
mod asking;
mod budget;
mod head;
mod import;
mod levels;
mod local;
mod merge;
mod parallel;
mod part;
pub mod profiles;
mod qemu;
mod run;
mod servers;
mod session;
mod sim;
mod ssh;
pub mod targets;
mod trace_file;
mod vocabulary;

use holdup_model::{Machine, Problem};
use holdup_sim::machine::catalogue;

pub use holdup_sim::machine::{Described, OMISSIONS, Provenance};
pub use holdup_ssh::SshOptions;

pub use import::{Imported, head_of_import, import};
pub use local::reach;
pub use merge::{Added, Begun, Merger, NotAdded};
pub use profiles::put_back_left;
pub use qemu::BootCache;
pub use run::{Earlier, Part, RunOutcome, RunRequest, run};
pub use session::{Closed, GuestOptions, Readiness, Session, SessionRequest, Target, TrialDraft};
pub use sim::{CalibrateRequest, PredictRequest, Sweep, calibrate, calibrate_guest, described_of, predict, trial_cost};
pub use trace_file::open_trace;
pub use vocabulary::vocabulary;

/// The target that a plan names, as `ID` or as `ID:ARGUMENT`.
pub fn find(name: &str) -> Option<&'static dyn Target> {
    let (id, argument) = name.split_once(':').unwrap_or((name, ""));
    targets::ALL.iter().copied().find(|t| t.meta().id == id && (argument.is_empty() || t.takes_argument()))
}

/// The machines of the simulator's catalogue.
pub fn known_machines() -> Vec<Described> {
    // Each of them is read by a test.
    catalogue::names().into_iter().filter_map(|name| catalogue::find(name).ok()).collect()
}

pub fn known_machine(name: &str) -> Result<Described, Problem> {
    catalogue::find(name)
}

/// The text of the machine file that a simulated target names, unless the catalogue has it.
///
/// # Errors
/// When it cannot be read.
pub fn machine_text(host: &holdup_host::Host, target: &str) -> Result<Option<String>, Problem> {
    sim::text_of(host, target)
}

pub fn is_simulated(workload: &str) -> bool {
    holdup_sim::workloads::find(workload).is_some()
}

/// All metrics of a workload of a plan, turned as the plan has them.
///
/// # Errors
/// When there is no such workload.
pub fn metrics_of(
    plan: &holdup_model::Plan,
    used: &holdup_model::WorkloadUse,
) -> Result<Vec<holdup_model::Metric>, Problem> {
    let metrics = local::metrics_of(plan, used, local::workload_of(used)?);
    Ok(metrics.into_iter().map(|(_, metric)| metric).collect())
}

/// True if a simulated machine, or a workload on it, has a factor.
pub fn is_simulated_factor(name: &str) -> bool {
    sim::changes(name).is_some()
}

/// The machine that relative sizes in a plan are relative to, where its target names one: a simulated machine.
pub fn machine_of(host: &holdup_host::Host, target: &str) -> Result<Option<Machine>, Problem> {
    let argument = target.split_once(':').map_or("", |(_, argument)| argument);
    find(target).map_or(Ok(None), |t| t.machine(host, argument))
}

/// A checked plan of a test, and its schedule.
#[cfg(test)]
pub(crate) fn checked(text: &str, machine: Machine) -> (holdup_model::Plan, holdup_model::Schedule) {
    let inputs = holdup_plan::Inputs {
        machine,
        vocabulary: &vocabulary(),
        environment: &|_| None,
        read_include: &|path| Err(format!("{path} is not read")),
        machine_of: &|_| Ok(Some(machine)),
        overrides: &holdup_plan::Overrides::default(),
    };
    let plan = holdup_plan::check("test.toml", text, &inputs).expect("a plan");
    let schedule = holdup_plan::schedule(&plan).expect("a schedule");
    (plan, schedule)
}
