//! EEVDF: earliest eligible virtual deadline first (kernel/sched/fair.c, v6.18).
//!
//! Names and order follow the kernel, so that one can be read beside the other. Virtual time is signed 64-bit
//! nanoseconds; weights are those of `sched_prio_to_weight` (1024 for nice 0).

use super::tree::{self, NIL, Node, Nodes};

/// The weight of nice 0.
pub const NICE_0: u64 = 1024;

/// What can be switched in `/sys/kernel/debug/sched/features`, and the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// PLACE_LAG: a task that comes back gets the lag with which it left.
    pub place_lag: bool,
    /// PLACE_DEADLINE_INITIAL: a new task gets half a slice first.
    pub place_deadline_initial: bool,
    /// RUN_TO_PARITY: a task that was picked runs until its lag is 0 or its slice is used.
    pub run_to_parity: bool,
    /// PREEMPT_SHORT: a task with a shorter slice need not wait for that.
    pub preempt_short: bool,
    /// DELAY_DEQUEUE: a task that sleeps with negative lag stays until it is eligible.
    pub delay_dequeue: bool,
    /// WAKEUP_PREEMPTION.
    pub wakeup_preemption: bool,
    /// base_slice_ns, ns.
    pub base_slice_ns: u64,
    /// One tick, ns.
    pub tick_ns: u64,
}

impl Features {
    /// Nothing switched on, and no slice.
    pub(crate) const NONE: Features = Features {
        place_lag: false,
        place_deadline_initial: false,
        run_to_parity: false,
        preempt_short: false,
        delay_dequeue: false,
        wakeup_preemption: false,
        base_slice_ns: 0,
        tick_ns: 0,
    };
}

/// What a task or a group is to the scheduler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entity {
    pub(crate) weight: u64,
    pub(crate) slice_ns: u64,
    /// Whether `slice_ns` is the task's own (`sched_attr.sched_runtime`).
    pub(crate) custom_slice: bool,
    /// Its lag when it left the queue.
    pub(crate) lag: i64,
    /// Until this virtual run time it is not taken off for another.
    protected_until: i64,
    pub(crate) on_queue: bool,
    pub(crate) delayed: bool,
    /// Whether its deadline is relative to its virtual run time, because it moves between queues.
    relative_deadline: bool,
}

impl Entity {
    pub(crate) fn new(weight: u64) -> Self {
        Entity {
            weight,
            slice_ns: 0,
            custom_slice: false,
            lag: 0,
            protected_until: 0,
            on_queue: false,
            delayed: false,
            relative_deadline: false,
        }
    }
}

/// A run queue: the `cfs_rq` of a CPU or of a group on a CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    root: u32,
    /// What runs; it is not in the tree.
    pub(crate) current: u32,
    /// Entities, the running one included.
    pub(crate) nr: u32,
    /// Sum of (virtual run time - zero) * weight over the tree.
    sum: i64,
    /// Sum of weights over the tree.
    load: i64,
    zero: i64,
}

impl Queue {
    pub(crate) const NEW: Queue = Queue { root: NIL, current: NIL, nr: 0, sum: 0, load: 0, zero: 0 };
}

/// All entities and queues.
#[derive(Debug, Clone)]
pub(crate) struct Fair {
    pub(crate) features: Features,
    pub(crate) nodes: Nodes,
    pub(crate) entities: Vec<Entity>,
    pub(crate) queues: Vec<Queue>,
}

/// `calc_delta_fair()`.
fn weighted(ns: u64, weight: u64) -> i64 {
    if weight == NICE_0 { ns as i64 } else { (ns * NICE_0 / weight) as i64 }
}

impl Fair {
    pub(crate) fn new(features: Features, queues: usize) -> Self {
        Fair { features, nodes: Vec::new(), entities: Vec::new(), queues: vec![Queue::NEW; queues] }
    }

    /// A new entity, in no queue.
    pub(crate) fn add(&mut self, weight: u64, slice_ns: Option<u64>) -> u32 {
        let id = self.entities.len() as u32;
        let mut entity = Entity::new(weight);
        entity.custom_slice = slice_ns.is_some();
        entity.slice_ns = slice_ns.unwrap_or(self.features.base_slice_ns);
        self.entities.push(entity);
        self.nodes.push(Node::NEW);
        id
    }

    /// An entity in no queue becomes that of a new task of nice 0.
    pub(crate) fn renew(&mut self, id: u32) {
        let mut entity = Entity::new(NICE_0);
        entity.slice_ns = self.features.base_slice_ns;
        self.entities[id as usize] = entity;
        self.nodes[id as usize] = Node::NEW;
    }

    fn entity(&self, id: u32) -> &Entity {
        &self.entities[id as usize]
    }

    fn vruntime(&self, id: u32) -> i64 {
        self.nodes[id as usize].vruntime
    }

    /// Sum and load with the running entity, which stands outside the tree.
    fn sums(&self, queue: usize) -> (i64, i64) {
        let q = &self.queues[queue];
        let (mut sum, mut load) = (q.sum, q.load);
        if q.current != NIL && self.entity(q.current).on_queue {
            let weight = self.entity(q.current).weight as i64;
            sum += (self.vruntime(q.current) - q.zero) * weight;
            load += weight;
        }
        (sum, load)
    }

    /// The virtual time of a queue: `avg_vruntime()`.
    pub(crate) fn virtual_time(&self, queue: usize) -> i64 {
        let (sum, load) = self.sums(queue);
        let zero = self.queues[queue].zero;
        if load == 0 { zero } else { zero + sum.div_euclid(load) }
    }

    /// `vruntime_eligible()`: whether the lag of a virtual run time is not negative.
    fn is_eligible(&self, queue: usize, vruntime: i64) -> bool {
        let (sum, load) = self.sums(queue);
        sum >= (vruntime - self.queues[queue].zero) * load
    }

    /// Moves the origin to the virtual time, so that the sums stay small.
    fn move_zero(&mut self, queue: usize) {
        let now = self.virtual_time(queue);
        let q = &mut self.queues[queue];
        q.sum -= (now - q.zero) * q.load;
        q.zero = now;
    }

    fn tree_insert(&mut self, queue: usize, id: u32) {
        let weight = self.entity(id).weight as i64;
        let key = self.vruntime(id) - self.queues[queue].zero;
        let q = &mut self.queues[queue];
        q.sum += key * weight;
        q.load += weight;
        q.root = tree::insert(&mut self.nodes, q.root, id);
    }

    fn tree_remove(&mut self, queue: usize, id: u32) {
        let weight = self.entity(id).weight as i64;
        let key = self.vruntime(id) - self.queues[queue].zero;
        let q = &mut self.queues[queue];
        q.root = tree::remove(&mut self.nodes, q.root, id);
        q.sum -= key * weight;
        q.load -= weight;
    }

    /// `update_curr()`: the running entity has run for so long. Whether another should be looked at.
    pub(crate) fn ran(&mut self, queue: usize, ns: u64) -> bool {
        let current = self.queues[queue].current;
        if current == NIL {
            return false;
        }
        let entity = self.entities[current as usize];
        let node = &mut self.nodes[current as usize];
        node.vruntime += weighted(ns, entity.weight);
        let used = node.vruntime >= node.deadline;
        if used {
            let slice_ns = if entity.custom_slice { entity.slice_ns } else { self.features.base_slice_ns };
            node.deadline = node.vruntime + weighted(slice_ns, entity.weight);
            self.entities[current as usize].slice_ns = slice_ns;
        }
        self.move_zero(queue);
        self.queues[queue].nr > 1 && (used || !self.is_protected(current))
    }

    fn is_protected(&self, id: u32) -> bool {
        self.vruntime(id) < self.entity(id).protected_until
    }

    /// `set_protect_slice()`: not longer than the shortest slice of the queue.
    fn protect(&mut self, queue: usize, id: u32) {
        let node = self.nodes[id as usize];
        let entity = self.entities[id as usize];
        let mut slice_ns = entity.slice_ns;
        if self.features.run_to_parity {
            if self.has_custom_slices() {
                tree::each(&self.nodes, self.queues[queue].root, &mut |other| {
                    slice_ns = slice_ns.min(self.entities[other as usize].slice_ns);
                });
            }
        } else {
            slice_ns = slice_ns.min(MIN_QUANTUM_NS);
        }
        let until = if slice_ns == entity.slice_ns { node.deadline } else { i64::MAX };
        self.entities[id as usize].protected_until = until.min(node.vruntime + weighted(slice_ns, entity.weight));
    }

    fn has_custom_slices(&self) -> bool {
        false
    }

    /// `place_entity()`.
    fn place(&mut self, queue: usize, id: u32, is_new: bool) {
        let entity = &mut self.entities[id as usize];
        if !entity.custom_slice {
            entity.slice_ns = self.features.base_slice_ns;
        }
        let entity = *entity;
        let now = self.virtual_time(queue);
        let mut lag = 0;
        if self.features.place_lag && self.queues[queue].nr > 0 && entity.lag != 0 {
            let (_, load) = self.sums(queue);
            lag = (i128::from(entity.lag) * i128::from(load + entity.weight as i64) / i128::from(load.max(1))) as i64;
        }
        let node = &mut self.nodes[id as usize];
        node.vruntime = now - lag;
        if entity.relative_deadline {
            node.deadline += node.vruntime;
            self.entities[id as usize].relative_deadline = false;
            return;
        }
        let mut slice = weighted(entity.slice_ns, entity.weight);
        if is_new && self.features.place_deadline_initial {
            slice /= 2;
        }
        node.deadline = node.vruntime + slice;
    }

    /// `update_entity_lag()`: the lag with which an entity leaves, limited to twice its slice or a tick.
    fn update_lag(&mut self, queue: usize, id: u32) {
        let entity = self.entities[id as usize];
        let lag = self.virtual_time(queue) - self.vruntime(id);
        let limit = weighted((2 * entity.slice_ns).max(self.features.tick_ns), entity.weight);
        self.entities[id as usize].lag = lag.clamp(-limit, limit);
    }

    /// `enqueue_entity()`.
    pub(crate) fn enqueue(&mut self, queue: usize, id: u32, is_new: bool) {
        if self.entity(id).delayed {
            return self.requeue_delayed(queue, id);
        }
        self.place(queue, id, is_new);
        self.entities[id as usize].on_queue = true;
        self.queues[queue].nr += 1;
        if self.queues[queue].current != id {
            self.tree_insert(queue, id);
        }
    }

    /// `requeue_delayed_entity()`: a task that wakes up before it was really taken out.
    fn requeue_delayed(&mut self, queue: usize, id: u32) {
        self.update_lag(queue, id);
        if self.entity(id).lag > 0 && self.queues[queue].current != id {
            self.queues[queue].nr -= 1;
            self.tree_remove(queue, id);
            self.entities[id as usize].lag = 0;
            self.place(queue, id, false);
            self.tree_insert(queue, id);
            self.queues[queue].nr += 1;
        }
        self.entities[id as usize].delayed = false;
    }

    /// `dequeue_entity()` of a task that goes to sleep. Whether it really left; else it stays until it is eligible.
    pub(crate) fn sleep(&mut self, queue: usize, id: u32) -> bool {
        if self.features.delay_dequeue && !self.is_eligible(queue, self.vruntime(id)) {
            self.entities[id as usize].delayed = true;
            return false;
        }
        self.dequeue(queue, id);
        true
    }

    /// `dequeue_entity()`: out of the queue at once.
    pub(crate) fn dequeue(&mut self, queue: usize, id: u32) {
        self.update_lag(queue, id);
        if self.queues[queue].current != id {
            self.tree_remove(queue, id);
        }
        let entity = &mut self.entities[id as usize];
        if entity.delayed {
            entity.delayed = false;
            entity.lag = entity.lag.min(0);
        }
        entity.on_queue = false;
        self.queues[queue].nr -= 1;
    }

    /// A runnable entity leaves for another queue and keeps its deadline relative to its virtual run time.
    pub(crate) fn leave(&mut self, queue: usize, id: u32) {
        self.dequeue(queue, id);
        let node = &mut self.nodes[id as usize];
        node.deadline -= node.vruntime;
        self.entities[id as usize].relative_deadline = true;
    }

    /// `put_prev_entity()`: what ran stands in the tree again when it can go on.
    pub(crate) fn put(&mut self, queue: usize) {
        let current = self.queues[queue].current;
        if current != NIL {
            self.queues[queue].current = NIL;
            if self.entity(current).on_queue {
                self.tree_insert(queue, current);
            }
        }
    }

    /// `set_next_entity()`.
    pub(crate) fn set(&mut self, queue: usize, id: u32) {
        self.tree_remove(queue, id);
        self.queues[queue].current = id;
        self.protect(queue, id);
    }

    /// `pick_eevdf()`.
    pub(crate) fn pick(&self, queue: usize, honours_protection: bool) -> u32 {
        let q = &self.queues[queue];
        let mut current = q.current;
        if current != NIL && !self.entity(current).on_queue {
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
        if current != NIL && honours_protection && self.is_protected(current) {
            return current;
        }
        let best = tree::first_eligible(&self.nodes, q.root, eligible);
        let earlier = |a: u32, b: u32| self.nodes[a as usize].deadline < self.nodes[b as usize].deadline;
        if best == NIL || (current != NIL && earlier(current, best)) { current } else { best }
    }

    /// `check_preempt_wakeup_fair()`: whether a task that woke up takes the CPU. `ran` was called before.
    pub(crate) fn takes_over(&mut self, queue: usize, woken: u32) -> bool {
        let current = self.queues[queue].current;
        if current == NIL {
            return true;
        }
        if !self.features.wakeup_preemption {
            return false;
        }
        let is_shorter = self.features.preempt_short && self.entity(woken).slice_ns < self.entity(current).slice_ns;
        self.pick(queue, !is_shorter) == woken
    }

    /// Every entity that waits in a queue, by deadline.
    pub(crate) fn waiting(&self, queue: usize, visit: &mut impl FnMut(u32)) {
        tree::each(&self.nodes, self.queues[queue].root, visit);
    }
}

/// Without RUN_TO_PARITY a task is protected for as long as the shortest slice that can be asked for:
/// `normalized_sysctl_sched_base_slice` (v6.18).
const MIN_QUANTUM_NS: u64 = 700_000;
