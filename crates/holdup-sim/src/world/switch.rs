//! From one task to the next: `__schedule()` (kernel/sched/core.c).

use super::task::State;
use super::{IDLE, Mode, SLOTS, TICK, WORK, World};
use crate::sched::tree::NIL;
use crate::seen::Left;

impl World {
    /// Takes the running task off its CPU, if there is one, and puts the next one on.
    pub(crate) fn schedule(&mut self, cpu: u32, left: Left) {
        let previous = self.cpus[cpu as usize].current;
        if previous != IDLE {
            self.put(cpu, previous, left);
        }
        let c = &mut self.cpus[cpu as usize];
        (c.need, c.lazy, c.at_point) = (false, false, false);
        self.agenda.clear(cpu as usize * SLOTS + WORK);
        self.seen.switches += 1;
        let next = self.pick(cpu);
        self.mark_crowded(cpu);
        match (next, previous) {
            (NIL, _) => self.rest(cpu),
            // It goes on: no other task came between.
            (next, previous) if next == previous => self.run(cpu, next, self.machine.costs.switch_ns / 2),
            (next, _) => self.run(cpu, next, self.machine.costs.switch_ns),
        }
    }

    fn put(&mut self, cpu: u32, task: u32, left: Left) {
        self.stop(cpu);
        self.account(cpu);
        let now = self.now;
        let t = &mut self.tasks[task as usize];
        t.last_ran = now;
        let role = &mut self.seen.roles[t.program as usize];
        role.left[left as usize] += 1;
        if t.held > 0 {
            role.left_holding[left as usize] += 1;
        }
        match left {
            Left::Waits => {
                t.state = State::Blocked;
                self.fair.sleep(cpu as usize, task);
            }
            Left::Ends => {
                t.state = State::Dead;
                self.fair.dequeue(cpu as usize, task);
            }
            Left::Boundary | Left::Inside => {
                t.state = State::Runnable;
                t.runnable_since = now;
                if t.segment.mode == Mode::Spin {
                    self.spinner_left(task);
                }
            }
        }
        self.fair.put(cpu as usize);
    }

    /// The next task of a CPU, from its own queue or from another CPU's.
    fn pick(&mut self, cpu: u32) -> u32 {
        loop {
            let next = self.fair.pick(cpu as usize, true);
            if next == NIL {
                if !self.pull(cpu) {
                    return NIL;
                }
            } else if self.fair.entities[next as usize].delayed {
                self.fair.dequeue(cpu as usize, next);
            } else {
                return next;
            }
        }
    }

    fn rest(&mut self, cpu: u32) {
        let c = &mut self.cpus[cpu as usize];
        c.current = IDLE;
        c.idle_since = self.now;
        self.agenda.clear(cpu as usize * SLOTS + TICK);
        self.set_idle(cpu, true);
    }

    fn run(&mut self, cpu: u32, task: u32, cost_ns: u64) {
        let c = &mut self.cpus[cpu as usize];
        if c.current == IDLE {
            self.seen.idle_ns += self.now - c.idle_since;
            self.set_idle(cpu, false);
        }
        self.begin_ticks(cpu);
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        c.current = task;
        c.accounted_at = now;
        c.busy_from = now + cost_ns;
        self.fair.set(cpu as usize, task);
        let t = &mut self.tasks[task as usize];
        let waited_ns = now - t.runnable_since;
        self.seen.roles[t.program as usize].waited.record_ns(waited_ns);
        if t.held > 0 && t.state == State::Runnable {
            self.seen.locks[t.last_lock as usize].holder_preempted.record_ns(waited_ns);
        }
        t.state = State::Running;
        if t.segment.mode == Mode::Spin {
            self.spinner_came(task);
        }
        self.arm(cpu);
    }
}
