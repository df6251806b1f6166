//! The workloads of plans as programs: one file each, and this list. Ids, parameters and metrics are those of the real
//! workloads.

pub mod lock_contention;
mod messenger;
mod mixed;
mod pgbench;
mod ping;
mod replay;
mod stream;
mod wakeup;

use crate::machine::Machine;
use crate::stats::{ProgramStats, SwitchOut, WindowStats};
use crate::world::Load;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem, Replay, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The levels of an arm's factors.
pub type Levels = BTreeMap<String, Value>;

/// What the files hold that parameters name: the simulator reads none.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// The trace of `replay`.
    pub trace: Option<Arc<Replay>>,
}

/// The metrics and histograms of a window.
pub type Results = (Vec<Measurement>, Vec<NamedHistogram>);

/// A workload as programs.
pub trait Workload: Sync {
    /// The id of the workload that it stands for.
    fn id(&self) -> &'static str;
    /// What the simulated one leaves out, in a sentence; shown before the run.
    fn leaves_out(&self) -> &'static str;
    /// The workloads that it is made of, with these parameters; none for most.
    fn members(&self, _parameters: &Parameters) -> Vec<&'static dyn Workload> {
        Vec::new()
    }
    /// What a factor of the plan changes in it, in words; `None` for a factor that it does not have.
    fn changes(&self, _factor: &str) -> Option<&'static str> {
        None
    }
    /// The programs, tasks, locks, memory, channels and devices of one arm.
    ///
    /// # Errors
    /// When a parameter has no counterpart in the simulation.
    fn load(&self, parameters: &Parameters, levels: &Levels, machine: &Machine, files: &Files)
    -> Result<Load, Problem>;
    /// The metrics of an arm from the counters of its load in a window of this length, absent where the simulation has
    /// none.
    fn results(&self, parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results;
}

/// Every workload, in the order shown to users.
pub const ALL: &[&dyn Workload] = &[
    &pgbench::Pgbench,
    &lock_contention::LockContention,
    &messenger::Messenger,
    &wakeup::Wakeup,
    &stream::Stream,
    &ping::Ping,
    &replay::ReplayWorkload,
    &mixed::Mixed,
];

pub fn find(id: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|w| w.id() == id)
}

/// What the kernel counts of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    /// Switch-outs of tasks that wait.
    pub(crate) voluntary: u64,
    /// Switch-outs of tasks that could go on.
    pub(crate) involuntary: u64,
    /// CPU time, ns.
    pub(crate) cpu_ns: u64,
}

/// The account of the tasks of some programs.
pub(crate) fn account(roles: &[ProgramStats]) -> Account {
    let sum = |of: fn(&ProgramStats) -> u64| roles.iter().map(of).sum();
    Account {
        voluntary: sum(|r| r.switch_outs[SwitchOut::Blocked as usize]),
        involuntary: sum(|r| {
            r.switch_outs[SwitchOut::AtBoundary as usize] + r.switch_outs[SwitchOut::InKernel as usize]
        }),
        cpu_ns: sum(|r| r.user_ns + r.kernel_ns + r.spin_ns),
    }
}
