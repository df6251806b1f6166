//! One task of a trace, and the steps that were seen of it.

use crate::event::TaskId;
use holdup_model::{ReplayStep, ReplayTask, TaskBegin};

/// A system call without a wake-up or a sleep in it that is shorter is part of what the task does around it: a step takes room.
const SHORT_CALL_NS: u64 = 2_000;

/// The priority of a task that no event has named yet.
pub(super) const UNKNOWN: i32 = i32::MIN;
/// That of nice 0 (include/linux/sched/prio.h).
const NICE_0: i32 = 120;

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// On its CPU; its time is counted up to then. `woken`: a wake-up began since, and has not ended.
    On { counted_ns: u64, woken: bool },
    /// It waits for a CPU; since when is not always known.
    Runnable { since_ns: Option<u64> },
    /// `woken`: the wake-up began before it was asleep.
    Asleep { since_ns: u64, woken: bool },
    /// Nothing is known of it since then.
    Lost { since_ns: u64 },
    /// Its thread id is that of another task, or of none.
    Ended,
}

/// A task under way.
pub(super) struct Task {
    pub(super) replayed: ReplayTask,
    pub(super) state: State,
    /// True if its priority has changed.
    pub(super) has_changed: bool,
    /// True if it could have been able to run before it was seen.
    pub(super) is_unclear: bool,
    /// The run under way: its time outside and inside of the system call, and the switches to it.
    user_ns: u64,
    kernel_ns: u64,
    switches: u16,
    in_call: bool,
    /// How many steps there were when the call began.
    steps_before_call: usize,
}

impl Task {
    pub(super) fn new(id: &TaskId, cpu: u32, begin: TaskBegin, is_new: bool, state: State) -> Self {
        let (name, steps) = (String::new(), Vec::new());
        let (tid, priority) = (id.tid, UNKNOWN);
        let replayed = ReplayTask {
            tid,
            name,
            priority,
            is_kernel: false,
            is_new,
            cpu,
            is_bound: false,
            begin,
            is_cut: false,
            steps,
        };
        let mut task = Task {
            replayed,
            state,
            has_changed: false,
            is_unclear: false,
            user_ns: 0,
            kernel_ns: 0,
            switches: 0,
            in_call: false,
            steps_before_call: 0,
        };
        task.is_named(id);
        task
    }

    /// What an event says of it beside where it is.
    pub(super) fn is_named(&mut self, id: &TaskId) {
        let task = &mut self.replayed;
        if task.name.as_bytes() != id.name.bytes() {
            task.name = id.name.text();
            let bound = id.name.bound_cpu();
            (task.is_kernel, task.is_bound) = (id.name.is_of_kernel(), bound.is_some());
            task.cpu = bound.unwrap_or(task.cpu);
        }
        if task.priority == UNKNOWN {
            task.priority = id.priority;
        }
        self.has_changed |= task.priority != id.priority;
    }

    /// It gets a CPU.
    pub(super) fn comes(&mut self, now: u64) {
        self.state = State::On { counted_ns: now, woken: false };
        self.switches = self.switches.saturating_add(1);
    }

    /// It has run up to now.
    pub(super) fn runs(&mut self, now: u64) {
        if let State::On { counted_ns, .. } = &mut self.state {
            let ns = now.saturating_sub(*counted_ns);
            *counted_ns = now.max(*counted_ns);
            *(if self.in_call || self.replayed.is_kernel { &mut self.kernel_ns } else { &mut self.user_ns }) += ns;
        }
    }

    /// What it has run is a step.
    fn ends_run(&mut self) {
        let steps = &mut self.replayed.steps;
        for (ns, in_kernel) in [(&mut self.user_ns, false), (&mut self.kernel_ns, true)] {
            let ns = std::mem::take(ns);
            if ns > 0 {
                let switches = std::mem::take(&mut self.switches);
                steps.push(ReplayStep::Run { ns, switches, in_kernel });
            }
        }
    }

    /// Something other than running comes next.
    pub(super) fn steps(&mut self, step: ReplayStep) {
        self.ends_run();
        self.replayed.steps.push(step);
    }

    /// It enters a system call.
    pub(super) fn calls(&mut self, now: u64) {
        self.runs(now);
        self.in_call = true;
        self.steps_before_call = self.replayed.steps.len();
    }

    pub(super) fn returns(&mut self, now: u64) {
        self.runs(now);
        let is_whole = std::mem::replace(&mut self.in_call, false);
        let is_plain = self.replayed.steps.len() == self.steps_before_call;
        if is_whole && is_plain && self.kernel_ns < SHORT_CALL_NS {
            self.user_ns += std::mem::take(&mut self.kernel_ns);
        } else {
            self.steps(ReplayStep::Return);
        }
    }

    /// The trace or the task ends: what it ran until then is its last step.
    pub(super) fn ends(&mut self, now: u64) {
        self.runs(now);
        self.ends_run();
        if self.replayed.priority == UNKNOWN {
            self.replayed.priority = NICE_0;
        }
    }
}
