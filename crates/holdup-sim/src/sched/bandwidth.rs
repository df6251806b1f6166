//! Limits on the CPU time of groups: quota and period (`cpu.max`; kernel/sched/fair.c, `throttle_cfs_rq()`, v6.12).
//!
//! A queue of a group takes its time from the group's quota in pieces. Where the quota is used up it stops: its entity
//! leaves the queue above until the next period. Kernels from 6.18 on let a task that is inside the kernel go on to the
//! return to user mode first; here it stops where it is switched out.

use super::entity_queue::NIL;
use super::fair::Fair;
use super::group::GroupStats;

/// `sysctl_sched_cfs_bandwidth_slice`: what a queue takes from the quota in one piece, ns.
const PIECE_NS: i64 = 5_000_000;

impl Fair {
    /// The limit that a queue stands under.
    fn quota_ns(&self, queue: u32) -> u64 {
        match self.queues[queue as usize].group {
            NIL => 0,
            group => self.groups[group as usize].spec.quota_ns,
        }
    }

    /// `account_cfs_rq_runtime()`: a queue's tasks have run for so long. Whether it should stop.
    pub(crate) fn spend(&mut self, queue: u32, ns: u64) -> bool {
        if self.quota_ns(queue) == 0 {
            return false;
        }
        let q = &mut self.queues[queue as usize];
        q.left_ns -= ns as i64;
        self.groups[q.group as usize].seen.used_ns += ns;
        let stops = !self.refill(queue) && self.queues[queue as usize].stopped_at.is_none();
        self.spent |= stops;
        stops
    }

    /// `assign_cfs_rq_runtime()`: takes a piece of the quota where nothing is left. Whether the queue may go on.
    fn refill(&mut self, queue: u32) -> bool {
        let q = &mut self.queues[queue as usize];
        if q.left_ns > 0 {
            return true;
        }
        let group = &mut self.groups[q.group as usize];
        let ns = ((PIECE_NS - q.left_ns) as u64).min(group.left_ns);
        group.left_ns -= ns;
        q.left_ns += ns as i64;
        q.left_ns > 0
    }

    /// Stops the queues above a task whose quota is used up. The task is not running.
    pub(crate) fn stop_spent(&mut self, cpu: u32, task: u32, now: u64) {
        let id = self.entity_of(task);
        let mut queue = self.entities[id as usize].queue;
        debug_assert_eq!(queue % self.cpus, cpu);
        while self.queues[queue as usize].owner != NIL {
            if self.quota_ns(queue) > 0 && !self.refill(queue) {
                self.throttle(queue, now);
            }
            queue = self.entities[self.queues[queue as usize].owner as usize].queue;
        }
    }

    /// `throttle_cfs_rq()`.
    fn throttle(&mut self, queue: u32, now: u64) {
        let q = self.queues[queue as usize];
        if q.stopped_at.is_some() {
            return;
        }
        if self.entities[q.owner as usize].on_queue {
            self.count(self.entities[q.owner as usize].queue, -i64::from(q.tasks));
            self.dequeue_up(q.owner, false, false);
        }
        self.queues[queue as usize].stopped_at = Some(now);
        let group = &mut self.groups[q.group as usize];
        group.stopped.push(queue);
        group.seen.throttles += 1;
    }

    /// Forgets what was seen of the groups.
    pub(crate) fn open(&mut self, now: u64) {
        for group in &mut self.groups {
            group.seen = GroupStats::default();
        }
        for q in &mut self.queues {
            q.stopped_at = q.stopped_at.map(|_| now);
        }
    }

    /// What was seen of the groups until now.
    pub(crate) fn seen(&self, now: u64) -> Vec<GroupStats> {
        let mut seen: Vec<GroupStats> = self.groups.iter().map(|group| group.seen).collect();
        for q in self.queues.iter().filter(|q| q.group != NIL) {
            seen[q.group as usize].throttled_ns += q.stopped_at.map_or(0, |since| now - since);
        }
        seen
    }

    /// `sched_cfs_period_timer()`: a group's next period begins. The CPUs on which its tasks can go on.
    pub(crate) fn period(&mut self, group: u32, now: u64) -> Vec<u32> {
        let g = &mut self.groups[group as usize];
        g.left_ns = g.spec.quota_ns;
        g.seen.periods += 1;
        let stopped = std::mem::take(&mut g.stopped);
        let mut cpus = Vec::new();
        for queue in stopped {
            if !self.refill(queue) {
                self.groups[group as usize].stopped.push(queue);
                continue;
            }
            let q = &mut self.queues[queue as usize];
            let Some(since) = q.stopped_at.take() else { continue };
            self.groups[group as usize].seen.throttled_ns += now - since;
            let q = self.queues[queue as usize];
            if q.nr > 0 {
                let above = self.entities[q.owner as usize].queue;
                self.count(above, i64::from(q.tasks));
                self.enqueue_from(q.owner, above, false);
                cpus.push(queue % self.cpus);
            }
        }
        cpus
    }
}
