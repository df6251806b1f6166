//! The entities of a run queue in their order: side by side where they are few, as nearly always, a tree where they are
//! many. Which of the two it is changes no answer.

use super::tree::{self, NIL, Nodes};

/// The most entities that stand side by side.
const FEW: usize = 16;

/// An entity in a line, with all that is asked about it.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: i64,
    vruntime: i64,
    id: u32,
    came: u32,
    slice_ns: u32,
}

/// The entities of a queue but for the one that runs.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    len: u32,
    /// The root of the tree; `NIL` where they stand side by side.
    root: u32,
    /// The shortest slice of those side by side, and how many have it.
    least_slice_ns: u32,
    have_least: u32,
    few: [Place; FEW],
}

impl Line {
    pub(crate) const NEW: Line = Line {
        len: 0,
        root: NIL,
        least_slice_ns: u32::MAX,
        have_least: 0,
        few: [Place { key: 0, vruntime: 0, id: NIL, came: 0, slice_ns: 0 }; FEW],
    };

    fn side_by_side(&self) -> &[Place] {
        &self.few[..self.len as usize]
    }

    /// Adds an entity that is in no line under a key, as the `came`th.
    pub(crate) fn insert(&mut self, nodes: &mut Nodes, id: u32, key: i64, came: u32) {
        if self.root == NIL && self.len as usize == FEW {
            for place in self.few {
                self.root = tree::insert(nodes, self.root, place.id, place.key, place.came);
            }
        }
        self.len += 1;
        if self.root != NIL {
            self.root = tree::insert(nodes, self.root, id, key, came);
            return;
        }
        let node = &nodes[id as usize];
        self.add(Place { key, vruntime: node.vruntime, id, came, slice_ns: node.slice_ns });
    }

    /// Adds an entity to those side by side; it is counted already.
    fn add(&mut self, place: Place) {
        let mut at = self.len as usize - 1;
        while at > 0 && (place.key, place.came, place.id) < self.order_at(at - 1) {
            self.few[at] = self.few[at - 1];
            at -= 1;
        }
        self.few[at] = place;
        if place.slice_ns < self.least_slice_ns {
            (self.least_slice_ns, self.have_least) = (place.slice_ns, 0);
        }
        self.have_least += u32::from(place.slice_ns == self.least_slice_ns);
    }

    fn order_at(&self, at: usize) -> (i64, u32, u32) {
        let place = &self.few[at];
        (place.key, place.came, place.id)
    }

    /// Takes an entity out.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, id: u32) {
        if self.root != NIL {
            self.root = tree::remove(nodes, self.root, id);
            self.len -= 1;
            if self.len as usize == FEW / 2 {
                self.stand_side_by_side(nodes);
            }
            return;
        }
        let Some(at) = self.side_by_side().iter().position(|place| place.id == id) else {
            debug_assert!(false, "entity {id} is in the line");
            return;
        };
        let slice_ns = self.few[at].slice_ns;
        self.few.copy_within(at + 1..self.len as usize, at);
        self.len -= 1;
        self.have_least -= u32::from(slice_ns == self.least_slice_ns);
        if self.have_least == 0 {
            self.find_least();
        }
    }

    fn find_least(&mut self) {
        let least = self.side_by_side().iter().map(|place| place.slice_ns).min().unwrap_or(u32::MAX);
        let have = self.side_by_side().iter().filter(|place| place.slice_ns == least).count();
        (self.least_slice_ns, self.have_least) = (least, have as u32);
    }

    /// The tree has become small.
    fn stand_side_by_side(&mut self, nodes: &Nodes) {
        let mut at = 0;
        tree::each(nodes, self.root, &mut |id| {
            let node = &nodes[id as usize];
            let (key, came) = node.order();
            self.few[at] = Place { key, vruntime: node.vruntime, id, came, slice_ns: node.slice_ns };
            at += 1;
            true
        });
        self.root = NIL;
        self.find_least();
    }

    /// The shortest slice, ns; `u32::MAX` when there is none.
    pub(crate) fn least_slice_ns(&self, nodes: &Nodes) -> u32 {
        if self.root == NIL { self.least_slice_ns } else { tree::least_slice_ns(nodes, self.root) }
    }

    /// The first entity.
    pub(crate) fn first(&self, nodes: &Nodes) -> u32 {
        if self.root == NIL {
            return self.side_by_side().first().map_or(NIL, |place| place.id);
        }
        tree::first(nodes, self.root)
    }

    /// The first entity of which the virtual run time is eligible.
    pub(crate) fn first_eligible(&self, nodes: &Nodes, eligible: impl Fn(i64) -> bool) -> u32 {
        if self.root == NIL {
            let found = self.side_by_side().iter().find(|place| eligible(place.vruntime));
            return found.map_or(NIL, |place| place.id);
        }
        tree::first_eligible(nodes, self.root, eligible)
    }

    /// The entities from the first to the last, for as long as `visit` says so.
    pub(crate) fn each(&self, nodes: &Nodes, visit: &mut impl FnMut(u32) -> bool) -> bool {
        if self.root == NIL {
            return self.side_by_side().iter().all(|place| visit(place.id));
        }
        tree::each(nodes, self.root, visit)
    }

    /// The entities from the last to the first, for as long as `visit` says so.
    pub(crate) fn each_back(&self, nodes: &Nodes, visit: &mut impl FnMut(u32) -> bool) -> bool {
        if self.root == NIL {
            return self.side_by_side().iter().rev().all(|place| visit(place.id));
        }
        tree::each_back(nodes, self.root, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Node;
    use super::*;
    use proptest::prelude::*;

    /// Holds what a line says against a search of all members.
    fn compare(nodes: &Nodes, line: &Line, members: &[u32], limit: i64) {
        // The sort is stable: entities with the same deadline stay in the order in which they came.
        let mut sorted = members.to_vec();
        sorted.sort_by_key(|m| nodes[*m as usize].deadline);
        let mut seen = Vec::new();
        line.each(nodes, &mut |id| {
            seen.push(id);
            true
        });
        assert_eq!(seen, sorted);
        let mut back = Vec::new();
        line.each_back(nodes, &mut |id| {
            back.push(id);
            true
        });
        back.reverse();
        assert_eq!(back, sorted);
        let expect = sorted.iter().find(|m| nodes[**m as usize].vruntime <= limit).copied().unwrap_or(NIL);
        assert_eq!(line.first_eligible(nodes, |v| v <= limit), expect);
        assert_eq!(line.first(nodes), sorted.first().copied().unwrap_or(NIL));
        let shortest = members.iter().map(|m| nodes[*m as usize].slice_ns).min().unwrap_or(u32::MAX);
        assert_eq!(line.least_slice_ns(nodes), shortest);
    }

    proptest! {
        #[test]
        fn a_line_finds_what_a_search_of_all_finds(ops in proptest::collection::vec((0u32..40, -20i64..20, -20i64..20, 1u32..9), 0..200), limit in -25i64..25) {
            let mut nodes = vec![Node::NEW; 40];
            let mut members: Vec<u32> = Vec::new();
            let mut line = Line::NEW;
            for (came, (id, deadline, vruntime, slice_ns)) in ops.into_iter().enumerate() {
                if let Some(place) = members.iter().position(|m| *m == id) {
                    members.remove(place);
                    line.remove(&mut nodes, id);
                } else {
                    members.push(id);
                    let node = &mut nodes[id as usize];
                    (node.deadline, node.vruntime, node.slice_ns) = (deadline, vruntime, slice_ns);
                    line.insert(&mut nodes, id, deadline, came as u32);
                }
                compare(&nodes, &line, &members, limit);
            }
            // Back to few, and to none.
            while let Some(id) = members.pop() {
                line.remove(&mut nodes, id);
                compare(&nodes, &line, &members, limit);
            }
        }
    }
}
