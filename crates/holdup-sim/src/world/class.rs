//! The scheduling classes of a CPU: real-time tasks before fair ones.

use super::{HRTICK, IDLE, SLOTS, World};
use crate::sched::fair::{Fair, Share};
use crate::sched::rt::RR_SLICE_NS;
use crate::sched::rules::Rules;
use crate::sched::weight;
use crate::world::{Load, TaskSpec};

/// How a task is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_BATCH: as that, and it does not preempt when it wakes up.
    Batch,
    /// SCHED_IDLE: with the least weight, and any other policy preempts it.
    Idle,
    /// SCHED_FIFO with a priority from 1 to 99.
    Fifo(u8),
    /// SCHED_RR with a priority from 1 to 99.
    Rr(u8),
}

impl Policy {
    /// The priority of a real-time task.
    pub(crate) fn priority(self) -> Option<u8> {
        match self {
            Policy::Fifo(priority) | Policy::Rr(priority) => Some(priority.clamp(1, 99)),
            _ => None,
        }
    }
}

/// The fair class of a machine with its groups.
pub(super) fn fair_of(kernel: &crate::machine::Kernel, cpus: usize, load: &Load) -> Fair {
    let rules = match kernel.cfs {
        Some(cfs) => Rules::Cfs(cfs),
        None => Rules::Eevdf(kernel.fair),
    };
    Fair::new(rules, cpus, &load.groups)
}

/// A task as the fair class sees it; it knows real-time tasks too, and never queues them.
pub(super) fn share_of(spec: &TaskSpec) -> Share {
    let idle = spec.policy == Policy::Idle;
    Share {
        weight: if idle { weight::IDLE } else { spec.weight },
        slice_ns: spec.slice_ns,
        group: spec.group,
        idle,
        batch: idle || spec.policy == Policy::Batch,
    }
}

impl World {
    pub(crate) fn priority(&self, task: u32) -> Option<u8> {
        self.tasks[task as usize].policy.priority()
    }

    /// The priority of what runs on a CPU, when it is a real-time task.
    pub(super) fn running_priority(&self, cpu: u32) -> Option<u8> {
        match self.cpus[cpu as usize].current {
            IDLE => None,
            current => self.priority(current),
        }
    }

    /// `enqueue_task()`.
    pub(crate) fn enqueue(&mut self, cpu: u32, task: u32, is_new: bool) {
        match self.priority(task) {
            Some(priority) => {
                let is_pinned = self.tasks[task as usize].pinned != u32::MAX;
                self.rt.enqueue(cpu, task, priority, is_pinned, false);
            }
            None => self.fair.enqueue(cpu, task, is_new),
        }
    }

    /// Tasks of a CPU that can run, the running one included.
    pub(crate) fn tasks_of(&self, cpu: u32) -> u32 {
        let runs = u32::from(self.running_priority(cpu).is_some());
        self.fair.tasks(cpu) + self.rt.waiting(cpu) + runs
    }

    /// `wakeup_preempt()`: asks the CPU of a task that became runnable to reschedule, where that is due.
    pub(crate) fn preempts(&mut self, cpu: u32, task: u32, here: Option<u32>) {
        match (self.priority(task), self.running_priority(cpu)) {
            (Some(new), Some(old)) if new <= old => {}
            (Some(_), _) => self.resched(cpu, here),
            (None, Some(_)) => {}
            (None, None) => {
                if self.fair.takes_over(cpu, task) {
                    self.resched_lazily(cpu, here);
                } else {
                    self.arm_hrtick(cpu);
                }
            }
        }
    }

    /// `push_rt_task()`: another CPU that runs something less urgent is asked to take a waiting real-time task.
    fn push_rt(&mut self, task: u32, cpu: u32) {
        if self.tasks[task as usize].pinned != u32::MAX {
            return;
        }
        let target = self.idle_anywhere(cpu).or_else(|| self.without_rt(cpu));
        if let Some(target) = target {
            self.resched(target, None);
        }
    }

    /// A CPU that runs no real-time task, preferably near this one.
    pub(crate) fn without_rt(&self, cpu: u32) -> Option<u32> {
        self.not_rt.round((0, self.cpus.len() as u32), cpu / 64 * 64)
    }

    /// A task that ran goes back to where it waits.
    pub(crate) fn requeue(&mut self, cpu: u32, task: u32) {
        if let Some(priority) = self.priority(task) {
            let t = &mut self.tasks[task as usize];
            let yields = std::mem::take(&mut t.yields);
            let used = matches!(t.policy, Policy::Rr(_)) && t.rr_ran_ns >= RR_SLICE_NS;
            if used {
                t.rr_ran_ns = 0;
            }
            let is_pinned = t.pinned != u32::MAX;
            self.rt.enqueue(cpu, task, priority, is_pinned, !(yields || used));
            self.push_rt(task, cpu);
        } else if std::mem::take(&mut self.tasks[task as usize].yields) {
            self.fair.yields(cpu);
        }
    }

    /// The next task of a CPU, without those of other CPUs but for real-time ones.
    pub(crate) fn choose(&mut self, cpu: u32) -> Option<u32> {
        if let Some(task) = self.rt.first(cpu) {
            self.rt.dequeue(task);
            let from = self.tasks[task as usize].cpu;
            if from != cpu {
                self.mark(from);
            }
            return Some(task);
        }
        self.fair.pick(cpu)
    }

    /// A task that was chosen begins to run.
    pub(crate) fn set(&mut self, cpu: u32, task: u32) {
        let is_rt = self.priority(task).is_some();
        self.not_rt.set(cpu, !is_rt);
        if is_rt {
            self.move_to(task, cpu);
        } else {
            self.fair.set(task);
            self.arm_hrtick(cpu);
        }
    }

    /// A task's CPU is another one now.
    pub(crate) fn move_to(&mut self, task: u32, cpu: u32) {
        let t = &mut self.tasks[task as usize];
        if t.cpu != cpu {
            t.cpu = cpu;
            self.seen.roles[t.program as usize].migrations += 1;
        }
    }

    /// `update_curr()`: whether the running task should be rescheduled.
    pub(crate) fn account(&mut self, cpu: u32) -> bool {
        let c = &mut self.cpus[cpu as usize];
        let ns = self.now.saturating_sub(c.accounted_at);
        c.accounted_at = c.accounted_at.max(self.now);
        if c.current != IDLE && self.tasks[c.current as usize].policy.priority().is_some() {
            self.tasks[c.current as usize].rr_ran_ns += ns;
            return false;
        }
        self.fair.ran(cpu, ns)
    }

    /// `task_tick()` after the time was accounted: whether the running task should be rescheduled.
    pub(crate) fn class_tick(&mut self, cpu: u32) -> bool {
        let task = self.cpus[cpu as usize].current;
        match self.tasks[task as usize].policy {
            Policy::Rr(priority) => {
                let used = self.tasks[task as usize].rr_ran_ns >= RR_SLICE_NS;
                let shared = self.rt.waits_at(cpu, priority.clamp(1, 99));
                if used && !shared {
                    self.tasks[task as usize].rr_ran_ns = 0;
                }
                used && shared
            }
            Policy::Fifo(_) => false,
            _ => self.fair.tick(cpu),
        }
    }

    /// A group's next period begins.
    pub(crate) fn period(&mut self, group: u32) {
        let slot = self.cpus.len() * SLOTS + group as usize;
        let period_ns = self.fair.groups[group as usize].spec.period_ns.max(1);
        self.agenda.set(slot, self.now + period_ns);
        // What runs is charged to the period in which it ran.
        for cpu in self.fair.period(group, self.now) {
            self.mark(cpu);
            if self.cpus[cpu as usize].current == IDLE {
                self.resched(cpu, None);
            } else if self.account(cpu) {
                self.resched_lazily(cpu, None);
            } else {
                self.arm_hrtick(cpu);
            }
        }
    }

    /// `hrtick_start_fair()`: a timer for the end of the running task's slice, where others wait.
    pub(crate) fn arm_hrtick(&mut self, cpu: u32) {
        if !self.machine.kernel.hrtick {
            return;
        }
        let slot = cpu as usize * SLOTS + HRTICK;
        match self.fair.slice_left_ns(cpu).filter(|_| self.fair.tasks(cpu) > 1) {
            Some(ns) => {
                let from = self.cpus[cpu as usize].accounted_at;
                self.agenda.set(slot, (from + ns.max(LEAST_HRTICK_NS)).max(self.now));
            }
            None => self.agenda.clear(slot),
        }
    }

    /// The timer of a slice has run out: `hrtick()`.
    pub(crate) fn hrtick(&mut self, cpu: u32) {
        self.agenda.clear(cpu as usize * SLOTS + HRTICK);
        if self.cpus[cpu as usize].current == IDLE {
            return;
        }
        let used = self.account(cpu);
        self.take_time(cpu, self.machine.costs.interrupt_ns);
        if used {
            self.resched(cpu, Some(cpu));
        } else {
            self.arm_hrtick(cpu);
        }
        self.interrupt_returns(cpu);
    }
}

/// `hrtick_start()` does not go below this, ns.
const LEAST_HRTICK_NS: u64 = 10_000;
