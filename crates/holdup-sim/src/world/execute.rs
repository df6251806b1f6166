//! Programs as segments of time.

use super::task::place_of;
use super::{Failure, Mode, Segment, Then, World};
use crate::program::{MarkId, Op, Preemption};
use crate::random::below;
use crate::stats::SwitchOut;

/// The most operations of a task without any time passing.
const MOST_WITHOUT_TIME: u32 = 100_000;

impl World {
    /// The event WORK: a segment is over, or a `cond_resched()` is reached.
    pub(crate) fn over(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let task = c.current;
        if c.at_point {
            return self.schedule(cpu, SwitchOut::InKernel);
        }
        self.stop(cpu);
        match self.tasks[task as usize].segment.then {
            Then::Next => self.next(cpu, task),
            Then::ToUser => self.return_to_user(cpu, task),
            Then::Lock => self.lock_step_over(cpu, task),
            Then::Mapped => self.mapped(cpu, task),
            Then::Delivers => self.delivers(cpu, task),
            Then::Sends => self.sends(cpu, task),
            Then::Receives => self.receives(cpu, task),
            Then::AsksDevice => self.asks_device(cpu, task),
            Then::Flushes => self.flushes(cpu, task),
            Then::WritesLog => self.writes_log(cpu, task),
            Then::Forks => self.forks(cpu, task),
            Then::Sleeps => self.sleeps(cpu, task),
            Then::Yields => {
                self.then_user(task);
                self.tasks[task as usize].yields = true;
                self.schedule(cpu, SwitchOut::AtBoundary);
            }
            Then::Ends => {
                self.backend_ends(task);
                self.ends(cpu, task);
            }
        }
    }

    /// What a task does when it has its CPU again: returns to user mode.
    pub(crate) fn then_user(&mut self, task: u32) {
        let t = &mut self.tasks[task as usize];
        t.segment = Segment::user(0, Then::Next);
    }

    /// `exit_to_user_mode_loop()`; in a thread of the kernel the `cond_resched()` between two pieces of work.
    pub(crate) fn return_to_user(&mut self, cpu: u32, task: u32) {
        self.then_user(task);
        let c = &self.cpus[cpu as usize];
        if c.need || c.lazy && !self.tasks[task as usize].is_kernel {
            self.schedule(cpu, SwitchOut::AtBoundary);
        } else {
            self.next(cpu, task);
        }
    }

    /// The running task enters the kernel for this long.
    pub(crate) fn enter_kernel(&mut self, cpu: u32, task: u32, ns: u64, then: Then) {
        self.begin(cpu, task, Segment::kernel(ns, Preemption::On, then));
    }

    /// Begins a segment of the running task.
    pub(crate) fn begin(&mut self, cpu: u32, task: u32, mut segment: Segment) {
        let t = &mut self.tasks[task as usize];
        if segment.left != u64::MAX {
            segment.left += std::mem::take(&mut t.extra_ns);
        }
        t.segment = segment;
        let c = &mut self.cpus[cpu as usize];
        c.busy_from = c.busy_from.max(self.now);
        if t.granted && segment.mode == Mode::Kernel && segment.then != Then::Mapped {
            return self.call_ends_grant(cpu, task);
        }
        let preempts = self.machine.kernel.preempt.preempts_kernel;
        if segment.mode == Mode::Kernel && c.need && preempts && self.may_leave(cpu) {
            return self.schedule(cpu, SwitchOut::InKernel);
        }
        self.look_ahead(cpu, task);
        self.arm(cpu);
    }

    /// True if small operations took time that must pass before the next one.
    fn passes_first(&mut self, cpu: u32, task: u32) -> bool {
        if self.tasks[task as usize].extra_ns == 0 {
            return false;
        }
        self.begin(cpu, task, Segment::user(0, Then::Next));
        true
    }

    /// The program continues until an operation takes time.
    pub(crate) fn next(&mut self, cpu: u32, task: u32) {
        for _ in 0..MOST_WITHOUT_TIME {
            let t = &mut self.tasks[task as usize];
            let op = self.code[t.pc as usize];
            match op {
                Op::Compute(span) => {
                    t.pc += 1;
                    let left = span.of(t.stream.word());
                    return self.begin(cpu, task, Segment::user(left, Then::Next));
                }
                Op::Jump(to) => t.pc = to,
                Op::Repeat { to, counter, times } => {
                    let count = &mut t.counters[counter as usize];
                    *count += 1;
                    if *count < times {
                        t.pc = to;
                    } else {
                        *count = 0;
                        t.pc += 1;
                    }
                }
                Op::Chance { of, to } => {
                    t.pc = if (t.stream.word() >> 32) < u64::from(of) { to } else { t.pc + 1 };
                }
                Op::IfTag { tag, to } => t.pc = if t.tag == tag { to } else { t.pc + 1 },
                Op::IfLost(to) => t.pc = if t.lost { to } else { t.pc + 1 },
                Op::UsedUp { region, to } => {
                    let end = self.regions[region as usize].end;
                    t.pc = if end > 0 && self.cursors[region as usize] >= end { to } else { t.pc + 1 };
                }
                Op::Found { region, of, to } => {
                    let is = below(t.stream.word(), u64::from(of.max(1))) < self.cursors[region as usize];
                    t.pc = if is { to } else { t.pc + 1 };
                }
                Op::Follow => return self.follows(cpu, task),
                other => {
                    // An extension that was granted is returned by a system call.
                    let is_note = !(t.granted && other == Op::ExtendEnd) && self.notes(task, other);
                    if !is_note && (self.passes_first(cpu, task) || !self.acts(cpu, task, other)) {
                        return;
                    }
                }
            }
        }
        // Nothing takes time in this program, and nothing ever will.
        self.fails(Failure::NoTime { task, pc: self.tasks[task as usize].pc });
        self.tasks[task as usize].extra_ns += 1;
        self.passes_first(cpu, task);
    }

    /// Operations that take no time and that no other task sees. Whether it is one.
    fn notes(&mut self, task: u32, op: Op) -> bool {
        let extra_ns = self.tasks[task as usize].extra_ns;
        match op {
            Op::Begin(mark) => self.tasks[task as usize].begun[place_of(mark)] = self.now + extra_ns,
            Op::Done(mark) => self.done(task, mark, extra_ns),
            Op::BeginFor(mark) => {
                if let Some(other) = self.sender_of(task) {
                    self.tasks[other as usize].begun[place_of(mark)] = self.now + extra_ns;
                }
            }
            Op::DoneFor(mark) => {
                if let Some(other) = self.sender_of(task) {
                    self.done(other, mark, extra_ns);
                }
            }
            Op::Append(log) => self.append(task, log),
            Op::ExtendBegin => self.asks_to_extend(task, true),
            Op::ExtendEnd => self.asks_to_extend(task, false),
            _ => return false,
        }
        self.tasks[task as usize].pc += 1;
        true
    }

    fn done(&mut self, task: u32, mark: MarkId, extra_ns: u64) {
        let begun = std::mem::take(&mut self.tasks[task as usize].begun[place_of(mark)]);
        let seen = &mut self.seen.marks[mark as usize];
        seen.count += 1;
        if begun != 0 {
            seen.lengths.record_ns((self.now + extra_ns).saturating_sub(begun));
        }
        if self.by_task & (1 << mark) != 0 {
            self.seen.by_task[task as usize] += 1;
        }
    }

    /// Operations that other tasks can see. Whether the program continues without a pause.
    fn acts(&mut self, cpu: u32, task: u32, op: Op) -> bool {
        let t = &mut self.tasks[task as usize];
        let syscall_ns = if t.is_kernel { 0 } else { self.machine.costs.syscall_ns };
        t.pc += 1;
        let costs = &self.machine.costs;
        let (ns, then) = match op {
            Op::Lock(lock) => return self.want(cpu, task, lock, false, false),
            Op::LockShared(lock) => return self.want(cpu, task, lock, true, false),
            Op::Data { lock, lines } => {
                self.uses_data(cpu, task, lock, lines);
                return true;
            }
            Op::Unlock(lock) => return self.release(cpu, task, lock),
            Op::Touch { region, pages } => return self.touch(cpu, task, region, pages),
            Op::Flush(log) => return self.flush(cpu, task, log),
            Op::Join => return self.join(cpu, task),
            Op::Forget(region) => {
                let place = t.process as usize * self.regions.len() + region as usize;
                let steps = std::mem::take(&mut self.touched[place]);
                let entries = steps.div_ceil(self.regions[region as usize].steps);
                let ns = u64::from(entries) * costs.forget_ns + syscall_ns;
                // zap_pte_range() (mm/memory.c) checks need_resched() before each entry, and calls cond_resched().
                let preemption = Preemption::CondResched(u32::try_from(costs.forget_ns).unwrap_or(u32::MAX));
                self.begin(cpu, task, Segment::kernel(ns, preemption, Then::ToUser));
                return false;
            }
            Op::System { work, preemption } => {
                let ns = work.of(t.stream.word()) + syscall_ns;
                self.begin(cpu, task, Segment::kernel(ns, preemption, Then::ToUser));
                return false;
            }
            Op::Sleep(span) => {
                t.sleep_ns = span.of(t.stream.word());
                (0, Then::Sleeps)
            }
            Op::NextMoment { interval_ns, late, missed } => {
                self.woke_for_moment(task, interval_ns, late, missed);
                (0, Then::Sleeps)
            }
            Op::Send { .. } => (costs.send_ns, Then::Sends),
            Op::Receive(_) => (costs.receive_ns, Then::Receives),
            Op::Transmit { work_ns, .. } => (u64::from(work_ns), Then::Delivers),
            Op::Take { .. } => (0, Then::Receives),
            Op::Io { .. } => (0, Then::AsksDevice),
            Op::Fork(_) => (costs.fork_ns, Then::Forks),
            Op::Yield => (0, Then::Yields),
            Op::ExtendEnd => (0, Then::ToUser),
            _ => (0, Then::Ends),
        };
        self.enter_kernel(cpu, task, syscall_ns + ns, then);
        false
    }

    /// The task's periodic timer: how late it is for the moment that it slept for, and which moment is next.
    fn woke_for_moment(&mut self, task: u32, interval_ns: u64, late: MarkId, missed: MarkId) {
        let moment = self.tasks[task as usize].begun[place_of(late)];
        let mut next = self.now + interval_ns;
        if moment != 0 {
            let over = self.now.saturating_sub(moment) / interval_ns.max(1);
            next = moment + (over + 1) * interval_ns;
            self.done(task, late, 0);
            self.seen.marks[missed as usize].count += over;
        }
        self.tasks[task as usize].begun[place_of(late)] = next;
    }

    /// The softirq that delivers what the task sends, before the call returns (`__local_bh_enable_ip()`).
    fn delivers(&mut self, cpu: u32, task: u32) {
        let Op::Transmit { softirq_ns, .. } = self.code[self.tasks[task as usize].pc as usize - 1] else {
            return self.return_to_user(cpu, task);
        };
        self.begin(cpu, task, Segment::kernel(u64::from(softirq_ns), Preemption::Off, Then::Sends));
    }

    /// The task blocks; its timer wakes it. Timers of real-time tasks have no slack (kernel/time/hrtimer.c
    /// `hrtimer_nanosleep()` up to 6.11, kernel/sched/syscalls.c `__setscheduler_params()` from 6.12 on).
    pub(crate) fn sleeps(&mut self, cpu: u32, task: u32) {
        let slack_ns = if self.priority(task).is_some() { 0 } else { self.machine.costs.timer_slack_ns };
        let t = &self.tasks[task as usize];
        let at = match self.code[t.pc as usize - 1] {
            Op::NextMoment { late, .. } => t.begun[place_of(late)].max(self.now),
            _ => self.now + t.sleep_ns,
        };
        self.then_user(task);
        self.agenda.set(self.timer_slot(task), at + slack_ns);
        self.schedule(cpu, SwitchOut::Blocked);
    }

    /// A task's timer has run out: an interrupt on its last CPU.
    pub(crate) fn timer(&mut self, task: u32) {
        self.agenda.clear(self.timer_slot(task));
        if self.follows_trace() {
            return self.wakes_follower(task);
        }
        let cpu = self.tasks[task as usize].cpu;
        self.wake_by_interrupt(task, cpu);
        self.device_is_done(task);
    }

    /// An interrupt on a CPU wakes a task.
    fn wake_by_interrupt(&mut self, task: u32, cpu: u32) {
        let is_busy = self.cpus[cpu as usize].current != super::IDLE;
        if is_busy {
            self.take_time(cpu, self.machine.costs.interrupt_ns);
        }
        self.wake(task, None);
        if is_busy {
            self.interrupt_returns(cpu);
        }
    }

    /// Writes to pages; the first that is not mapped faults.
    fn touch(&mut self, cpu: u32, task: u32, region: u32, pages: u32) -> bool {
        let costs = &self.machine.costs;
        let spec = self.regions[region as usize];
        let t = &mut self.tasks[task as usize];
        if t.touches_left == 0 {
            t.touches_left = pages;
        }
        let place = t.process as usize * self.regions.len() + region as usize;
        while t.touches_left > 0 {
            let step = if spec.together { 0 } else { self.touched[place] };
            if spec.together && spec.end > 0 && self.cursors[region as usize] >= spec.end {
                t.touches_left = 0;
                return true;
            }
            let page = (self.cursors[region as usize] / u64::from(spec.steps)) as u32;
            let faults = if spec.together { t.last_page != page } else { step.is_multiple_of(spec.steps) };
            if faults {
                t.last_page = page;
            }
            if faults && !spec.mapped && (t.held == 0 || self.machine.kernel.mechanisms.fault_under_lock) {
                // The operation is repeated when the page is mapped.
                t.pc -= 1;
                let ns = if spec.huge { costs.huge_fault_ns } else { costs.fault_ns };
                let seen = &mut self.seen.roles[t.program as usize];
                seen.faults += 1;
                if t.held > 0 {
                    seen.faults_holding += 1;
                    self.seen.locks[t.last_lock as usize].faults += 1;
                }
                if self.recorder.is_some() {
                    self.records_fault(cpu, task, true);
                }
                // folio_lock() of the page that is there (shmem_get_folio_gfp(), mm/shmem.c) might sleep; where in the fault that
                // is depends on the machine.
                self.begin(cpu, task, Segment::kernel(ns, Preemption::MightSleep, Then::Mapped));
                return false;
            }
            if spec.together {
                self.cursors[region as usize] += 1;
            } else {
                self.touched[place] += 1;
            }
            t.touches_left -= 1;
            t.extra_ns += costs.touch_ns;
        }
        true
    }

    fn mapped(&mut self, cpu: u32, task: u32) {
        if self.recorder.is_some() {
            self.records_fault(cpu, task, false);
        }
        let t = &mut self.tasks[task as usize];
        let Op::Touch { region, .. } = self.code[t.pc as usize] else {
            return self.return_to_user(cpu, task);
        };
        if self.regions[region as usize].together {
            self.cursors[region as usize] += 1;
        } else {
            self.touched[t.process as usize * self.regions.len() + region as usize] += 1;
        }
        t.touches_left -= 1;
        if t.touches_left == 0 {
            t.pc += 1;
        }
        // A fault that was taken in user mode ends like an interrupt.
        let c = &self.cpus[cpu as usize];
        if c.need || c.lazy {
            self.extends(cpu);
        }
        self.return_to_user(cpu, task);
    }
}
