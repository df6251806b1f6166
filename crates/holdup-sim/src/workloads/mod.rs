//! The workloads of plans as programs: one file each, and this list. Ids, parameters and metrics are those of the real
//! workloads.

pub mod lock_contention;
mod pgbench;

use crate::machine::Machine;
use crate::seen::Seen;
use crate::world::Load;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem, Value};
use std::collections::BTreeMap;

/// The levels of an arm's factors.
pub type Levels = BTreeMap<String, Value>;

/// A workload that can be said as programs.
pub trait Workload: Sync {
    /// The id of the workload that it stands for.
    fn id(&self) -> &'static str;
    /// What the simulated one leaves out, in a sentence; shown before the run.
    fn leaves_out(&self) -> &'static str;
    /// What a factor of the plan changes in it, in words; `None` for a factor that it does not have.
    fn changes(&self, _factor: &str) -> Option<&'static str> {
        None
    }
    /// The programs, tasks, locks, memory, channels and devices of one arm.
    ///
    /// # Errors
    /// When a parameter has no counterpart in the simulation.
    fn load(&self, parameters: &Parameters, levels: &Levels, machine: &Machine) -> Result<Load, Problem>;
    /// The metrics of the workload from what was seen in a window of this length, absent where the simulation does not
    /// tell.
    fn results(&self, seen: &Seen, length_ns: u64) -> (Vec<Measurement>, Vec<NamedHistogram>);
}

/// Every workload, in the order shown to users.
pub const ALL: &[&dyn Workload] = &[&pgbench::Pgbench, &lock_contention::LockContention];

/// The workload with this id.
pub fn find(id: &str) -> Option<&'static dyn Workload> {
    ALL.iter().copied().find(|w| w.id() == id)
}
