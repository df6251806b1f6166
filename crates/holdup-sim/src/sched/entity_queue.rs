//! The entities that wait in a run queue, in the order of a key: a deadline under EEVDF, a virtual run time under CFS.
//! Entities with the same key keep the order in which they came.
//!
//! The kernel has a red-black tree here that knows the least virtual run time of each subtree (kernel/sched/fair.c,
//! `min_vruntime_cb`, v6.18). Entities come near the end and leave near the beginning, where the first eligible one is, so
//! a ring buffer moves and visits few of them, also where thousands wait.

use std::collections::VecDeque;

/// No entity.
pub(crate) const NIL: u32 = u32::MAX;

/// The times of an entity, and its place in the queue in which it waits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) deadline: i64,
    pub(crate) vruntime: i64,
    pub(crate) slice_ns: u32,
    came: u32,
    key: i64,
}

impl Node {
    pub(crate) fn new(slice_ns: u32) -> Node {
        Node { slice_ns, ..Node::default() }
    }
}

/// An entity in a queue, with all that the choice of the next one needs.
#[derive(Debug, Clone, Copy)]
struct Slot {
    key: i64,
    vruntime: i64,
    id: u32,
    came: u32,
    slice_ns: u32,
}

impl Slot {
    fn order(&self) -> (i64, u32, u32) {
        (self.key, self.came, self.id)
    }
}

/// The entities of a queue but for the one that runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntityQueue {
    slots: VecDeque<Slot>,
    /// The shortest slice, and how many entities have it.
    least_slice_ns: u32,
    have_least: u32,
}

impl EntityQueue {
    fn place(&self, order: (i64, u32, u32)) -> usize {
        self.slots.partition_point(|slot| slot.order() < order)
    }

    /// Adds an entity that is in no queue under a key, as the `came`th.
    pub(crate) fn insert(&mut self, node: &mut Node, id: u32, key: i64, came: u32) {
        (node.key, node.came) = (key, came);
        let slot = Slot { key, vruntime: node.vruntime, id, came, slice_ns: node.slice_ns };
        match self.slots.back() {
            Some(last) if last.order() > slot.order() => self.slots.insert(self.place(slot.order()), slot),
            _ => self.slots.push_back(slot),
        }
        if self.slots.len() == 1 || slot.slice_ns < self.least_slice_ns {
            (self.least_slice_ns, self.have_least) = (slot.slice_ns, 0);
        }
        self.have_least += u32::from(slot.slice_ns == self.least_slice_ns);
    }

    /// Takes an entity out.
    pub(crate) fn remove(&mut self, node: &Node, id: u32) {
        let slot = match (self.slots.front(), self.slots.back()) {
            (Some(first), _) if first.id == id => self.slots.pop_front(),
            (_, Some(last)) if last.id == id => self.slots.pop_back(),
            _ => self.slots.remove(self.place((node.key, node.came, id))),
        };
        let Some(slot) = slot else { return debug_assert!(false, "entity {id} is in the queue") };
        debug_assert_eq!(slot.id, id);
        self.have_least -= u32::from(slot.slice_ns == self.least_slice_ns);
        if self.have_least == 0 {
            self.least_slice_ns = self.slots.iter().map(|slot| slot.slice_ns).min().unwrap_or(u32::MAX);
            self.have_least = self.slots.iter().filter(|slot| slot.slice_ns == self.least_slice_ns).count() as u32;
        }
    }

    /// The shortest slice, ns; `u32::MAX` when there is none.
    pub(crate) fn least_slice_ns(&self) -> u32 {
        if self.slots.is_empty() { u32::MAX } else { self.least_slice_ns }
    }

    /// The entities in their order.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.slots.iter().map(|slot| slot.id)
    }

    /// The first entity, or `NIL`.
    pub(crate) fn first(&self) -> u32 {
        self.slots.front().map_or(NIL, |slot| slot.id)
    }

    /// The first entity whose virtual run time is eligible, or `NIL`.
    pub(crate) fn first_eligible(&self, eligible: impl Fn(i64) -> bool) -> u32 {
        self.slots.iter().find(|slot| eligible(slot.vruntime)).map_or(NIL, |slot| slot.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Compares a queue with a search of all members.
    fn compare(nodes: &[Node], queue: &EntityQueue, members: &[u32], limit: i64) {
        // The sort is stable: entities with the same deadline stay in the order in which they came.
        let mut sorted = members.to_vec();
        sorted.sort_by_key(|m| nodes[*m as usize].deadline);
        assert_eq!(queue.ids().collect::<Vec<u32>>(), sorted);
        let expect = sorted.iter().find(|m| nodes[**m as usize].vruntime <= limit).copied().unwrap_or(NIL);
        assert_eq!(queue.first_eligible(|v| v <= limit), expect);
        assert_eq!(queue.first(), sorted.first().copied().unwrap_or(NIL));
        let shortest = members.iter().map(|m| nodes[*m as usize].slice_ns).min().unwrap_or(u32::MAX);
        assert_eq!(queue.least_slice_ns(), shortest);
    }

    proptest! {
        #[test]
        fn a_queue_finds_what_a_search_of_all_finds(ops in proptest::collection::vec((0u32..40, -20i64..20, -20i64..20, 1u32..9), 0..200), limit in -25i64..25) {
            let mut nodes = vec![Node::default(); 40];
            let mut members: Vec<u32> = Vec::new();
            let mut queue = EntityQueue::default();
            for (came, (id, deadline, vruntime, slice_ns)) in ops.into_iter().enumerate() {
                let node = &mut nodes[id as usize];
                if let Some(place) = members.iter().position(|m| *m == id) {
                    members.remove(place);
                    queue.remove(node, id);
                } else {
                    members.push(id);
                    (node.deadline, node.vruntime, node.slice_ns) = (deadline, vruntime, slice_ns);
                    queue.insert(node, id, deadline, came as u32);
                }
                compare(&nodes, &queue, &members, limit);
            }
        }
    }
}
