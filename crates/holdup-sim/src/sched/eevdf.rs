//! EEVDF: earliest eligible virtual deadline first (kernel/sched/fair.c, v6.18).
//!
//! Names and order follow the kernel, so that one can be read beside the other. Virtual time is signed 64-bit
//! nanoseconds; weights are those of `sched_prio_to_weight` (1024 for nice 0).

use super::entity_queue::NIL;
use super::fair::Fair;
use super::weight::weighted;

/// What can be switched in `/sys/kernel/debug/sched/features`, the slice, and what differs between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// PLACE_LAG: a task that comes back gets the lag with which it left.
    pub place_lag: bool,
    /// PLACE_DEADLINE_INITIAL: a new task gets half a slice first.
    pub place_deadline_initial: bool,
    /// PLACE_REL_DEADLINE: a task that moves keeps how far its deadline is; from 6.12.
    pub place_rel_deadline: bool,
    /// RUN_TO_PARITY: a task that was picked runs until its lag is 0 or its slice is used.
    pub run_to_parity: bool,
    /// True if that protection lasts for the shortest slice of the queue and not for the task's own; from 6.17
    /// (`set_protect_slice()`).
    pub protects_shortest: bool,
    /// PREEMPT_SHORT: a task with a shorter slice need not wait for that; from 6.12.
    pub preempt_short: bool,
    /// DELAY_DEQUEUE: a task that sleeps with negative lag stays until it is eligible; from 6.12.
    pub delay_dequeue: bool,
    /// DELAY_ZERO: one that slept so comes back without positive lag; from 6.12.
    pub delay_zero: bool,
    pub wakeup_preemption: bool,
    /// True if sched_yield() gives up what is left of the slice; from 6.18 (`yield_task_fair()`).
    pub yield_forfeits: bool,
    pub base_slice_ns: u64,
    pub tick_ns: u64,
}

/// The switches by their names in `/sys/kernel/debug/sched/features`.
pub(crate) const SWITCHES: &[super::Switch<Features>] = &[
    ("PLACE_LAG", |f| &mut f.place_lag),
    ("PLACE_DEADLINE_INITIAL", |f| &mut f.place_deadline_initial),
    ("RUN_TO_PARITY", |f| &mut f.run_to_parity),
    ("PLACE_REL_DEADLINE", |f| &mut f.place_rel_deadline),
    ("PREEMPT_SHORT", |f| &mut f.preempt_short),
    ("DELAY_DEQUEUE", |f| &mut f.delay_dequeue),
    ("DELAY_ZERO", |f| &mut f.delay_zero),
    ("WAKEUP_PREEMPTION", |f| &mut f.wakeup_preemption),
];

/// Without RUN_TO_PARITY a task is protected for so long: `normalized_sysctl_sched_base_slice` (v6.18), ns.
const MIN_QUANTUM_NS: u64 = 700_000;

/// The lag that an entity must be placed with to have `lag` once it is there, among others of weight `load`
/// (`place_entity()`): its own weight moves the average.
pub(crate) fn grown(lag: i64, load: i64, weight: u64) -> i64 {
    let (sum, load) = (load + weight as i64, load.max(1));
    // Nearly always 64 bits are enough, and division of 128 bits is slow.
    match lag.checked_mul(sum) {
        Some(grown) => grown / load,
        None => (i128::from(lag) * i128::from(sum) / i128::from(load)) as i64,
    }
}

impl Fair {
    /// `avg_vruntime()`: the virtual time of a queue.
    pub(crate) fn average(&self, queue: u32) -> i64 {
        let (sum, load) = self.sums(queue);
        let zero = self.queues[queue as usize].zero;
        if load == 0 { zero } else { zero + sum.div_euclid(load) }
    }

    /// `vruntime_eligible()`: whether the lag of a virtual run time is not negative.
    pub(crate) fn is_eligible(&self, queue: u32, vruntime: i64) -> bool {
        let (sum, load) = self.sums(queue);
        sum >= (vruntime - self.queues[queue as usize].zero) * load
    }

    /// `update_curr()` after the virtual run time has grown: whether the entity should be rescheduled.
    pub(super) fn eevdf_ran(&mut self, features: &Features, queue: u32, id: u32) -> bool {
        let used = self.update_deadline(features, id);
        self.move_zero(queue, self.average(queue));
        self.queues[queue as usize].nr > 1 && (used || !self.is_protected(features, id))
    }

    /// `update_deadline()`: a slice that is used is followed by the next one.
    fn update_deadline(&mut self, features: &Features, id: u32) -> bool {
        let entity = self.entities[id as usize];
        let node = &mut self.nodes[id as usize];
        if node.vruntime < node.deadline {
            return false;
        }
        if !entity.custom_slice {
            node.slice_ns = features.base_slice_ns as u32;
        }
        node.deadline = node.vruntime + weighted(u64::from(node.slice_ns), entity.weight);
        true
    }

    /// `protect_slice()`. Before 6.17 it matters for the choice of the next task only, not at the tick.
    fn is_protected(&self, features: &Features, id: u32) -> bool {
        !features.protects_shortest || self.vruntime(id) < self.entities[id as usize].protected_until
    }

    /// `set_protect_slice()`; before 6.17 the deadline under RUN_TO_PARITY.
    pub(super) fn eevdf_protect(&mut self, features: &Features, queue: u32, id: u32) {
        let node = self.nodes[id as usize];
        let weight = self.entities[id as usize].weight;
        let slice_ns = match (features.protects_shortest, features.run_to_parity) {
            (true, true) => self.least_slice_ns(queue),
            (true, false) => MIN_QUANTUM_NS as u32,
            (false, true) => u32::MAX,
            (false, false) => 0,
        };
        let until = if slice_ns >= node.slice_ns {
            node.deadline
        } else {
            node.deadline.min(node.vruntime + weighted(u64::from(slice_ns), weight))
        };
        self.entities[id as usize].protected_until = until;
    }

    /// `place_entity()`.
    pub(super) fn eevdf_place(&mut self, features: &Features, queue: u32, id: u32, is_new: bool) {
        let entity = self.entities[id as usize];
        let now = self.average(queue);
        let mut lag = 0;
        if features.place_lag && self.queues[queue as usize].nr > 0 && entity.lag != 0 {
            lag = grown(entity.lag, self.sums(queue).1, entity.weight);
        }
        let node = &mut self.nodes[id as usize];
        if !entity.custom_slice {
            node.slice_ns = features.base_slice_ns as u32;
        }
        node.vruntime = now - lag;
        if entity.relative_deadline {
            node.deadline += node.vruntime;
            self.entities[id as usize].relative_deadline = false;
            return;
        }
        let mut slice = weighted(u64::from(node.slice_ns), entity.weight);
        if is_new && features.place_deadline_initial {
            slice /= 2;
        }
        node.deadline = node.vruntime + slice;
    }

    /// `update_entity_lag()`: the lag of an entity, limited to twice its slice or a tick.
    fn lag_of(&self, features: &Features, queue: u32, id: u32) -> i64 {
        let lag = self.average(queue) - self.vruntime(id);
        let slice_ns = u64::from(self.nodes[id as usize].slice_ns);
        let limit = weighted((2 * slice_ns).max(features.tick_ns), self.entities[id as usize].weight);
        lag.clamp(-limit, limit)
    }

    /// What `dequeue_entity()` keeps of an entity that leaves.
    pub(super) fn eevdf_remember(&mut self, features: &Features, queue: u32, id: u32, sleeps: bool) {
        let mut lag = self.lag_of(features, queue, id);
        let entity = &mut self.entities[id as usize];
        if entity.delayed && features.delay_zero {
            lag = lag.min(0);
        }
        entity.lag = lag;
        if features.place_rel_deadline && !sleeps {
            let node = &mut self.nodes[id as usize];
            node.deadline -= node.vruntime;
            self.entities[id as usize].relative_deadline = true;
        }
    }

    /// `requeue_delayed_entity()`: a task that wakes up before it was really taken out.
    pub(super) fn requeue_delayed(&mut self, queue: u32, id: u32) {
        let super::rules::Rules::Eevdf(features) = self.rules else { return };
        self.entities[id as usize].delayed = false;
        if !features.delay_zero || self.lag_of(&features, queue, id) <= 0 {
            return;
        }
        let stands = self.queues[queue as usize].current != id;
        self.queues[queue as usize].nr -= 1;
        if stands {
            self.tree_remove(queue, id);
        }
        self.entities[id as usize].on_queue = false;
        self.entities[id as usize].lag = 0;
        self.eevdf_place(&features, queue, id, false);
        self.entities[id as usize].on_queue = true;
        if stands {
            self.tree_insert(queue, id);
        }
        self.queues[queue as usize].nr += 1;
    }

    /// `pick_eevdf()`.
    pub(super) fn eevdf_choose(&self, queue: u32, honours_protection: bool) -> u32 {
        let q = &self.queues[queue as usize];
        let mut current = q.current;
        if current != NIL && !self.entities[current as usize].on_queue {
            current = NIL;
        }
        if q.nr == 1 && current != NIL {
            return current;
        }
        let (sum, load) = self.sums(queue);
        let eligible = |vruntime: i64| sum >= (vruntime - q.zero) * load;
        if current != NIL && !eligible(self.vruntime(current)) {
            current = NIL;
        }
        if current != NIL
            && honours_protection
            && self.vruntime(current) < self.entities[current as usize].protected_until
        {
            return current;
        }
        let best = self.waiting_in[queue as usize].first_eligible(eligible);
        let earlier = |a: u32, b: u32| self.nodes[a as usize].deadline < self.nodes[b as usize].deadline;
        if best == NIL || (current != NIL && earlier(current, best)) { current } else { best }
    }

    /// `check_preempt_wakeup_fair()` of two entities of a queue.
    pub(super) fn eevdf_takes_over(&mut self, features: &Features, queue: u32, current: u32, woken: u32) -> bool {
        let slice = |id: u32| self.nodes[id as usize].slice_ns;
        let is_shorter = features.preempt_short && slice(woken) < slice(current);
        let takes = self.eevdf_choose(queue, !is_shorter) == woken;
        if is_shorter {
            let shortest_ns = u64::from(self.least_slice_ns(queue));
            let vruntime = self.vruntime(current);
            let entity = &mut self.entities[current as usize];
            let until = if takes {
                // `cancel_protect_slice()`.
                vruntime
            } else if features.protects_shortest && features.run_to_parity {
                // `update_protect_slice()`.
                vruntime + weighted(shortest_ns, entity.weight)
            } else {
                entity.protected_until
            };
            entity.protected_until = entity.protected_until.min(until);
        }
        takes
    }

    /// `yield_task_fair()`.
    pub(super) fn eevdf_yields(&mut self, features: &Features, queue: u32, id: u32) {
        let slice = weighted(u64::from(self.nodes[id as usize].slice_ns), self.entities[id as usize].weight);
        if features.yield_forfeits && !self.is_eligible(queue, self.vruntime(id)) {
            return;
        }
        let node = &mut self.nodes[id as usize];
        if features.yield_forfeits {
            node.vruntime = node.deadline;
        }
        node.deadline += slice;
    }
}

#[cfg(test)]
mod tests;
