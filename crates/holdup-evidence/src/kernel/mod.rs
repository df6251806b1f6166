//! Watching inside the kernel: one BPF object, of which each collector switches on its [`Part`].
//!
//! The program at the switch looks a task's state up once and serves all collectors, so those of one trial start together:
//! [`Watch`] is loaded with the parts of all, and each collector reports its own of the [`WindowCounts`].

pub(crate) mod analysed;
mod cache;
mod call;
mod collector;
mod counts;
mod fault_slices;
mod filter;
mod largest;
pub(crate) mod layout;
mod load;
mod part;
pub(crate) mod probe;
mod residuals;
mod stats;
mod table;
mod watch;

pub use analysed::keep_map;
pub(crate) use collector::{KernelCollector, Windows};
pub(crate) use counts::{OTHERS, SectionStats, WindowCounts, task_name};
pub(crate) use load::HAS_SCHED_EXIT;
pub use part::Part;
pub(crate) use part::{At, Parts, Program};
pub(crate) use probe::probe;
pub(crate) use watch::{OffCpu, SAMPLE_PERIOD_NS, Watch};

use crate::CollectContext;
use holdup_model::{Coverage, SelfCost};
use std::sync::atomic::Ordering;

/// The roles of the processes under test, each once, in their order: a role's index is its number in the tables.
pub(crate) fn roles(context: &CollectContext) -> Vec<String> {
    let mut roles: Vec<String> = Vec::new();
    for subject in &context.subjects {
        if !roles.contains(&subject.role) {
            roles.push(subject.role.clone());
        }
    }
    roles.truncate(layout::ROLES);
    roles
}

/// What is missing of a window.
pub(crate) fn coverage(counts: &WindowCounts, events: u64) -> Coverage {
    let lost = counts.lost.iter().map(|(count, _)| count).sum();
    let mut notes: Vec<String> = counts.lost.iter().map(|(count, why)| format!("{count} {why}")).collect();
    notes.extend(counts.notes.iter().cloned());
    Coverage { seen: events, lost, notes }
}

/// What watching cost. The programs serve all collectors, so the first one that asks reports their cost, and the others say
/// so: a sum over collectors is right.
pub(crate) fn cost(counts: &WindowCounts, coverage: &mut Coverage) -> SelfCost {
    if counts.cost_is_reported.swap(true, Ordering::Relaxed) {
        coverage.notes.push("its cost is part of that of another collector that watches inside the kernel".to_owned());
        return SelfCost::default();
    }
    SelfCost { cpu_ns: counts.cpu_ns, wakeups: 2, bytes: 0, bpf: counts.bpf, memory_bytes: counts.memory_bytes }
}
