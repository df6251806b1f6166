//! A tree of calls with weights: each distinct stack is kept once, for any number of samples.

/// Where the path of a stack ends in a [`Tree`].
pub(crate) type NodeId = u32;

/// A node, reached by its parent's path and one step more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// Its parent; itself for a root.
    pub(crate) parent: NodeId,
    /// What the step is: for a root, what the caller says; else a place in code.
    pub(crate) step: u64,
    /// Weight of the stacks that end here.
    pub(crate) weight: u64,
}

const EMPTY: u32 = u32::MAX;

/// The tree. Steps are found by a hash table with a fixed function, so that the order of nodes is that of
/// their first samples on every run.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    slots: Vec<u32>,
    most: usize,
}

impl Tree {
    /// An empty tree that grows to at most `most` nodes.
    pub(crate) fn new(most: usize) -> Self {
        Tree { nodes: Vec::new(), slots: vec![EMPTY; 1024], most: most.min(EMPTY as usize - 1) }
    }

    /// The node below `parent` by this step (a root when there is no parent), made when it is new; `None` when the
    /// tree is full.
    pub(crate) fn step(&mut self, parent: Option<NodeId>, step: u64) -> Option<NodeId> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(parent, step) & mask;
        while self.slots[slot] != EMPTY {
            let id = self.slots[slot];
            let node = &self.nodes[id as usize];
            if node.step == step && node.parent == parent.unwrap_or(id) {
                return Some(id);
            }
            slot = (slot + 1) & mask;
        }
        if self.nodes.len() >= self.most {
            return None;
        }
        let id = self.nodes.len() as u32;
        self.nodes.push(Node { parent: parent.unwrap_or(id), step, weight: 0 });
        self.slots[slot] = id;
        if self.nodes.len() * 2 > self.slots.len() {
            self.widen();
        }
        Some(id)
    }

    fn widen(&mut self) {
        let mut slots = vec![EMPTY; self.slots.len() * 2];
        let mask = slots.len() - 1;
        for (id, node) in self.nodes.iter().enumerate() {
            let parent = (node.parent as usize != id).then_some(node.parent);
            let mut slot = hash(parent, node.step) & mask;
            while slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            slots[slot] = id as u32;
        }
        self.slots = slots;
    }

    /// Adds weight to the stack that ends at a node.
    pub(crate) fn add(&mut self, at: NodeId, weight: u64) {
        let node = &mut self.nodes[at as usize];
        node.weight = node.weight.saturating_add(weight);
    }

    /// The nodes in the order in which they were made; a parent comes before its children.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>() + self.slots.capacity() * size_of::<u32>()) as u64
    }
}

/// Mixes by two multiplications (the constant is 2^64 divided by the golden ratio, made odd).
fn hash(parent: Option<NodeId>, step: u64) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let parent = parent.map_or(0, |id| u64::from(id) + 1);
    let mixed = (parent.wrapping_mul(FACTOR).rotate_left(29) ^ step).wrapping_mul(FACTOR);
    (mixed >> 20) as usize
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn a_stack_is_one_node_however_often_it_is_seen() {
        let mut tree = Tree::new(100_000);
        for round in 0..3_u64 {
            for i in 0..10_000_u64 {
                let root = tree.step(None, i % 3).expect("there is room");
                let at = tree.step(Some(root), i).expect("there is room");
                tree.add(at, round + 1);
            }
        }
        assert_eq!(tree.nodes().len(), 3 + 10_000);
        assert!(tree.nodes().iter().all(|n| n.weight == 0 || n.weight == 6));
        assert_eq!(tree.nodes().iter().map(|n| n.weight).sum::<u64>(), 60_000);
    }

    #[test]
    fn a_full_tree_takes_no_more_but_knows_what_it_has() {
        let mut tree = Tree::new(2);
        let root = tree.step(None, 7).expect("first");
        let one = tree.step(Some(root), 7).expect("a step like its root's is another node");
        assert_ne!(root, one);
        assert_eq!(tree.step(Some(one), 8), None);
        assert_eq!(tree.step(Some(root), 7), Some(one));
    }
}
