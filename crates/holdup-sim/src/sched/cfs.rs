//! CFS: the completely fair scheduler of kernels up to 6.5 (kernel/sched/fair.c, v6.1 and v5.10).
//!
//! The queue is ordered by virtual run time, and its origin is `min_vruntime`. What runs makes room at a tick, once it
//! had its share of a period; a task that wakes up preempts when it is behind by more than the wake-up granularity.

use super::entity_queue::NIL;
use super::fair::Fair;
use super::weight::weighted;

/// Features and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// GENTLE_FAIR_SLEEPERS: the credit of a sleeper is half a period only.
    pub gentle_fair_sleepers: bool,
    /// START_DEBIT: a new task waits for one slice first.
    pub start_debit: bool,
    pub wakeup_preemption: bool,
    /// True if a slice is never shorter than the minimal granularity: BASE_SLICE, from 5.13.
    pub base_slice: bool,
    /// sched_latency_ns, ns: the period, unless more tasks run than granularities fit in it.
    pub latency_ns: u64,
    pub min_granularity_ns: u64,
    pub wakeup_granularity_ns: u64,
}

/// The switches by their names in `/sys/kernel/debug/sched/features`.
pub(crate) const SWITCHES: &[super::Switch<Features>] = &[
    ("GENTLE_FAIR_SLEEPERS", |f| &mut f.gentle_fair_sleepers),
    ("START_DEBIT", |f| &mut f.start_debit),
    ("WAKEUP_PREEMPTION", |f| &mut f.wakeup_preemption),
    ("BASE_SLICE", |f| &mut f.base_slice),
];

impl Fair {
    /// `update_min_vruntime()`: the least virtual run time of a queue, which never goes back.
    fn update_least(&mut self, queue: u32) {
        let q = &self.queues[queue as usize];
        let first = self.waiting_in[queue as usize].first();
        let runs = q.current != NIL && self.entities[q.current as usize].on_queue;
        let least = match (runs, first) {
            (true, NIL) => self.vruntime(q.current),
            (true, first) => self.vruntime(q.current).min(self.vruntime(first)),
            (false, NIL) => return,
            (false, first) => self.vruntime(first),
        };
        if least > q.zero {
            self.move_zero(queue, least);
        }
    }

    pub(super) fn cfs_ran(&mut self, queue: u32, _current: u32) -> bool {
        self.update_least(queue);
        false
    }

    /// `sched_slice()`: the share of an entity of a period.
    fn slice_ns(&self, features: &Features, queue: u32, id: u32) -> u64 {
        let entity = &self.entities[id as usize];
        let q = &self.queues[queue as usize];
        let nr = u64::from(q.nr) + u64::from(!entity.on_queue);
        // `sched_nr_latency`.
        let fit = features.latency_ns / features.min_granularity_ns.max(1);
        let mut ns = if nr > fit { nr * features.min_granularity_ns } else { features.latency_ns };
        let (mut queue, mut id) = (queue, id);
        loop {
            let entity = &self.entities[id as usize];
            let mut load = self.sums(queue).1 as u64;
            if !entity.on_queue {
                load += entity.weight;
            }
            ns = (u128::from(ns) * u128::from(entity.weight) / u128::from(load.max(1))) as u64;
            match self.queues[queue as usize].owner {
                NIL => break,
                owner => (id, queue) = (owner, self.entities[owner as usize].queue),
            }
        }
        if features.base_slice { ns.max(features.min_granularity_ns) } else { ns }
    }

    /// `check_preempt_tick()`.
    pub(super) fn cfs_tick(&mut self, features: &Features, queue: u32, current: u32) -> bool {
        if self.queues[queue as usize].nr <= 1 {
            return false;
        }
        let ideal_ns = self.slice_ns(features, queue, current);
        let ran_ns = self.entities[current as usize].ran_ns;
        if ran_ns > ideal_ns {
            self.queues[queue as usize].next = NIL;
            return true;
        }
        if ran_ns < features.min_granularity_ns {
            return false;
        }
        let first = self.waiting_in[queue as usize].first();
        first != NIL && self.vruntime(current) - self.vruntime(first) > ideal_ns as i64
    }

    /// `place_entity()`. The virtual run time of an entity that comes from another queue moves with the origins.
    pub(super) fn cfs_place(&mut self, features: &Features, queue: u32, id: u32, is_new: bool) {
        self.update_least(queue);
        let entity = self.entities[id as usize];
        let zero = self.queues[queue as usize].zero;
        if is_new {
            let debit =
                if features.start_debit { weighted(self.slice_ns(features, queue, id), entity.weight) } else { 0 };
            self.nodes[id as usize].vruntime = zero + debit;
            return;
        }
        let mut vruntime = self.vruntime(id) + zero - self.queues[entity.queue as usize].zero;
        if !entity.relative_deadline {
            let credit_ns = if features.gentle_fair_sleepers { features.latency_ns / 2 } else { features.latency_ns };
            vruntime = vruntime.max(zero - credit_ns as i64);
        }
        self.entities[id as usize].relative_deadline = false;
        self.nodes[id as usize].vruntime = vruntime;
    }

    /// `wakeup_preempt_entity()`: 1 when `other` is behind `current` by more than the granularity, -1 when not at all.
    fn behind(&self, features: &Features, current: u32, other: u32) -> i32 {
        let lead = self.vruntime(current) - self.vruntime(other);
        if lead <= 0 {
            return -1;
        }
        let granularity = weighted(features.wakeup_granularity_ns, self.entities[other as usize].weight);
        i32::from(lead > granularity)
    }

    /// `check_preempt_wakeup()` of two entities of a queue.
    pub(super) fn cfs_takes_over(&mut self, features: &Features, queue: u32, current: u32, woken: u32) -> bool {
        self.update_least(queue);
        let takes = self.behind(features, current, woken) == 1;
        if takes {
            self.queues[queue as usize].next = woken;
        }
        takes
    }

    /// `pick_next_entity()`: the first, unless it yielded, or the one that preempts is about as good.
    pub(super) fn cfs_choose(&mut self, features: &Features, queue: u32) -> u32 {
        let q = self.queues[queue as usize];
        let first = self.waiting_in[queue as usize].first();
        let mut chosen = first;
        if chosen != NIL && chosen == q.skip {
            let second = self.waiting_in[queue as usize].ids().nth(1).unwrap_or(first);
            if second != first && self.behind(features, second, first) < 1 {
                chosen = second;
            }
        }
        if q.next != NIL && first != NIL && self.behind(features, q.next, first) < 1 {
            chosen = q.next;
        }
        let q = &mut self.queues[queue as usize];
        (q.next, q.skip) = (NIL, NIL);
        chosen
    }
}

#[cfg(test)]
mod tests;
