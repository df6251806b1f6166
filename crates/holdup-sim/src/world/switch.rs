//! From one task to the next: `__schedule()` (kernel/sched/core.c).

use super::task::State;
use super::{HRTICK, IDLE, Mode, SLOTS, TICK, Then, World};
use crate::sched::entity_queue::NIL;
use crate::stats::SwitchOut;

impl World {
    /// Takes the running task off its CPU, if there is one, and puts the next one on.
    pub(crate) fn schedule(&mut self, cpu: u32, left: SwitchOut) {
        let previous = self.cpus[cpu as usize].current;
        // An interrupt whose time has not passed yet belongs to the task that it interrupted.
        let start = self.cpus[cpu as usize].busy_from.max(self.now);
        let reason = self.trace.is_some().then(|| self.switch_reason(cpu, previous, left));
        if previous != IDLE {
            self.put(cpu, previous, left);
        }
        let c = &mut self.cpus[cpu as usize];
        (c.need, c.lazy, c.at_point) = (false, false, false);
        // What the previous task would have come to stays in the agenda until the next one's, or none, takes its place.
        let next = self.pick(cpu);
        if next != NIL && next == previous {
            // The same task continues: there was no switch.
            self.tasks[next as usize].state = State::Running;
            self.go_on(cpu, next, start, self.machine.costs.switch_ns / 2);
            return self.mark(cpu);
        }
        if previous != IDLE {
            self.leaves(previous, left);
        }
        if self.recorder.is_some() && (next != NIL || previous != IDLE) {
            self.records_switch(cpu, previous, next, left);
        }
        self.seen.switches += u64::from(next != NIL || previous != IDLE);
        match next {
            NIL if previous == IDLE => {}
            NIL => self.rest(cpu, start),
            next => self.run(cpu, next, start),
        }
        if let Some(reason) = reason {
            self.trace_switch(cpu, previous, next, reason);
        }
        self.mark(cpu);
    }

    /// `put_prev_task()`: the running task's time is accounted, and it goes to where it waits.
    fn put(&mut self, cpu: u32, task: u32, left: SwitchOut) {
        self.stop(cpu);
        self.cpus[cpu as usize].ahead_ns = 0;
        self.account(cpu);
        self.revoke(cpu, task);
        let is_rt = self.priority(task).is_some();
        self.tasks[task as usize].last_ran = self.now;
        self.tasks[task as usize].state = match left {
            SwitchOut::Blocked => State::Blocked,
            SwitchOut::Exited => State::Dead,
            SwitchOut::AtBoundary | SwitchOut::InKernel => State::Runnable,
        };
        if self.tasks[task as usize].state == State::Runnable {
            self.requeue(cpu, task);
        } else if !is_rt {
            self.fair.dequeue_task(task, left == SwitchOut::Blocked);
        }
        if !is_rt {
            self.fair.put(cpu);
            self.fair.stop_spent(cpu, task, self.now);
        }
    }

    /// A task is off its CPU: `sched_switch`.
    fn leaves(&mut self, task: u32, left: SwitchOut) {
        let now = self.now;
        let t = &mut self.tasks[task as usize];
        let role = &mut self.seen.roles[t.program as usize];
        role.switch_outs[left as usize] += 1;
        if t.held > 0 {
            role.switch_outs_holding[left as usize] += 1;
            self.holder_leaves(task, left);
        }
        let t = &mut self.tasks[task as usize];
        if matches!(left, SwitchOut::AtBoundary | SwitchOut::InKernel) {
            t.runnable_since = now;
            if t.segment.mode == Mode::Spin {
                self.spinner_left(task);
            }
        }
    }

    /// The holder of a lock is off its CPU: from now on its spinners wait for a holder that does not run.
    fn holder_leaves(&mut self, task: u32, left: SwitchOut) {
        let t = &mut self.tasks[task as usize];
        let place = match (left, t.segment.mode, t.segment.then) {
            (SwitchOut::Blocked | SwitchOut::Exited, ..) => 3,
            (_, Mode::Kernel, Then::Mapped) => 2,
            (_, Mode::Kernel, _) => 1,
            _ => 0,
        };
        t.holder_off = (place as u8, self.now);
        let lock = t.last_lock as usize;
        self.seen.locks[lock].holder_left[place] += 1;
        self.locks[lock].behind_since = Some(self.now);
    }

    /// The holder has a CPU again.
    fn holder_comes(&mut self, task: u32) {
        let t = &self.tasks[task as usize];
        let (lock, (place, since)) = (t.last_lock as usize, t.holder_off);
        self.count_behind(t.last_lock);
        if self.locks[lock].behind_since.take().is_some() {
            self.seen.locks[lock].holder_off_ns[place as usize] += self.now - since.max(self.opened_at);
        }
    }

    /// Counts the time of those that spin behind a holder that is off its CPU, before their number changes.
    pub(crate) fn count_behind(&mut self, lock: u32) {
        let l = &mut self.locks[lock as usize];
        if let Some(since) = l.behind_since {
            let ns = self.now - since;
            self.seen.locks[lock as usize].spin_behind_ns += ns * l.spinners.len() as u64;
            l.behind_since = Some(self.now);
        }
    }

    /// The next task of a CPU, from its own queue or from another CPU's.
    fn pick(&mut self, cpu: u32) -> u32 {
        loop {
            if let Some(next) = self.choose(cpu) {
                return next;
            }
            if !self.pull(cpu) {
                return NIL;
            }
        }
    }

    fn rest(&mut self, cpu: u32, start: u64) {
        let c = &mut self.cpus[cpu as usize];
        c.current = IDLE;
        (c.idle_since, c.idle_from) = (start, start);
        self.agenda.clear_often(cpu as usize);
        self.agenda.clear(cpu as usize * SLOTS + TICK);
        self.agenda.clear(cpu as usize * SLOTS + HRTICK);
        self.set_idle(cpu, true);
    }

    fn run(&mut self, cpu: u32, task: u32, start: u64) {
        let c = &mut self.cpus[cpu as usize];
        if c.current == IDLE {
            self.seen.idle_ns += start.saturating_sub(c.idle_since);
            let idle_ns = start.saturating_sub(c.idle_from);
            self.was_idle(cpu, idle_ns);
            self.set_idle(cpu, false);
        }
        self.begin_ticks(cpu);
        let t = &mut self.tasks[task as usize];
        let waited_ns = start - t.runnable_since.min(start);
        let replay = self.seen.replay.as_mut();
        if replay.as_ref().is_none_or(|replay| !replay.is_past_end) {
            self.seen.roles[t.program as usize].waited.record_ns(waited_ns);
            if let Some(replay) = replay {
                replay.waits[task as usize].record_ns(waited_ns);
            }
        }
        if t.held > 0 && t.state == State::Runnable {
            self.seen.locks[t.last_lock as usize].holder_preempted.record_ns(waited_ns);
        }
        t.state = State::Running;
        if t.held > 0 {
            self.holder_comes(task);
        }
        self.go_on(cpu, task, start, self.machine.costs.switch_ns);
    }

    /// A task has its CPU from `start` on, and resumes after the cost of the switch.
    fn go_on(&mut self, cpu: u32, task: u32, start: u64, cost_ns: u64) {
        let c = &mut self.cpus[cpu as usize];
        let came = c.current != task;
        c.current = task;
        c.accounted_at = start;
        c.busy_from = start + cost_ns;
        self.seen.overhead_ns += cost_ns;
        self.set(cpu, task);
        if came && self.tasks[task as usize].segment.mode == Mode::Spin {
            self.spinner_came(task);
        }
        self.look_ahead(cpu, task);
        self.arm(cpu);
    }
}
