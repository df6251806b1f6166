//! A trace of the scheduler as work: what each of its tasks does, without the waits for a CPU that a machine adds.

use crate::SparseHistogram;

/// What a task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayStep {
    /// It uses a CPU.
    Run {
        /// For this long, the switches to it among that.
        ns: u64,
        /// How often it was switched to in that time.
        switches: u16,
        /// True if it is in the kernel meanwhile.
        in_kernel: bool,
    },
    /// Returns from the kernel.
    Return,
    /// Wakes a task up, by its number.
    Wake(u32),
    /// The same with a task on which it waits too, so that it does so only once that one sleeps: until then it waits for it.
    WakeAsleep(u32),
    /// The next steps are what it does for a task that waits for it, and may be done later: once that one sleeps.
    For {
        /// The other task.
        task: u32,
        /// How many steps.
        steps: u16,
        /// True if they may also be done before that one sleeps, while it has no wake-up that it has not waited for.
        may_lead: bool,
    },
    /// Sleeps this long, ns: a timer, a device or an interrupt ends that.
    Sleep(u64),
    /// Sleeps until a task wakes it up, or not at all where one has done so by then.
    Wait,
}

/// How a task begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskBegin {
    /// It can run at this time of the trace, ns.
    At(u64),
    /// Another task wakes it up for its first step.
    Woken,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayTask {
    /// Its thread id.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Its priority in the kernel: 100 and above are nice values from -20 on, below are real-time priorities from 99 on down.
    pub priority: i32,
    /// True if it is a thread of the kernel.
    pub is_kernel: bool,
    /// True if another task made it, so that it has not run before.
    pub is_new: bool,
    /// The CPU on which it was first, and whether it can be on no other.
    pub cpu: u32,
    /// See [`ReplayTask::cpu`].
    pub is_bound: bool,
    /// How it begins.
    pub begin: TaskBegin,
    /// True if it had a CPU or waited for one when the trace ended, so that its last step is cut.
    pub is_cut: bool,
    /// What it does, up to its end or that of the trace.
    pub steps: Vec<ReplayStep>,
}

/// A trace as work.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replay {
    /// Its tasks; steps name them by their places.
    pub tasks: Vec<ReplayTask>,
    /// CPUs that have events.
    pub cpus: u32,
    /// From its first event to its last that is followed, ns.
    pub span_ns: u64,
    /// Switches in that time.
    pub switches: u64,
    /// Sleeps that end when another task says so, and those that end by themselves.
    pub relations: u64,
    /// See [`Replay::relations`].
    pub timed: u64,
    /// Waits for a CPU in the trace, after wake-ups and after preemptions.
    pub waits: SparseHistogram,
    /// True if it shows where tasks are in the kernel (`raw_syscalls`).
    pub has_calls: bool,
    /// What is not known of it, in sentences.
    pub notes: Vec<String>,
}
