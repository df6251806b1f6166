//! Groups of tasks that share as one (`struct task_group`): a control group with the cpu controller, or a session under
//! autogroup.
//!
//! A group has a queue on each CPU, and there an entity that competes for it with the group's share of the weight that
//! its tasks have on that CPU (`calc_group_shares()`, kernel/sched/fair.c, v6.18). The kernel averages these loads over
//! time; here they are those of the moment.

use super::fair::Fair;

/// What is said of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    pub name: String,
    /// Its parent, which comes before it; `None` for the root.
    pub parent: Option<u32>,
    /// Its weight against its siblings: 1024 is what `cpu.weight` 100 and autogroup's nice 0 give.
    pub weight: u64,
    /// The CPU time that its tasks may use in a period, ns (`cpu.max`); 0: as much as they can.
    pub quota_ns: u64,
    /// The period, ns; 100 ms by default.
    pub period_ns: u64,
}

impl GroupSpec {
    /// A group of the root without a limit.
    pub fn new(name: &str) -> Self {
        GroupSpec { name: name.to_owned(), parent: None, weight: 1024, quota_ns: 0, period_ns: 100_000_000 }
    }
}

/// What was seen of a group (`cpu.stat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Periods that ended.
    pub periods: u64,
    /// How often one of its queues was stopped.
    pub throttles: u64,
    /// How long its queues were stopped, summed over CPUs, ns.
    pub throttled_ns: u64,
    /// CPU time that its tasks used, ns; counted of groups with a quota.
    pub used_ns: u64,
}

/// A group at work.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) spec: GroupSpec,
    /// Weight of all that waits or runs in its queues.
    load: i64,
    /// What is left of the quota of this period, ns.
    pub(crate) left_ns: u64,
    /// Queues that are stopped.
    pub(crate) stopped: Vec<u32>,
    pub(crate) seen: GroupStats,
}

impl Group {
    pub(crate) fn new(spec: &GroupSpec) -> Self {
        Group { spec: spec.clone(), load: 0, left_ns: spec.quota_ns, stopped: Vec::new(), seen: GroupStats::default() }
    }
}

/// `MIN_SHARES`.
const LEAST_WEIGHT: i64 = 2;

impl Fair {
    /// `update_cfs_group()`: what a queue of a group holds has changed, and with it the weight of the group there.
    #[inline]
    pub(crate) fn share(&mut self, queue: u32) {
        if self.queues[queue as usize].owner != super::entity_queue::NIL {
            self.share_of_group(queue);
        }
    }

    fn share_of_group(&mut self, queue: u32) {
        let q = self.queues[queue as usize];
        let load = self.sums(queue).1;
        let group = &mut self.groups[q.group as usize];
        group.load += load - q.shown;
        self.queues[queue as usize].shown = load;
        if load == 0 {
            return;
        }
        let shares = group.spec.weight as i64;
        let weight = (shares * load / group.load.max(load)).clamp(LEAST_WEIGHT, shares.max(LEAST_WEIGHT)) as u64;
        if weight != self.entities[q.owner as usize].weight {
            self.reweigh(q.owner, weight);
        }
    }

    /// `reweight_entity()`: the lag stays what it is in time, and so does what is left until the deadline.
    fn reweigh(&mut self, id: u32, weight: u64) {
        let old = self.entities[id as usize].weight;
        let entity = self.entities[id as usize];
        if !entity.on_queue {
            let entity = &mut self.entities[id as usize];
            entity.lag = scaled(entity.lag, old, weight);
            entity.weight = weight;
            return;
        }
        let queue = entity.queue;
        let is_current = self.queues[queue as usize].current == id;
        let lag = self.virtual_time(queue) - self.vruntime(id);
        let node = self.nodes[id as usize];
        let (ahead, protected) = (node.deadline - node.vruntime, entity.protected_until - node.vruntime);
        if !is_current {
            self.tree_remove(queue, id);
        }
        self.entities[id as usize].weight = weight;
        if self.orders_by_deadline() {
            self.entities[id as usize].on_queue = false;
            let lag = scaled(lag, old, weight);
            let (_, load) = self.sums(queue);
            let grown = if load == 0 { 0 } else { super::eevdf::grown(lag, load, weight) };
            let vruntime = self.virtual_time(queue) - grown;
            self.entities[id as usize].on_queue = true;
            let node = &mut self.nodes[id as usize];
            node.vruntime = vruntime;
            node.deadline = vruntime + scaled(ahead, old, weight);
            self.entities[id as usize].protected_until = vruntime + scaled(protected, old, weight);
        }
        if !is_current {
            self.tree_insert(queue, id);
        }
    }
}

/// Virtual time of one weight as that of another.
fn scaled(ns: i64, old: u64, new: u64) -> i64 {
    (i128::from(ns) * i128::from(old) / i128::from(new)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::weight::weighted;

    #[test]
    fn what_is_left_of_a_slice_is_the_same_time_under_another_weight() {
        assert_eq!(scaled(weighted(3_000_000, 512), 512, 2048), weighted(3_000_000, 2048));
    }
}
