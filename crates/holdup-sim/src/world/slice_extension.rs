//! The slice extension of rseq: a task that asked for it continues for some microseconds when it should be rescheduled
//! (kernel/rseq.c and include/linux/rseq_entry.h, v7.2.12).
//!
//! It is granted on the return to user mode from an interrupt or a fault only, once until it was given back, and any
//! system call ends it. A timer ends it otherwise, and asks in earnest.

use super::{Event, GRANT, SLOTS, World};
use crate::program::Op;
use crate::stats::SwitchOut;

impl World {
    /// A task asks for an extension: a store to its own memory.
    pub(crate) fn asks_to_extend(&mut self, task: u32, asks: bool) {
        if self.machine.kernel.slice_extension_ns > 0 {
            self.tasks[task as usize].asks = asks;
            self.seen.asked |= asks;
        }
    }

    /// `rseq_grant_slice_extension()`: whether the running task, which should be rescheduled, continues.
    pub(crate) fn extends(&mut self, cpu: u32) -> bool {
        let kernel = &self.machine.kernel;
        let c = &mut self.cpus[cpu as usize];
        let t = &mut self.tasks[c.current as usize];
        // Under PREEMPT_RT only what asks lazily can wait.
        let may_wait = !(kernel.preempt.sleeping_locks && c.need);
        if !t.asks || t.granted || !may_wait {
            return false;
        }
        (t.asks, t.granted) = (false, true);
        (c.need, c.lazy) = (false, false);
        self.seen.grants += 1;
        self.agenda.set(cpu as usize * SLOTS + GRANT, self.now + kernel.slice_extension_ns);
        self.trace_event(cpu, Event::Granted);
        true
    }

    /// A grant is over.
    pub(crate) fn revoke(&mut self, cpu: u32, task: u32) {
        if std::mem::take(&mut self.tasks[task as usize].granted) {
            self.agenda.clear(cpu as usize * SLOTS + GRANT);
        }
    }

    /// The timer of a grant has run out.
    pub(crate) fn grant_expires(&mut self, cpu: u32) {
        self.agenda.clear(cpu as usize * SLOTS + GRANT);
        self.seen.grants_expired += 1;
        self.trace_event(cpu, Event::Expired);
        self.take_time(cpu, self.machine.costs.interrupt_ns);
        self.resched(cpu, Some(cpu));
        self.interrupt_returns(cpu);
    }

    /// A system call during a grant: `rseq_syscall_enter_work()` ends it and makes room before the call begins.
    pub(crate) fn call_ends_grant(&mut self, cpu: u32, task: u32) {
        if self.trace.is_some() {
            let pc = self.tasks[task as usize].pc;
            let op = pc.checked_sub(1).map(|pc| self.code[pc as usize]);
            self.trace_event(cpu, Event::Returned { given: matches!(op, Some(Op::ExtendEnd | Op::Unlock(_))) });
        }
        self.revoke(cpu, task);
        self.schedule(cpu, SwitchOut::AtBoundary);
    }
}
