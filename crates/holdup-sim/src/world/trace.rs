//! A trace of what a machine decided and why, for timelines. Costs nothing while no trace is kept.

use super::{IDLE, Mode, Then, World};
use crate::program::Op;
use crate::sched::entity_queue::NIL;
use crate::stats::SwitchOut;

/// Something that happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEntry {
    /// When, ns.
    pub at_ns: u64,
    pub cpu: u32,
    pub event: Event,
}

/// What can happen. Tasks and locks are numbers of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The CPU switched from one task to another; `None` for the idle task.
    Switch { from: Option<(u32, SwitchReason)>, to: Option<u32> },
    /// A task became runnable on this CPU, woken by another one or, with `None`, by an interrupt; `asks` is the task that
    /// runs there and what it is asked.
    Wakes { task: u32, by: Option<u32>, is_new: bool, asks: Option<(u32, ReschedRequest)> },
    /// The tick found a lazy request and made it an immediate one.
    Promoted,
    /// The task of the CPU got a slice extension.
    Granted,
    /// The slice extension expired.
    Expired,
    /// The task gave the slice extension back, or else a system call ended it.
    Returned { given: bool },
    /// A task wants a lock that is not free.
    Wants { task: u32, lock: u32 },
    /// A task that waited has the lock.
    Takes { task: u32, lock: u32 },
}

/// How a CPU was asked to reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReschedRequest {
    None,
    /// With TIF_NEED_RESCHED_LAZY.
    Lazy,
    /// With TIF_NEED_RESCHED.
    Immediate,
}

/// Why a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchReason {
    /// It was preempted there; with the lock that it held.
    Preempted(PreemptedAt, Option<u32>),
    /// sched_yield().
    Yields,
    /// It sleeps until a time.
    Sleeps,
    /// It sleeps until it can have a lock.
    Lock(u32),
    /// It waits for a message.
    Message,
    /// It waits for room in a channel.
    Room,
    /// It waits for a device, or for the task that writes a log.
    Device,
    /// It waits for its children.
    Children,
    /// It ended.
    Ends,
}

/// Where a task was when it was preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptedAt {
    /// In its own code.
    User,
    /// In its own code, spinning for a lock.
    Spin(u32),
    /// At the return from a system call.
    AfterCall,
    /// At the return from a page fault.
    AfterFault,
    /// At the entry of a system call, which ended a slice extension.
    IntoCall,
    /// In a system call.
    Call,
    /// In a system call, at a `cond_resched()`.
    Point,
    /// In a page fault.
    Fault,
    /// In a page fault, at a `might_sleep()`.
    FaultPoint,
}

/// The entries so far.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    entries: Vec<TraceEntry>,
    most: usize,
    /// How many events came after the last entry that there was room for.
    missed: u64,
}

impl World {
    /// Keeps a trace of what happens from now on, up to this number of entries.
    pub fn start_trace(&mut self, most: usize) {
        self.trace = Some(Box::new(Trace { entries: Vec::new(), most, missed: 0 }));
    }

    /// The trace, and how many entries there was no room for.
    pub fn trace(&self) -> (&[TraceEntry], u64) {
        self.trace.as_ref().map_or((&[], 0), |trace| (&trace.entries, trace.missed))
    }

    #[inline]
    pub(super) fn trace_event(&mut self, cpu: u32, event: Event) {
        if let Some(trace) = &mut self.trace {
            if trace.entries.len() < trace.most {
                trace.entries.push(TraceEntry { at_ns: self.now, cpu, event });
            } else {
                trace.missed += 1;
            }
        }
    }

    pub(super) fn trace_switch(&mut self, cpu: u32, previous: u32, next: u32, reason: SwitchReason) {
        let from = (previous != IDLE).then_some((previous, reason));
        let to = (next != NIL).then_some(next);
        if from.is_some() || to.is_some() {
            self.trace_event(cpu, Event::Switch { from, to });
        }
    }

    pub(super) fn trace_wakeup(&mut self, cpu: u32, task: u32, waker: Option<u32>, is_new: bool) {
        let by = waker.map(|cpu| self.cpus[cpu as usize].current).filter(|current| *current != IDLE);
        let c = &self.cpus[cpu as usize];
        let asks = match (c.need, c.lazy) {
            (true, _) => ReschedRequest::Immediate,
            (_, true) => ReschedRequest::Lazy,
            _ => ReschedRequest::None,
        };
        let asks = (c.current != IDLE).then_some((c.current, asks));
        self.trace_event(cpu, Event::Wakes { task, by, is_new, asks });
    }

    /// Why the task of a CPU is about to leave it.
    pub(super) fn switch_reason(&self, cpu: u32, task: u32, left: SwitchOut) -> SwitchReason {
        let Some(t) = self.tasks.get(task as usize) else { return SwitchReason::Ends };
        let before = t.pc.checked_sub(1).map(|pc| self.code[pc as usize]);
        let is_touch = |op| matches!(op, Op::Touch { .. });
        let at = match (left, t.segment.mode, t.segment.then) {
            (SwitchOut::Exited, ..) => return SwitchReason::Ends,
            (SwitchOut::Blocked, _, Then::Lock) => return SwitchReason::Lock(t.waiting.lock),
            (SwitchOut::Blocked, _, Then::Sends) => return SwitchReason::Room,
            (SwitchOut::Blocked, _, Then::Receives) => return SwitchReason::Message,
            (SwitchOut::Blocked, Mode::User, _) => return SwitchReason::Sleeps,
            (SwitchOut::Blocked, ..) if t.joins => return SwitchReason::Children,
            (SwitchOut::Blocked, ..) => return SwitchReason::Device,
            (SwitchOut::AtBoundary, ..) if t.yields => return SwitchReason::Yields,
            (SwitchOut::AtBoundary, Mode::Spin, _) => PreemptedAt::Spin(t.waiting.lock),
            (SwitchOut::AtBoundary, Mode::Kernel, _) => PreemptedAt::IntoCall,
            (SwitchOut::AtBoundary, ..) if t.segment.left > 0 => PreemptedAt::User,
            (SwitchOut::AtBoundary, ..) if is_touch(self.code[t.pc as usize]) || before.is_some_and(is_touch) => {
                PreemptedAt::AfterFault
            }
            (SwitchOut::AtBoundary, ..) => PreemptedAt::AfterCall,
            (SwitchOut::InKernel, _, then) => match (then == Then::Mapped, self.cpus[cpu as usize].at_point) {
                (true, true) => PreemptedAt::FaultPoint,
                (false, true) => PreemptedAt::Point,
                (true, false) => PreemptedAt::Fault,
                (false, false) => PreemptedAt::Call,
            },
        };
        SwitchReason::Preempted(at, (t.held > 0).then_some(t.last_lock))
    }
}
