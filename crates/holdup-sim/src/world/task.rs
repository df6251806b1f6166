//! Tasks, and the stretches of time that their programs become.

use super::lock_wait::Waiting;
use super::{Policy, TaskSpec};
use crate::program::{COUNTERS, MarkId, Preemption};
use crate::random::Stream;

/// How many marks a task can have begun at the same time.
pub(crate) const MOST_BEGUN: usize = 4;

/// Where it stands when a mark was begun. The marks of a workload follow one another, and no workload has more of them
/// than fit, so that those of a task do not meet.
pub(crate) fn place_of(mark: MarkId) -> usize {
    mark as usize % MOST_BEGUN
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// In its own code.
    #[default]
    User,
    /// In its own code, waiting for a lock.
    Spin,
    Kernel,
}

/// What comes after a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Then {
    /// The next operation of the program, in user mode already.
    #[default]
    Next,
    /// The return to user mode.
    ToUser,
    /// The algorithm of the lock that the task waits for decides.
    Lock,
    /// A page is mapped now.
    Mapped,
    /// The softirq of the network delivers what the task sends.
    Delivers,
    /// The task is in the kernel to send, to receive, to ask a device, or to flush; the state then decides what is next.
    Sends,
    /// See [`Then::Sends`].
    Receives,
    /// See [`Then::Sends`].
    AsksDevice,
    /// See [`Then::Sends`].
    Flushes,
    /// The holder of the lock of a log writes it, or has written it.
    WritesLog,
    /// The task that a system call makes is made now.
    Forks,
    /// The task sleeps, for as long as it says.
    Sleeps,
    /// The task yields.
    Yields,
    /// The task ends.
    Ends,
}

/// A stretch of time that a task spends in one place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Segment {
    /// What is left of it, ns; `u64::MAX` for one that something else ends.
    pub(crate) left: u64,
    /// What is done of it, ns.
    pub(crate) done: u64,
    pub(crate) mode: Mode,
    pub(crate) preemption: Preemption,
    pub(crate) then: Then,
}

impl Segment {
    /// A stretch of the task's own code.
    pub(crate) fn user(left: u64, then: Then) -> Segment {
        Segment { left, then, ..Segment::default() }
    }

    /// A stretch in which the task spins for a lock.
    pub(crate) fn spin(left: u64) -> Segment {
        Segment { left, mode: Mode::Spin, then: Then::Lock, ..Segment::default() }
    }

    /// A stretch of kernel code.
    pub(crate) fn kernel(left: u64, preemption: Preemption, then: Then) -> Segment {
        Segment { left, mode: Mode::Kernel, preemption, then, done: 0 }
    }
}

/// Whether a task can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    Running,
    Runnable,
    #[default]
    Blocked,
    Dead,
}

/// A task.
///
/// The fields that nearly every event reads come first, within two cache lines, so their order is fixed.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Task {
    pub(crate) segment: Segment,
    /// Time that small operations took and that the next segment includes, ns.
    pub(crate) extra_ns: u64,
    pub(crate) pc: u32,
    pub(crate) program: u32,
    pub(crate) cpu: u32,
    pub(crate) policy: Policy,
    /// Locks that it holds.
    pub(crate) held: u16,
    pub(crate) state: State,
    pub(crate) tag: u8,
    pub(crate) is_new: bool,
    /// True if it asks for a slice extension, and whether it has one.
    pub(crate) asks: bool,
    pub(crate) granted: bool,
    pub(crate) yields: bool,
    /// True if it is a thread of the kernel, which never returns to user mode.
    pub(crate) is_kernel: bool,
    // The second line begins here: what wake-ups, switches and messages read.
    /// When it could run, or since when a holder is off its CPU.
    pub(crate) runnable_since: u64,
    pub(crate) last_ran: u64,
    pub(crate) pinned: u32,
    /// `wakee_flips`: how often it woke up another task than the last time, and since when that is counted.
    pub(crate) flips: u32,
    pub(crate) flips_since: u64,
    pub(crate) last_wakee: u32,
    /// The task's own channel and its peer's; `u32::MAX` for none.
    pub(crate) inbox: u32,
    pub(crate) peer: u32,
    /// The sender of the last message; its tag is `tag`.
    pub(crate) sender: u32,
    /// The device that it waits for; `u32::MAX` for none.
    pub(crate) device: u32,
    /// The last lock that it took.
    pub(crate) last_lock: u32,
    /// What its program draws from.
    pub(crate) stream: Stream,
    pub(crate) waiting: Waiting,
    pub(crate) process: u32,
    /// The last page that it touched of a region that all walk through together.
    pub(crate) last_page: u32,
    /// How long it sleeps when it is in the kernel for that, ns.
    pub(crate) sleep_ns: u64,
    /// Where it was when it left its CPU with a lock held, as a place in `HOLDERS`, and when.
    pub(crate) holder_off: (u8, u64),
    /// Pages that the operation under way still touches.
    pub(crate) touches_left: u32,
    pub(crate) counters: [u32; COUNTERS],
    /// When marks were begun, at [`place_of`].
    pub(crate) begun: [u64; MOST_BEGUN],
    /// The task's last record in a log.
    pub(crate) record: u64,
    /// Its parent, and how many of its children are alive.
    pub(crate) parent: u32,
    pub(crate) children: u32,
    /// PostgreSQL's estimate of this process.
    pub(crate) spins_per_delay: u32,
    /// True if it waits for its children.
    pub(crate) joins: bool,
    /// True if the last message that it transmitted was lost.
    pub(crate) lost: bool,
    /// What an SCHED_RR task used of its slice, ns.
    pub(crate) rr_ran_ns: u64,
}

impl Task {
    pub(crate) fn new(spec: &TaskSpec, entry: u32, stream: Stream) -> Self {
        Task {
            pc: entry,
            program: spec.program,
            process: spec.process,
            cpu: spec.pinned.unwrap_or(0),
            pinned: spec.pinned.unwrap_or(u32::MAX),
            policy: spec.policy,
            inbox: spec.inbox.unwrap_or(u32::MAX),
            peer: spec.peer.unwrap_or(u32::MAX),
            is_kernel: spec.kernel,
            is_new: true,
            stream,
            sender: u32::MAX,
            device: u32::MAX,
            last_page: u32::MAX,
            parent: u32::MAX,
            last_wakee: u32::MAX,
            waiting: Waiting::none(),
            ..Task::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_events_look_at_stands_in_two_cache_lines() {
        assert!(offset_of!(Task, runnable_since) <= 64, "{}", offset_of!(Task, runnable_since));
        assert!(offset_of!(Task, waiting) <= 128, "{}", offset_of!(Task, waiting));
        assert!(size_of::<Task>() <= 384, "{}", size_of::<Task>());
    }
}
