//! Lookahead: stretches that are known to follow one another are one event. These are a computation or the rest of a call,
//! the system call after it, and, where that takes a message that has already arrived, the next computation.
//!
//! Between two such stretches a task checks its need-resched bits, and nothing happens that other tasks can see. As long as
//! neither bit is set, no event is needed there. An interrupt finds the stretch in which the task is by then; setting a bit
//! restores the event, and so does a sender that finds the channel full. The results are the same as with one event per
//! stretch.

use super::{IDLE, Mode, Preemption, SLOTS, Segment, Then, WORK, World};
use crate::program::{Channel, Op};
use crate::random::Stream;

/// How many operations it follows at most.
const MOST_AHEAD: u32 = 4;

/// A system call that follows: its place in the code, how long it is in the kernel until its outcome matters, and what
/// comes then.
#[derive(Clone, Copy)]
struct Call {
    pc: u32,
    ns: u64,
    then: Then,
}

impl World {
    /// The running task begins or resumes a segment: sets the time after it that belongs to the same event.
    pub(super) fn look_ahead(&mut self, cpu: u32, task: u32) {
        let c = &self.cpus[cpu as usize];
        debug_assert_eq!(c.ahead_ns, 0, "the last lookahead is over");
        let t = &self.tasks[task as usize];
        if c.need || c.lazy || t.asks || t.granted || t.is_kernel || self.sees_each_stretch() {
            return;
        }
        let ns = match (t.segment.mode, t.segment.then) {
            (Mode::User, Then::Next) => self.ns_from_call(task, t.pc, t.tag),
            (Mode::Kernel, Then::ToUser) if t.segment.preemption == Preemption::On => {
                self.ns_from_call(task, t.pc, t.tag)
            }
            (Mode::Kernel, Then::Receives) => self.ns_from_message(task, t.pc),
            _ => return,
        };
        self.cpus[cpu as usize].ahead_ns = ns;
    }

    /// True if each stretch is its own event, as traces and records need.
    fn sees_each_stretch(&self) -> bool {
        #[cfg(test)]
        if self.each_stretch {
            return true;
        }
        self.recorder.is_some() || self.trace.is_some()
    }

    /// What is known from a place in user mode on, ns.
    fn ns_from_call(&self, task: u32, pc: u32, tag: u8) -> u64 {
        match self.call_at(pc, tag) {
            Some(Call { pc, ns, then: Then::Receives }) if ns > 0 => ns + self.ns_from_message(task, pc + 1),
            Some(call) => call.ns,
            None => 0,
        }
    }

    /// What is known from the end of a call to receive on, ns. `pc` is the place after the call.
    fn ns_from_message(&self, task: u32, pc: u32) -> u64 {
        let t = &self.tasks[task as usize];
        let (Op::Receive(Channel::Mine), Op::Compute(span)) = (self.code[pc as usize - 1], self.code[pc as usize])
        else {
            return 0;
        };
        let Some(tag) = self.channels.get(t.inbox as usize).and_then(|mine| mine.tag_for(task)) else { return 0 };
        let ns = span.of(Stream::coming(t.stream));
        match self.call_at(pc + 1, tag) {
            Some(call) if ns > 0 => ns + call.ns,
            _ => ns,
        }
    }

    /// The system call that directly follows in a task in user mode, if the last message has this tag.
    fn call_at(&self, mut pc: u32, tag: u8) -> Option<Call> {
        let costs = &self.machine.costs;
        for _ in 0..MOST_AHEAD {
            match self.code[pc as usize] {
                Op::Jump(to) => pc = to,
                Op::IfTag { tag: is, to } => pc = if tag == is { to } else { pc + 1 },
                Op::Send { .. } => return Some(Call { pc, ns: costs.syscall_ns + costs.send_ns, then: Then::Sends }),
                Op::Receive(_) => {
                    return Some(Call { pc, ns: costs.syscall_ns + costs.receive_ns, then: Then::Receives });
                }
                _ => return None,
            }
        }
        None
    }

    /// Moves the running task to the stretch in which it is by now. Events of the same time come in the order of their
    /// slots, the ends of its stretches among them.
    pub(super) fn enters(&mut self, cpu: u32) {
        while self.cpus[cpu as usize].ahead_ns > 0 {
            let c = &self.cpus[cpu as usize];
            let task = c.current;
            let segment = self.tasks[task as usize].segment;
            if (self.now, self.slot) <= (c.busy_from + segment.left, cpu as usize * SLOTS + WORK) {
                return;
            }
            if segment.left > 0 {
                self.passes(cpu, segment.left);
            }
            let next = if segment.then == Then::Receives { self.takes_message(task) } else { self.enters_call(task) };
            let c = &mut self.cpus[cpu as usize];
            debug_assert!(next.left <= c.ahead_ns, "it was known");
            c.ahead_ns -= next.left;
            self.tasks[task as usize].segment = next;
        }
    }

    fn takes_message(&mut self, task: u32) -> Segment {
        let t = &mut self.tasks[task as usize];
        if let Some((sender, tag)) = self.channels[t.inbox as usize].takes() {
            (t.sender, t.tag) = (sender, tag);
        }
        let ns = match self.code[t.pc as usize] {
            Op::Compute(span) => span.of(t.stream.word()),
            _ => 0,
        };
        t.pc += 1;
        Segment::user(ns, Then::Next)
    }

    fn enters_call(&mut self, task: u32) -> Segment {
        let t = &self.tasks[task as usize];
        let Some(call) = self.call_at(t.pc, t.tag) else { return t.segment };
        self.tasks[task as usize].pc = call.pc + 1;
        Segment::kernel(call.ns, Preemption::On, call.then)
    }

    /// A CPU was asked to reschedule, or its lookahead is no longer certain: the end of the stretch is an event again.
    pub(super) fn recheck(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        if c.ahead_ns == 0 || c.current == IDLE {
            return;
        }
        self.enters(cpu);
        if std::mem::take(&mut self.cpus[cpu as usize].ahead_ns) > 0 {
            self.arm(cpu);
        }
    }
}

#[cfg(test)]
mod tests;
