//! The fair class: entities, their queues and the groups above them. What EEVDF and CFS differ in is theirs.
//!
//! Each CPU has its own queue, and each group one on each CPU. An entity is a task, or a group on a CPU; a queue of
//! a group is owned by the entity of the group one level up. Entities of groups come first, tasks after them.

use super::entity_queue::{EntityQueue, NIL, Node};
use super::group::{Group, GroupSpec};
use super::rules::Rules;
use super::weight::weighted;

/// What a task or a group is to the fair class; within one cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Entity {
    pub(crate) weight: u64,
    /// Its lag when it left the queue.
    pub(crate) lag: i64,
    /// Until this virtual run time it is not taken off for another.
    pub(crate) protected_until: i64,
    /// CPU time since it was put on.
    pub(crate) ran_ns: u64,
    /// The queue that it stands in, or stood in last.
    pub(crate) queue: u32,
    /// The queue that it owns, when it is a group.
    pub(crate) child: u32,
    pub(crate) depth: u8,
    /// True if the slice is its own (`sched_attr.sched_runtime`).
    pub(crate) custom_slice: bool,
    pub(crate) on_queue: bool,
    pub(crate) delayed: bool,
    /// True if its deadline is relative to its virtual run time, because it moves between queues.
    pub(crate) relative_deadline: bool,
    /// SCHED_IDLE.
    pub(crate) idle: bool,
    /// SCHED_BATCH or SCHED_IDLE: it does not preempt at a wake-up.
    pub(crate) batch: bool,
}

/// What a task is to the fair class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) weight: u64,
    pub(crate) slice_ns: Option<u64>,
    pub(crate) group: Option<u32>,
    pub(crate) idle: bool,
    pub(crate) batch: bool,
}

impl Share {
    /// A task of nice 0 in the root group.
    pub(crate) const NICE_0: Share =
        Share { weight: super::weight::NICE_0, slice_ns: None, group: None, idle: false, batch: false };
}

/// A run queue: the `cfs_rq` of a CPU or of a group on a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CfsRq {
    /// What runs; it is not in the line.
    pub(crate) current: u32,
    /// Entities, the running one included.
    pub(crate) nr: u32,
    /// Tasks here and below that can run.
    pub(crate) tasks: u32,
    /// Sum of (virtual run time - zero) * weight over the line.
    sum: i64,
    /// Sum of weights over the line.
    load: i64,
    /// The origin of the sum; under CFS `min_vruntime`.
    pub(crate) zero: i64,
    /// The entity that stands for it one level up, and its group.
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// The load that its group has counted.
    pub(crate) shown: i64,
    /// What its share of the group's quota leaves, ns.
    pub(crate) left_ns: i64,
    pub(crate) stopped_at: Option<u64>,
    /// CFS: the buddies `next`, which is preferred, and `skip`, which is passed over at the next choice.
    pub(crate) next: u32,
    pub(crate) skip: u32,
}

impl CfsRq {
    fn new() -> CfsRq {
        CfsRq { current: NIL, owner: NIL, group: NIL, next: NIL, skip: NIL, ..CfsRq::default() }
    }
}

/// All entities and queues.
#[derive(Debug, Clone)]
pub(crate) struct Fair {
    pub(crate) rules: Rules,
    pub(crate) nodes: Vec<Node>,
    pub(crate) entities: Vec<Entity>,
    pub(crate) queues: Vec<CfsRq>,
    pub(crate) waiting_in: Vec<EntityQueue>,
    pub(crate) groups: Vec<Group>,
    pub(crate) cpus: u32,
    /// The entity of task 0.
    first_task: u32,
    came: u32,
    /// True if a queue used up its share since the last choice.
    pub(crate) spent: bool,
}

impl Fair {
    pub(crate) fn new(rules: Rules, cpus: usize, groups: &[GroupSpec]) -> Self {
        let mut fair = Fair {
            rules,
            nodes: Vec::new(),
            entities: Vec::new(),
            queues: vec![CfsRq::new(); cpus * (1 + groups.len())],
            waiting_in: vec![EntityQueue::default(); cpus * (1 + groups.len())],
            groups: groups.iter().map(Group::new).collect(),
            cpus: cpus as u32,
            first_task: (cpus * groups.len()) as u32,
            came: 0,
            spent: false,
        };
        for (number, spec) in groups.iter().enumerate() {
            assert!(spec.parent.is_none_or(|parent| (parent as usize) < number), "a group stands in one before it");
            for cpu in 0..cpus as u32 {
                let share = Share { weight: spec.weight, group: spec.parent, ..Share::NICE_0 };
                let id = fair.push(&share, cpu);
                let queue = fair.queue_of(Some(number as u32), cpu);
                fair.entities[id as usize].child = queue;
                let q = &mut fair.queues[queue as usize];
                (q.owner, q.group) = (id, number as u32);
            }
        }
        fair
    }

    /// A new task, in no queue; its number.
    pub(crate) fn add(&mut self, share: &Share) -> u32 {
        self.push(share, 0) - self.first_task
    }

    /// A new task that shares as its parent does: the number after the last, or one whose task has ended.
    pub(crate) fn add_like(&mut self, parent: u32, place: Option<u32>) -> u32 {
        let like = self.entity_of(parent) as usize;
        let fresh = Entity {
            lag: 0,
            protected_until: 0,
            ran_ns: 0,
            on_queue: false,
            delayed: false,
            relative_deadline: false,
            ..self.entities[like]
        };
        let node = Node::new(self.nodes[like].slice_ns);
        match place {
            Some(task) => {
                let id = self.entity_of(task) as usize;
                (self.entities[id], self.nodes[id]) = (fresh, node);
                task
            }
            None => {
                self.entities.push(fresh);
                self.nodes.push(node);
                self.entities.len() as u32 - 1 - self.first_task
            }
        }
    }

    fn push(&mut self, share: &Share, cpu: u32) -> u32 {
        let id = self.entities.len() as u32;
        let queue = self.queue_of(share.group, cpu);
        let owner = self.queues[queue as usize].owner;
        let depth = if owner == NIL { 0 } else { self.entities[owner as usize].depth + 1 };
        self.entities.push(Entity {
            weight: share.weight,
            queue,
            child: NIL,
            depth,
            custom_slice: share.slice_ns.is_some(),
            idle: share.idle,
            batch: share.batch,
            ..Entity::default()
        });
        let slice_ns = share.slice_ns.map_or(self.base_slice_ns(), |ns| ns.clamp(SLICES_NS.0, SLICES_NS.1));
        self.nodes.push(Node::new(slice_ns as u32));
        id
    }

    fn base_slice_ns(&self) -> u64 {
        match &self.rules {
            Rules::Eevdf(features) => features.base_slice_ns,
            Rules::Cfs(features) => features.min_granularity_ns,
        }
    }

    fn queue_of(&self, group: Option<u32>, cpu: u32) -> u32 {
        group.map_or(cpu, |group| self.cpus * (1 + group) + cpu)
    }

    /// The queue of an entity on a CPU.
    fn queue_on(&self, id: u32, cpu: u32) -> u32 {
        self.entities[id as usize].queue / self.cpus * self.cpus + cpu
    }

    pub(crate) fn entity_of(&self, task: u32) -> u32 {
        self.first_task + task
    }

    /// True if a task sleeps and still stands in its queue.
    pub(crate) fn is_delayed(&self, task: u32) -> bool {
        self.entities[self.entity_of(task) as usize].delayed
    }

    /// Tasks of a CPU that can run, the running one included.
    pub(crate) fn tasks(&self, cpu: u32) -> u32 {
        self.queues[cpu as usize].tasks
    }

    pub(crate) fn vruntime(&self, id: u32) -> i64 {
        self.nodes[id as usize].vruntime
    }

    pub(crate) fn orders_by_deadline(&self) -> bool {
        matches!(self.rules, Rules::Eevdf(_))
    }

    /// Sum and load of a queue with the running entity, which stands outside the tree.
    pub(crate) fn sums(&self, queue: u32) -> (i64, i64) {
        let q = &self.queues[queue as usize];
        let (mut sum, mut load) = (q.sum, q.load);
        if q.current != NIL && self.entities[q.current as usize].on_queue {
            let weight = self.entities[q.current as usize].weight as i64;
            sum += (self.vruntime(q.current) - q.zero) * weight;
            load += weight;
        }
        (sum, load)
    }

    /// Moves the origin, so that the sums stay small.
    pub(crate) fn move_zero(&mut self, queue: u32, to: i64) {
        let q = &mut self.queues[queue as usize];
        q.sum -= (to - q.zero) * q.load;
        q.zero = to;
    }

    pub(crate) fn tree_insert(&mut self, queue: u32, id: u32) {
        let weight = self.entities[id as usize].weight as i64;
        let node = &self.nodes[id as usize];
        let key = if self.orders_by_deadline() { node.deadline } else { node.vruntime };
        self.came = self.came.wrapping_add(1);
        let q = &mut self.queues[queue as usize];
        q.sum += (node.vruntime - q.zero) * weight;
        q.load += weight;
        self.waiting_in[queue as usize].insert(&mut self.nodes[id as usize], id, key, self.came);
    }

    pub(crate) fn tree_remove(&mut self, queue: u32, id: u32) {
        let weight = self.entities[id as usize].weight as i64;
        let key = self.vruntime(id) - self.queues[queue as usize].zero;
        let q = &mut self.queues[queue as usize];
        self.waiting_in[queue as usize].remove(&self.nodes[id as usize], id);
        q.sum -= key * weight;
        q.load -= weight;
    }

    /// Tasks that can run come to a queue or leave it, up to the CPU's.
    pub(crate) fn count(&mut self, mut queue: u32, tasks: i64) {
        loop {
            let q = &mut self.queues[queue as usize];
            q.tasks = (i64::from(q.tasks) + tasks) as u32;
            if q.owner == NIL || q.stopped_at.is_some() {
                return;
            }
            queue = self.entities[q.owner as usize].queue;
        }
    }

    /// `enqueue_task_fair()`.
    pub(crate) fn enqueue(&mut self, cpu: u32, task: u32, is_new: bool) {
        let id = self.entity_of(task);
        let queue = self.queue_on(id, cpu);
        self.count(queue, 1);
        self.enqueue_from(id, queue, is_new);
    }

    /// An entity is added to a queue, and the groups above it to theirs where the queue was empty.
    pub(crate) fn enqueue_from(&mut self, mut id: u32, mut queue: u32, mut is_new: bool) {
        loop {
            let entity = self.entities[id as usize];
            if entity.delayed {
                self.requeue_delayed(queue, id);
            } else if !entity.on_queue {
                self.place(queue, id, is_new);
                self.entities[id as usize].queue = queue;
                self.entities[id as usize].on_queue = true;
                self.queues[queue as usize].nr += 1;
                if self.queues[queue as usize].current != id {
                    self.tree_insert(queue, id);
                }
            }
            self.share(queue);
            let q = &self.queues[queue as usize];
            if q.owner == NIL || q.stopped_at.is_some() {
                return;
            }
            self.slice_of_group(queue);
            id = self.queues[queue as usize].owner;
            queue = self.entities[id as usize].queue;
            is_new = false;
        }
    }

    /// A group asks for the shortest slice of its queue.
    fn slice_of_group(&mut self, queue: u32) {
        let owner = self.queues[queue as usize].owner;
        let slice_ns = self.least_slice_ns(queue);
        let entity = &self.entities[owner as usize];
        if slice_ns == u32::MAX || self.nodes[owner as usize].slice_ns == slice_ns || !self.orders_by_deadline() {
            return;
        }
        let above = entity.queue;
        let stands = entity.on_queue && self.queues[above as usize].current != owner;
        if stands {
            self.tree_remove(above, owner);
        }
        self.nodes[owner as usize].slice_ns = slice_ns;
        self.entities[owner as usize].custom_slice = true;
        if stands {
            self.tree_insert(above, owner);
        }
    }

    /// `cfs_rq_min_slice()`.
    pub(crate) fn least_slice_ns(&self, queue: u32) -> u32 {
        let q = &self.queues[queue as usize];
        let least = self.waiting_in[queue as usize].least_slice_ns();
        if q.current != NIL && self.entities[q.current as usize].on_queue {
            return least.min(self.nodes[q.current as usize].slice_ns);
        }
        least
    }

    /// `dequeue_task_fair()` of a task that sleeps, ends or moves to another CPU. A task that sleeps may stay in the queue
    /// until it is eligible.
    pub(crate) fn dequeue_task(&mut self, task: u32, sleeps: bool) {
        let id = self.entity_of(task);
        self.count(self.entities[id as usize].queue, -1);
        self.dequeue_up(id, sleeps, false);
    }

    /// `dequeue_entities()`: an entity, and those above it whose queues become empty.
    pub(crate) fn dequeue_up(&mut self, mut id: u32, mut sleeps: bool, mut finishes: bool) {
        loop {
            let queue = self.entities[id as usize].queue;
            if sleeps && !finishes && self.delays(queue, id) {
                self.entities[id as usize].delayed = true;
                return;
            }
            self.dequeue(queue, id, sleeps);
            self.share(queue);
            let q = &self.queues[queue as usize];
            if q.nr > 0 || q.owner == NIL || q.stopped_at.is_some() {
                return;
            }
            id = q.owner;
            (sleeps, finishes) = (true, false);
            if !self.entities[id as usize].on_queue {
                return;
            }
        }
    }

    /// `dequeue_entity()` without a delay.
    fn dequeue(&mut self, queue: u32, id: u32, sleeps: bool) {
        self.remember(queue, id, sleeps);
        if self.queues[queue as usize].current != id {
            self.tree_remove(queue, id);
        }
        let entity = &mut self.entities[id as usize];
        (entity.delayed, entity.on_queue) = (false, false);
        let q = &mut self.queues[queue as usize];
        q.nr -= 1;
        if q.next == id {
            q.next = NIL;
        }
    }

    /// `put_prev_entity()`: what ran stands in its queue again when it can go on.
    pub(crate) fn put(&mut self, cpu: u32) {
        let mut queue = cpu;
        loop {
            let current = std::mem::replace(&mut self.queues[queue as usize].current, NIL);
            if current == NIL {
                break;
            }
            if self.entities[current as usize].on_queue {
                self.tree_insert(queue, current);
            }
            match self.entities[current as usize].child {
                NIL => break,
                child => queue = child,
            }
        }
    }

    /// `set_next_task_fair()`.
    pub(crate) fn set(&mut self, task: u32) {
        let mut id = self.entity_of(task);
        loop {
            let queue = self.entities[id as usize].queue;
            self.tree_remove(queue, id);
            self.queues[queue as usize].current = id;
            self.entities[id as usize].ran_ns = 0;
            self.protect(queue, id);
            match self.queues[queue as usize].owner {
                NIL => return,
                owner => id = owner,
            }
        }
    }

    /// `pick_task_fair()`: the next task of a CPU. Those that slept and are eligible leave on the way.
    pub(crate) fn pick(&mut self, cpu: u32) -> Option<u32> {
        let mut queue = cpu;
        while self.queues[queue as usize].nr > 0 {
            let id = self.choose(queue, true);
            debug_assert_ne!(id, NIL, "a queue with entities has one that is eligible");
            let entity = self.entities[id as usize];
            if entity.delayed {
                self.dequeue_up(id, true, true);
                queue = cpu;
            } else if entity.child == NIL {
                return Some(id - self.first_task);
            } else {
                queue = entity.child;
            }
        }
        None
    }

    /// `update_curr()`: the running task has run for this long. Whether it should be rescheduled.
    pub(crate) fn ran(&mut self, cpu: u32, ns: u64) -> bool {
        let mut asks = false;
        let mut queue = cpu;
        loop {
            let current = self.queues[queue as usize].current;
            if current == NIL {
                return asks;
            }
            let entity = &mut self.entities[current as usize];
            entity.ran_ns += ns;
            let child = entity.child;
            self.nodes[current as usize].vruntime += weighted(ns, entity.weight);
            asks |= match self.rules {
                Rules::Eevdf(features) => self.eevdf_ran(&features, queue, current),
                Rules::Cfs(_) => self.cfs_ran(queue, current),
            };
            if self.queues[queue as usize].owner != NIL {
                asks |= self.spend(queue, ns);
            }
            if child == NIL {
                return asks;
            }
            queue = child;
        }
    }

    /// How long the running task may go on until its slice or its protection ends, ns.
    pub(crate) fn slice_left_ns(&self, cpu: u32) -> Option<u64> {
        let id = self.running(cpu)? as usize;
        let (entity, node) = (&self.entities[id], &self.nodes[id]);
        let until = node.deadline.min(entity.protected_until.max(node.vruntime));
        let left = (if until > node.vruntime { until } else { node.deadline } - node.vruntime).max(0) as u64;
        Some((left * entity.weight).div_ceil(super::weight::NICE_0))
    }

    /// `task_tick_fair()`, beside `update_curr()`: whether the running task should make room.
    pub(crate) fn tick(&mut self, cpu: u32) -> bool {
        let Rules::Cfs(features) = self.rules else { return false };
        let mut queue = cpu;
        let mut asks = false;
        loop {
            let current = self.queues[queue as usize].current;
            if current == NIL {
                return asks;
            }
            asks |= self.cfs_tick(&features, queue, current);
            match self.entities[current as usize].child {
                NIL => return asks,
                child => queue = child,
            }
        }
    }

    /// `check_preempt_wakeup_fair()`: whether a task that woke up takes the CPU from the one that runs. `ran` was
    /// called before.
    pub(crate) fn takes_over(&mut self, cpu: u32, woken: u32) -> bool {
        let Some((current, woken)) = self.matching(cpu, self.entity_of(woken)) else { return false };
        let queue = self.entities[woken as usize].queue;
        let (old, new) = (self.entities[current as usize], self.entities[woken as usize]);
        let is_on = match &self.rules {
            Rules::Eevdf(features) => features.wakeup_preemption,
            Rules::Cfs(features) => features.wakeup_preemption,
        };
        if !is_on || current == woken {
            return false;
        }
        if old.idle != new.idle {
            return old.idle;
        }
        if new.batch {
            return false;
        }
        match self.rules {
            Rules::Eevdf(features) => self.eevdf_takes_over(&features, queue, current, woken),
            Rules::Cfs(features) => self.cfs_takes_over(&features, queue, current, woken),
        }
    }

    /// `find_matching_se()`: the ancestors of the running task and of another one that are in the same queue.
    fn matching(&self, cpu: u32, mut id: u32) -> Option<(u32, u32)> {
        let up = |id: u32| self.queues[self.entities[id as usize].queue as usize].owner;
        let mut current = self.running(cpu)?;
        while self.entities[current as usize].queue != self.entities[id as usize].queue {
            let (a, b) = (self.entities[current as usize].depth, self.entities[id as usize].depth);
            if a >= b {
                current = up(current);
            }
            if b >= a {
                id = up(id);
            }
        }
        // A group that is stopped stands in no queue.
        self.entities[id as usize].on_queue.then_some((current, id))
    }

    /// The entity of the task that runs on a CPU.
    pub(crate) fn running(&self, cpu: u32) -> Option<u32> {
        let mut queue = cpu;
        loop {
            let current = self.queues[queue as usize].current;
            if current == NIL {
                return None;
            }
            match self.entities[current as usize].child {
                NIL => return Some(current),
                child => queue = child,
            }
        }
    }

    /// The tasks that wait in a queue, of a CPU or below it, those that would run last first, for as long as `visit` says
    /// so; whether it always did.
    pub(crate) fn waiting(&self, queue: u32, visit: &mut impl FnMut(u32) -> bool) -> bool {
        let q = &self.queues[queue as usize];
        let running = q.current;
        if running != NIL && self.entities[running as usize].child != NIL {
            let child = self.entities[running as usize].child;
            if !self.waiting(child, visit) {
                return false;
            }
        }
        self.waiting_in[queue as usize].ids().rev().all(|id| {
            let entity = &self.entities[id as usize];
            match entity.child {
                NIL => entity.delayed || visit(id - self.first_task),
                child => self.waiting(child, visit),
            }
        })
    }
}

/// The shortest and the longest slice that a task can ask for, ns (`__setparam_fair()`, kernel/sched/syscalls.c, v6.18).
const SLICES_NS: (u64, u64) = (100_000, 100_000_000);

#[cfg(test)]
impl Fair {
    /// Tasks of one CPU with these slices that begin at 0, the first one running.
    pub(crate) fn with_tasks(rules: Rules, slices_ns: &[Option<u64>]) -> Fair {
        let mut fair = Fair::new(rules, 1, &[]);
        for slice_ns in slices_ns {
            let task = fair.add(&Share { slice_ns: *slice_ns, ..Share::NICE_0 });
            fair.enqueue(0, task, false);
        }
        fair.run_next();
        fair
    }

    /// Puts the running task of CPU 0 back and runs the next one.
    pub(crate) fn run_next(&mut self) -> Option<u32> {
        self.put(0);
        self.pick(0).inspect(|task| self.set(*task))
    }
}
