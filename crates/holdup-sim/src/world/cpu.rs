//! CPUs: what they are doing, and their two need-resched bits.

use super::{Event, IPI, Mode, SLOTS, Segment, TICK, Then, World};
use crate::preempt::Model;
use crate::program::Preemption;
use crate::stats::SwitchOut;

/// The task of a CPU that has none.
pub(crate) const IDLE: u32 = u32::MAX;

/// A CPU; the fields that most events read come first.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Cpu {
    /// The task that runs.
    pub(crate) current: u32,
    /// How often a try to balance failed, by domain.
    pub(crate) failed: [u8; 4],
    /// How long the stretches are that are known to follow the running task's segment, ns. The event WORK is the end of them
    /// all.
    pub(crate) ahead_ns: u64,
    /// When it resumes its segment; switches and interrupts move it.
    pub(crate) busy_from: u64,
    /// Until when the fair class knows of the running task's time.
    pub(crate) accounted_at: u64,
    pub(crate) idle_since: u64,
    /// The same without regard to the window.
    pub(crate) idle_from: u64,
    /// `avg_idle`: how long it is idle when it is, ns.
    pub(crate) average_idle_ns: u64,
    /// TIF_NEED_RESCHED.
    pub(crate) need: bool,
    /// TIF_NEED_RESCHED_LAZY.
    pub(crate) lazy: bool,
    /// True if the event WORK is a `cond_resched()` and not the end of the segment.
    pub(crate) at_point: bool,
    /// True if a busy CPU has asked it to look for work.
    pub(crate) kicked: bool,
    /// When it balances next, by domain.
    pub(crate) next_balance: [u64; 4],
}

impl Cpu {
    /// A CPU without a task that has been idle for this long on average.
    pub(crate) fn idle(average_idle_ns: u64) -> Cpu {
        Cpu { current: IDLE, average_idle_ns, ..Cpu::default() }
    }
}

/// How far into a segment of the kernel the next `cond_resched()` or `might_sleep()` is, after `ran` ns of it.
fn next_point(segment: &Segment, ran: u64, model: &Model) -> Option<u64> {
    match segment.preemption {
        Preemption::CondResched(every) if model.cond_resched => {
            let every = u64::from(every.max(1));
            Some((ran / every + 1) * every)
        }
        Preemption::MightSleep if model.might_resched => {
            let half = (segment.done + segment.left) / 2;
            (ran < half).then_some(half)
        }
        _ => None,
    }
}

impl World {
    /// Keeps what the running task has done of its segment.
    pub(crate) fn stop(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].ahead_ns > 0 {
            self.enters(cpu);
        }
        let ns = self.now.saturating_sub(self.cpus[cpu as usize].busy_from);
        if ns > 0 {
            self.passes(cpu, ns);
        }
    }

    /// A part of the running task's segment is done.
    pub(super) fn passes(&mut self, cpu: u32, ns: u64) {
        if self.recorder.is_some() {
            self.records_work(cpu, self.cpus[cpu as usize].busy_from, ns);
        }
        let c = &mut self.cpus[cpu as usize];
        c.busy_from += ns;
        let task = &mut self.tasks[c.current as usize];
        if task.segment.left != u64::MAX {
            task.segment.left -= ns.min(task.segment.left);
        }
        task.segment.done += ns;
        self.seen.cpu_ns[c.current as usize] += ns;
        if task.held > 0 {
            let lock = &mut self.seen.locks[task.last_lock as usize];
            lock.held_ns += ns;
            lock.fault_ns += if task.segment.then == Then::Mapped { ns } else { 0 };
        }
        if task.segment.mode == Mode::Spin {
            self.seen.locks[task.waiting.lock as usize].spin_ns += ns;
        }
        let seen = &mut self.seen.roles[task.program as usize];
        match task.segment.mode {
            Mode::User => seen.user_ns += ns,
            Mode::Spin => seen.spin_ns += ns,
            Mode::Kernel => seen.kernel_ns += ns,
        }
    }

    /// Sets the end of the running task's segment, or the `cond_resched()` before it.
    pub(crate) fn arm(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        let segment = &self.tasks[c.current as usize].segment;
        c.at_point = false;
        if segment.left == u64::MAX {
            return self.agenda.clear_often(cpu as usize);
        }
        let mut at = c.busy_from + segment.left + c.ahead_ns;
        if c.need && segment.mode == Mode::Kernel {
            let ran = segment.done + self.now.saturating_sub(c.busy_from);
            if let Some(into) = next_point(segment, ran, self.machine.kernel.preempt) {
                let point = c.busy_from + into - segment.done;
                c.at_point = point < at;
                at = at.min(point);
            }
        }
        self.agenda.set_often(cpu as usize, at);
    }

    /// `resched_curr()`: asks a CPU to reschedule. `here` is the CPU that asks.
    pub(crate) fn resched(&mut self, cpu: u32, here: Option<u32>) {
        let c = &mut self.cpus[cpu as usize];
        if c.need {
            return;
        }
        c.need = true;
        self.recheck(cpu);
        if here != Some(cpu) {
            self.send(cpu);
        }
    }

    /// `resched_curr_lazy()`: what the fair class asks with.
    pub(crate) fn resched_lazily(&mut self, cpu: u32, here: Option<u32>) {
        let c = &mut self.cpus[cpu as usize];
        if self.machine.kernel.preempt.lazy && c.current != IDLE {
            c.lazy = true;
            self.recheck(cpu);
            if !self.machine.kernel.mechanisms.lazy_needs_tick && here != Some(cpu) {
                self.send(cpu);
            }
        } else {
            self.resched(cpu, here);
        }
    }

    /// Sends a CPU the reschedule interrupt.
    pub(crate) fn send(&mut self, cpu: u32) {
        let costs = &self.machine.costs;
        let idle_ns = if self.cpus[cpu as usize].current == IDLE { costs.idle_exit_ns } else { 0 };
        let at = self.now + costs.ipi_ns + idle_ns;
        let slot = cpu as usize * SLOTS + IPI;
        if self.agenda.at(slot).is_none_or(|set| set > at) {
            self.agenda.set(slot, at);
            self.seen.ipis += 1;
        }
    }

    pub(crate) fn interrupt(&mut self, cpu: u32) {
        self.agenda.clear(cpu as usize * SLOTS + IPI);
        if self.cpus[cpu as usize].current == IDLE {
            return self.schedule(cpu, SwitchOut::Blocked);
        }
        self.take_time(cpu, self.machine.costs.interrupt_ns);
        self.interrupt_returns(cpu);
    }

    /// An interrupt takes time from the running task, which the scheduler does not charge it with
    /// (`update_rq_clock_task()` with CONFIG_IRQ_TIME_ACCOUNTING).
    pub(crate) fn take_time(&mut self, cpu: u32, ns: u64) {
        self.stop(cpu);
        let c = &mut self.cpus[cpu as usize];
        c.busy_from = c.busy_from.max(self.now) + ns;
        c.accounted_at += ns;
        self.seen.overhead_ns += ns;
        self.arm(cpu);
    }

    /// `irqentry_exit()`: the point at which an interrupt returns to what it interrupted.
    pub(crate) fn interrupt_returns(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let model = self.machine.kernel.preempt;
        let segment = &self.tasks[c.current as usize].segment;
        let returns_to_user = segment.mode != Mode::Kernel && (c.need || c.lazy);
        if returns_to_user && self.extends(cpu) {
            return;
        }
        let c = &self.cpus[cpu as usize];
        match self.tasks[c.current as usize].segment.mode {
            Mode::User | Mode::Spin if returns_to_user => self.schedule(cpu, SwitchOut::AtBoundary),
            Mode::Kernel if c.need && model.preempts_kernel && self.may_leave(cpu) => {
                self.schedule(cpu, SwitchOut::InKernel);
            }
            Mode::Kernel if c.need && model.cond_resched => {
                self.stop(cpu);
                self.arm(cpu);
            }
            _ => {}
        }
    }

    /// True if preemption is on where the running task is in the kernel.
    pub(crate) fn may_leave(&self, cpu: u32) -> bool {
        let segment = &self.tasks[self.cpus[cpu as usize].current as usize].segment;
        segment.preemption != Preemption::Off || self.machine.kernel.preempt.sleeping_locks
    }

    /// `sched_tick()`.
    pub(crate) fn tick(&mut self, cpu: u32) {
        let slot = cpu as usize * SLOTS + TICK;
        let c = self.cpus[cpu as usize];
        if c.current == IDLE {
            return self.agenda.clear(slot);
        }
        // The clock keeps its beat, but the interrupt comes when the CPU lets it in. Without that, tasks that always run
        // for a tick would keep their order for ever, which those of a real machine do not.
        let (tick_ns, cost_ns) = (self.machine.tick_ns(), self.machine.costs.tick_ns);
        let late_ns = self.random.below(cost_ns.max(1));
        self.agenda.set(slot, (self.now / tick_ns + 1) * tick_ns + late_ns);
        self.take_time(cpu, cost_ns);
        if c.lazy {
            self.trace_event(cpu, Event::Promoted);
            self.resched(cpu, Some(cpu));
        }
        if self.account(cpu) | self.class_tick(cpu) {
            self.resched_lazily(cpu, Some(cpu));
        }
        self.balance(cpu);
        self.interrupt_returns(cpu);
    }

    /// The CPU begins to tick: at the next multiple of a tick, as all CPUs do.
    pub(crate) fn begin_ticks(&mut self, cpu: u32) {
        let slot = cpu as usize * SLOTS + TICK;
        if self.agenda.at(slot).is_none() {
            let tick_ns = self.machine.tick_ns();
            self.agenda.set(slot, (self.now / tick_ns + 1) * tick_ns);
        }
    }
}
