//! Watching inside the kernel: one BPF object, of which each collector switches on its part.
//!
//! The program at the switch looks a task's state up once and serves all collectors, so those of one trial are started
//! together: [`Watch`] is loaded with the wishes of all, and each collector reads its own part of [`Seen`].

mod collector;
mod kept;
mod layout;
mod lines;
mod load;
mod probe;
mod programs;
mod residuals;
mod seen;
mod stats;
mod table;
mod watch;

pub(crate) use collector::KernelCollector;
pub(crate) use layout::name as comm_name;
pub(crate) use layout::{
    CAUSES, CONTEXTS, EVENT_SWITCH, EVENT_WAKEUP, Event, FAULTS, HELD, HISTOGRAM_FAULT, HISTOGRAM_OFF, HISTOGRAM_ON,
    HISTOGRAM_WAIT_PREEMPTED, HISTOGRAM_WAIT_WOKEN, PLACE_KERNEL, PLACE_THROTTLED, PLACE_USER, PLACES, SECTION_FAULT,
    SECTION_OFF, STACK_BACK, STACK_EXEC, STACK_FORK, STACK_LEFT, STACK_OFF, STACK_WAKER, StackSample, USER_BITS64,
    USER_NONE, USER_OTHER, read,
};
pub(crate) use probe::probe;
pub(crate) use seen::{Hog, RoleSeen, SectionSeen, Seen};
pub(crate) use watch::{OffCpu, Watch};

use crate::CollectContext;
use holdup_model::{Coverage, SelfCost};
use std::sync::atomic::Ordering;

/// Parts of the object that collectors ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// Every switch of the tasks under test.
    pub switches: bool,
    /// What they held or waited for.
    pub sections: bool,
    /// Their page faults.
    pub faults: bool,
    /// Kernel threads that are bound to a CPU.
    pub kworkers: bool,
    /// Events one by one.
    pub timeline: bool,
    /// Samples of their time off the CPU, with stacks.
    pub stacks: bool,
}

impl Wants {
    /// Nothing.
    pub(crate) const NONE: Wants =
        Wants { switches: false, sections: false, faults: false, kworkers: false, timeline: false, stacks: false };

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Wants {
            switches: self.switches || other.switches,
            sections: self.sections || other.sections,
            faults: self.faults || other.faults,
            kworkers: self.kworkers || other.kworkers,
            timeline: self.timeline || other.timeline,
            stacks: self.stacks || other.stacks,
        }
    }
}

/// The roles of the processes under test, each once, in their order; the place of a role is its number in the tables.
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

/// What is missing of what was seen.
pub(crate) fn coverage(seen: &Seen, events: u64) -> Coverage {
    let lost = seen.lost.iter().map(|(count, _)| count).sum();
    let mut notes: Vec<String> = seen.lost.iter().map(|(count, why)| format!("{count} {why}")).collect();
    notes.extend(seen.notes.iter().cloned());
    Coverage { seen: events, lost, notes }
}

/// What watching cost. The programs of all collectors are one, so the cost of all stands with the collector that asks first,
/// and the others say so: a sum over collectors is right.
pub(crate) fn cost(seen: &Seen, coverage: &mut Coverage) -> SelfCost {
    if seen.cost_is_told.swap(true, Ordering::Relaxed) {
        coverage.notes.push("its cost is part of that of another collector that watches inside the kernel".to_owned());
        return SelfCost::default();
    }
    SelfCost { cpu_ns: seen.cpu_ns, wakeups: 2, bytes: 0, bpf: seen.bpf, memory_bytes: seen.memory_bytes }
}
