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

/// What a CPU does for a task beside the task's own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimelineDoing {
    /// It is in the kernel for the task, but for page faults.
    Kernel,
    /// It spins for a lock.
    Spin,
    /// It changes over to the task.
    Switch,
    /// It is in an interrupt.
    Interrupt,
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
        /// a colon where it could go on, and with what it sleeps for where that is known (`sleeping: Lock:transactionid`); `not watched`.
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
    /// What the CPU did for its task from `at_ns` on, without interruption. Where a timeline has any of these, the rest of
    /// a task's time on a CPU was its own code; where it has none, that is not known.
    Stretch {
        /// For whom.
        task: u32,
        /// What.
        doing: TimelineDoing,
        /// For how long, ns.
        length_ns: u64,
        /// The lock that it was for.
        lock: Option<String>,
    },
    /// A task held a lock, from `at_ns` on, on and off CPUs.
    Hold {
        /// Who.
        task: u32,
        /// What.
        lock: String,
        /// For how long, ns.
        length_ns: u64,
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
    /// Begin, CLOCK_MONOTONIC, ns; on a simulated machine its own clock.
    pub begin_ns: u64,
    /// Its end, ns from its begin, where that is known and not the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// The tasks that events refer to.
    pub tasks: Vec<TimelineTask>,
    /// The events.
    pub events: Vec<TimelineEvent>,
    /// Events that there was no room for.
    pub lost: u64,
    /// Events that the reader of a bundle left in the file, because they were not asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

impl Timeline {
    /// How many events it has, those that were left out among them.
    pub fn count(&self) -> u64 {
        self.events.len() as u64 + self.left_out
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
