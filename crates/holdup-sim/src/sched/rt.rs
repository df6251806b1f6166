//! Real-time tasks: SCHED_FIFO and SCHED_RR (kernel/sched/rt.c, v6.18).
//!
//! Each CPU has its tasks that wait in the order of their priorities; those that may migrate are in a set of the whole
//! machine as well, as the kernel's pushable tasks do with the mask of overloaded CPUs. The running task is in no
//! set. Throttling of the class, and the server that keeps fair tasks from starving since 6.12, are not modelled.

use std::collections::BTreeSet;

/// Priority from the highest, order of arrival, task.
type Key = (u8, i64, u32);

/// What is tasks of a real-time task.
#[derive(Debug, Clone, Copy, Default)]
struct RtTask {
    /// 99 less its priority, and its place in line.
    place: (u8, i64),
    cpu: u32,
}

/// All real-time tasks that wait.
#[derive(Debug, Clone)]
pub(crate) struct Rt {
    queues: Vec<BTreeSet<Key>>,
    movable: BTreeSet<Key>,
    tasks: Vec<RtTask>,
    last: i64,
    first: i64,
}

/// `sched_rr_timeslice`, ns.
pub(crate) const RR_SLICE_NS: u64 = 100_000_000;

impl Rt {
    pub(crate) fn new(cpus: usize) -> Self {
        Rt { queues: vec![BTreeSet::new(); cpus], movable: BTreeSet::new(), tasks: Vec::new(), last: 0, first: 0 }
    }

    /// A task begins to wait, behind those of its priority or, when it was preempted, before them.
    pub(crate) fn enqueue(&mut self, cpu: u32, task: u32, priority: u8, is_pinned: bool, at_head: bool) {
        if self.tasks.len() <= task as usize {
            self.tasks.resize(task as usize + 1, RtTask::default());
        }
        let order = if at_head {
            self.first -= 1;
            self.first
        } else {
            self.last += 1;
            self.last
        };
        let place = (99u8.saturating_sub(priority), order);
        self.tasks[task as usize] = RtTask { place, cpu };
        let entry = (place.0, place.1, task);
        self.queues[cpu as usize].insert(entry);
        if !is_pinned {
            self.movable.insert(entry);
        }
    }

    /// A task waits no longer.
    pub(crate) fn dequeue(&mut self, task: u32) {
        let tasks = self.tasks[task as usize];
        let entry = (tasks.place.0, tasks.place.1, task);
        self.queues[tasks.cpu as usize].remove(&entry);
        self.movable.remove(&entry);
    }

    /// The task that runs next on a CPU, from its own line or, with a higher priority, from another's.
    pub(crate) fn first(&self, cpu: u32) -> Option<u32> {
        let own = self.queues[cpu as usize].first();
        let any = self.movable.first();
        match (own, any) {
            (Some(own), Some(any)) => Some(if any.0 < own.0 { any.2 } else { own.2 }),
            (own, any) => own.or(any).map(|entry| entry.2),
        }
    }

    /// True if a task of the priority or a higher one waits on a CPU.
    pub(crate) fn waits_at(&self, cpu: u32, priority: u8) -> bool {
        self.queues[cpu as usize].first().is_some_and(|entry| entry.0 <= 99 - priority)
    }

    /// Tasks that wait on a CPU.
    pub(crate) fn waiting(&self, cpu: u32) -> u32 {
        self.queues[cpu as usize].len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_runs_first_and_the_preempted_before_the_others() {
        let mut rt = Rt::new(2);
        rt.enqueue(0, 0, 10, true, false);
        rt.enqueue(0, 1, 50, true, false);
        rt.enqueue(0, 2, 50, true, false);
        let mut order = Vec::new();
        rt.enqueue(0, 3, 50, true, true);
        while let Some(task) = rt.first(0) {
            order.push(task);
            rt.dequeue(task);
        }
        assert_eq!(order, [3, 1, 2, 0]);
        assert_eq!(rt.first(1), None, "pinned tasks stay");
        rt.enqueue(0, 4, 1, false, false);
        assert_eq!(rt.first(1), Some(4), "others go where there is room");
    }
}
