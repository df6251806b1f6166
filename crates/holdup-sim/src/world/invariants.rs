//! What must always be true of a machine.

use super::task::State;
use super::{IDLE, World};
use crate::sched::entity_queue::NIL;

/// What the checks measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InvariantReport {
    /// CPUs without a task.
    pub idle_cpus: u32,
    /// Fair tasks that wait for a CPU and may run on any.
    pub waiting: u32,
    /// The greatest distance of a fair task to the virtual time of its queue, in CPU time of the task, ns.
    pub worst_lag_ns: u64,
    /// The sum of the lags of the queue in which they sum up to most, as a virtual time, ns: rounding only.
    pub lag_sum_ns: u64,
}

impl World {
    /// Checks everything: for tests, since it costs a step for each CPU and task.
    ///
    /// # Errors
    /// What is not as it must be: a task on two CPUs, one that is nowhere, counts that do not count.
    pub fn check_invariants(&self) -> Result<InvariantReport, String> {
        let mut report = InvariantReport::default();
        let mut running = vec![0u32; self.tasks.len()];
        for (cpu, c) in self.cpus.iter().enumerate() {
            let cpu = cpu as u32;
            if c.current == IDLE {
                report.idle_cpus += 1;
            } else {
                running[c.current as usize] += 1;
            }
            if self.counts.of(cpu) != self.tasks_of(cpu) {
                return Err(format!("cpu {cpu} counts {} of {} tasks", self.counts.of(cpu), self.tasks_of(cpu)));
            }
            if self.idle.has(cpu) && c.current != IDLE {
                return Err(format!("cpu {cpu} runs task {} and is idle", c.current));
            }
        }
        for (task, t) in self.tasks.iter().enumerate() {
            let is_running = t.state == State::Running;
            if running[task] != u32::from(is_running) {
                return Err(format!("task {task} is {:?} and runs on {} CPUs", t.state, running[task]));
            }
            if is_running && self.cpus[t.cpu as usize].current != task as u32 {
                return Err(format!("task {task} runs elsewhere than on its cpu {}", t.cpu));
            }
            if t.policy.priority().is_some() {
                continue;
            }
            let entity = &self.fair.entities[self.fair.entity_of(task as u32) as usize];
            let can_run = matches!(t.state, State::Running | State::Runnable);
            if can_run != (entity.on_queue && !entity.delayed) {
                return Err(format!(
                    "task {task} is {:?}, queued {}, delayed {}",
                    t.state, entity.on_queue, entity.delayed
                ));
            }
            if t.pinned != u32::MAX && can_run && t.cpu != t.pinned {
                return Err(format!("task {task} is on cpu {} and not on {}", t.cpu, t.pinned));
            }
            let moves = t.pinned == u32::MAX && self.fair.queues[entity.queue as usize].stopped_at.is_none();
            report.waiting += u32::from(t.state == State::Runnable && moves && self.counts.of(t.cpu) > 1);
        }
        self.lags(&mut report);
        Ok(report)
    }

    fn lags(&self, report: &mut InvariantReport) {
        if !self.fair.orders_by_deadline() {
            return;
        }
        let mut sums = vec![0i128; self.fair.queues.len()];
        for (id, entity) in self.fair.entities.iter().enumerate().filter(|(_, e)| e.on_queue) {
            let far = self.fair.average(entity.queue) - self.fair.vruntime(id as u32);
            sums[entity.queue as usize] += i128::from(far) * i128::from(entity.weight);
            if entity.child == NIL {
                let ns = far.unsigned_abs() * entity.weight / crate::sched::weight::NICE_0;
                report.worst_lag_ns = report.worst_lag_ns.max(ns);
            }
        }
        for (queue, sum) in sums.iter().enumerate() {
            let load = i128::from(self.fair.sums(queue as u32).1.max(1));
            report.lag_sum_ns = report.lag_sum_ns.max((sum / load).unsigned_abs() as u64);
        }
    }

    /// The CPU that a task runs or ran on.
    pub fn cpu_of(&self, task: u32) -> u32 {
        self.tasks[task as usize].cpu
    }

    /// The virtual time of a CPU's own queue, ns.
    pub fn virtual_time_ns(&self, cpu: u32) -> i64 {
        self.fair.virtual_time(cpu)
    }
}
