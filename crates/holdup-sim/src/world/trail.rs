//! What a machine decided, one thing after the other, and why: for timelines. Without a trail nothing of it is looked at.

use super::{IDLE, Mode, Then, World};
use crate::program::Op;
use crate::sched::tree::NIL;
use crate::seen::Left;

/// Something that happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When, ns.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// What.
    pub event: Event,
}

/// What can happen. Tasks and locks are numbers of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The CPU went from one task, or none, to another one, or none.
    Switch {
        /// Who left it, and why.
        from: Option<(u32, Why)>,
        /// Whose it is now.
        to: Option<u32>,
    },
    /// A task can run on this CPU.
    Wakes {
        /// The task.
        task: u32,
        /// Who woke it; `None` for an interrupt.
        by: Option<u32>,
        /// Whether it is its first time.
        is_new: bool,
        /// Who is on the CPU, and how it is asked to make room.
        asks: Option<(u32, Asks)>,
    },
    /// The tick found a lazy request and asks in earnest.
    Promoted,
    /// The task of the CPU got a slice extension.
    Granted,
    /// It ran out.
    Expired,
    /// The task gave it back, or a system call ended it.
    Returned {
        /// Whether the task gave it back.
        given: bool,
    },
    /// A task wants a lock that it does not get at once.
    Wants {
        /// The task.
        task: u32,
        /// The lock.
        lock: u32,
    },
    /// It has it.
    Takes {
        /// The task.
        task: u32,
        /// The lock.
        lock: u32,
    },
}

/// How a CPU was asked to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Not at all.
    Not,
    /// With TIF_NEED_RESCHED_LAZY.
    Lazily,
    /// With TIF_NEED_RESCHED.
    InEarnest,
}

/// Why a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was preempted there; with the lock that it held.
    Preempted(Place, Option<u32>),
    /// It gave way: `sched_yield()`.
    Yields,
    /// It sleeps until a time.
    Sleeps,
    /// It sleeps until it can have a lock.
    Lock(u32),
    /// It waits for a message.
    Message,
    /// It waits for room in a channel.
    Room,
    /// It waits for a device, or for who writes a log.
    Device,
    /// It waits for those that it made.
    Children,
    /// It ended.
    Ends,
}

/// Where a task was when it was preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In its own code.
    User,
    /// In its own code, spinning for a lock.
    Spin(u32),
    /// On its return from a system call.
    AfterCall,
    /// On its return from a page fault.
    AfterFault,
    /// On its way into a system call, which ended a slice extension.
    IntoCall,
    /// In a system call.
    Call,
    /// In a system call, at a `cond_resched()`.
    Point,
    /// In a page fault.
    Fault,
    /// In a page fault, where it might sleep.
    FaultPoint,
}

/// What happened so far.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    entries: Vec<Entry>,
    most: usize,
    /// How many came after the last one that there was room for.
    missed: u64,
}

impl World {
    /// Keeps a trail of what happens from now on, up to so many entries.
    pub fn follow(&mut self, most: usize) {
        self.trail = Some(Box::new(Trail { entries: Vec::new(), most, missed: 0 }));
    }

    /// The trail, and how many entries there was no room for.
    pub fn trail(&self) -> (&[Entry], u64) {
        self.trail.as_ref().map_or((&[], 0), |trail| (&trail.entries, trail.missed))
    }

    #[inline]
    pub(super) fn tells(&mut self, cpu: u32, event: Event) {
        if let Some(trail) = &mut self.trail {
            trail.push(Entry { at_ns: self.now, cpu, event });
        }
    }

    pub(super) fn tells_switch(&mut self, cpu: u32, previous: u32, next: u32, why: Why) {
        let from = (previous != IDLE).then_some((previous, why));
        let to = (next != NIL).then_some(next);
        if from.is_some() || to.is_some() {
            self.tells(cpu, Event::Switch { from, to });
        }
    }

    pub(super) fn tells_wakeup(&mut self, cpu: u32, task: u32, waker: Option<u32>, is_new: bool) {
        let by = waker.map(|cpu| self.cpus[cpu as usize].current).filter(|current| *current != IDLE);
        let c = &self.cpus[cpu as usize];
        let asks = match (c.need, c.lazy) {
            (true, _) => Asks::InEarnest,
            (_, true) => Asks::Lazily,
            _ => Asks::Not,
        };
        let asks = (c.current != IDLE).then_some((c.current, asks));
        self.tells(cpu, Event::Wakes { task, by, is_new, asks });
    }

    /// Why the task of a CPU is about to leave it.
    pub(super) fn why(&self, cpu: u32, task: u32, left: Left) -> Why {
        let Some(t) = self.tasks.get(task as usize) else { return Why::Ends };
        let lock = Some(t.last_lock).filter(|_| t.held > 0);
        let before = t.pc.checked_sub(1).map(|pc| self.code[pc as usize]);
        match (left, t.segment.mode, t.segment.then) {
            (Left::Ends, ..) => Why::Ends,
            (Left::Waits, _, Then::Lock) => Why::Lock(t.waiting.lock),
            (Left::Waits, _, Then::Sends) => Why::Room,
            (Left::Waits, _, Then::Receives) => Why::Message,
            (Left::Waits, Mode::User, _) => Why::Sleeps,
            (Left::Waits, ..) if t.joins => Why::Children,
            (Left::Waits, ..) => Why::Device,
            (Left::Boundary, ..) if t.yields => Why::Yields,
            (Left::Boundary, Mode::Spin, _) => Why::Preempted(Place::Spin(t.waiting.lock), lock),
            (Left::Boundary, Mode::Kernel, _) => Why::Preempted(Place::IntoCall, lock),
            (Left::Boundary, ..) if t.segment.left > 0 => Why::Preempted(Place::User, lock),
            (Left::Boundary, ..) => {
                let touches =
                    matches!(self.code[t.pc as usize], Op::Touch { .. }) || matches!(before, Some(Op::Touch { .. }));
                let place = if touches { Place::AfterFault } else { Place::AfterCall };
                Why::Preempted(place, lock)
            }
            (Left::Inside, _, Then::Mapped) if self.cpus[cpu as usize].at_point => {
                Why::Preempted(Place::FaultPoint, lock)
            }
            (Left::Inside, ..) if self.cpus[cpu as usize].at_point => Why::Preempted(Place::Point, lock),
            (Left::Inside, _, Then::Mapped) => Why::Preempted(Place::Fault, lock),
            (Left::Inside, ..) => Why::Preempted(Place::Call, lock),
        }
    }
}

impl Trail {
    fn push(&mut self, entry: Entry) {
        if self.entries.len() < self.most {
            self.entries.push(entry);
        } else {
            self.missed += 1;
        }
    }
}
