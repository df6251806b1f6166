//! What happened to tasks and CPUs, event by event, for a bounded time.

use serde::{Deserialize, Serialize};

/// A task of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineTask {
    /// Its thread id.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum TimelineKind {
    /// A CPU went from one task to another.
    Switch {
        /// Who left: index into [`Timeline::tasks`]; `None` for the idle task.
        from: Option<u32>,
        /// Who came; `None` for the idle task.
        to: Option<u32>,
        /// Where `from` was, as the collector `switches` names it (`sleeping`, `user boundary (R)`, …), with the cause behind
        /// a colon where it could go on; `not watched`.
        left: String,
        /// The section that `from` held its lock in or waited for, when it did: `holder NAME`, `waiter NAME`.
        section: Option<String>,
    },
    /// A task became runnable.
    Wakeup {
        /// Who.
        task: u32,
        /// Who woke it; `None` for an interrupt on an idle CPU.
        by: Option<u32>,
    },
    /// A page fault, from `at_ns` on.
    Fault {
        /// Whose.
        task: u32,
        /// How long it took, ns.
        length_ns: u64,
        /// The section that the task was in.
        section: Option<String>,
    },
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineEvent {
    /// When, ns from the begin of the timeline (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// What.
    pub kind: TimelineKind,
}

/// Events in the order of their times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Begin, CLOCK_MONOTONIC, ns.
    pub begin_ns: u64,
    /// The tasks that events refer to.
    pub tasks: Vec<TimelineTask>,
    /// The events.
    pub events: Vec<TimelineEvent>,
    /// Events that there was no room for.
    pub lost: u64,
}
