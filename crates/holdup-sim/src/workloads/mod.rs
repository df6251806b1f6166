//! The workloads of plans as programs: one file each, and this list. Ids, parameters and metrics are those of the real
//! workloads.

pub mod lock_contention;
mod pgbench;

use crate::machine::Machine;
use crate::seen::Seen;
use crate::world::Load;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Parameters, Problem, Value};
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

/// A percentile, absent with fewer than 10 samples beyond it.
pub(crate) fn percentile(id: &str, histogram: &Histogram, quantile: f64, unit_ns: f64) -> Measurement {
    let beyond = histogram.samples_beyond(quantile);
    match histogram.quantile_ns(quantile) {
        // Half a sample's tolerance, because 1 - 0.999 is a little less than a thousandth.
        Some(ns) if beyond > 9.5 => Measurement::new(id, ns as f64 / unit_ns),
        _ => Measurement::absent(id, format!("{} samples, {beyond:.1} beyond it; 10 are needed", histogram.count())),
    }
}

/// A rate per second, absent where the window had no length.
pub(crate) fn per_second(id: &str, count: u64, length_ns: u64) -> Measurement {
    match length_ns {
        0 => Measurement::absent(id, "the window had no length"),
        ns => Measurement::new(id, count as f64 * 1e9 / ns as f64),
    }
}

/// A number per operation, absent where there was none.
pub(crate) fn per_operation(id: &str, count: u64, operations: u64) -> Measurement {
    match operations {
        0 => Measurement::absent(id, "no operation was completed in the window"),
        n => Measurement::new(id, count as f64 / n as f64),
    }
}

/// A parameter that a checked plan holds.
pub(crate) fn whole(parameters: &Parameters, name: &str) -> Result<u64, Problem> {
    let value = parameters.integer(name)?.ok_or_else(|| missing(name))?;
    u64::try_from(value).map_err(|_| Problem::usage(format!("{name} {value}"), "it is negative"))
}

/// A word that a checked plan holds.
pub(crate) fn word<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Problem> {
    parameters.text(name)?.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Problem {
    Problem::internal(format!("parameter {name}"), "the checked plan holds no value for it")
}
