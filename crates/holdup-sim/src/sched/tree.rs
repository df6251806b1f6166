//! Run queues ordered by a key, a deadline or a virtual run time, that know the least virtual run time and the least
//! slice of each subtree.
//!
//! The kernel keeps a red-black tree of the same order with the same augmentation (`kernel/sched/fair.c`,
//! `min_vruntime_cb`, v6.18), so that the entity with the earliest deadline among the eligible ones is found on one walk
//! from the root. Here it is a treap: which of two entities stands above the other follows from their numbers, so the
//! shape depends on the content alone. Entities with the same key stand in the order in which they came.

use crate::random::mixed;

/// No entity.
pub(crate) const NIL: u32 = u32::MAX;

/// What an entity is in the tree; within one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Node {
    /// What the tree is ordered by; fixed while the entity is in it.
    key: i64,
    pub(crate) deadline: i64,
    pub(crate) vruntime: i64,
    least_vruntime: i64,
    /// When it came, to tell entities with the same key apart.
    came: u32,
    pub(crate) slice_ns: u32,
    least_slice_ns: u32,
    left: u32,
    right: u32,
}

impl Node {
    pub(crate) const NEW: Node = Node {
        key: 0,
        deadline: 0,
        vruntime: 0,
        least_vruntime: 0,
        came: 0,
        slice_ns: 0,
        least_slice_ns: 0,
        left: NIL,
        right: NIL,
    };

    /// What it is ordered by among the others.
    pub(super) fn order(&self) -> (i64, u32) {
        (self.key, self.came)
    }
}

/// The nodes of all entities; a queue is the number of its root.
pub(crate) type Nodes = Vec<Node>;

fn rank(id: u32) -> u64 {
    mixed(u64::from(id))
}

/// Whether entity `a` stands before `b`.
fn before(nodes: &Nodes, a: u32, b: u32) -> bool {
    let (x, y) = (&nodes[a as usize], &nodes[b as usize]);
    (x.key, x.came, a) < (y.key, y.came, b)
}

fn settle(nodes: &mut Nodes, at: u32) {
    let node = nodes[at as usize];
    let mut least = node.vruntime;
    let mut least_slice_ns = node.slice_ns;
    for child in [node.left, node.right] {
        if child != NIL {
            least = least.min(nodes[child as usize].least_vruntime);
            least_slice_ns = least_slice_ns.min(nodes[child as usize].least_slice_ns);
        }
    }
    nodes[at as usize].least_vruntime = least;
    nodes[at as usize].least_slice_ns = least_slice_ns;
}

/// Adds an entity that is in no tree under a key, as the `came`th, and returns the root.
pub(crate) fn insert(nodes: &mut Nodes, root: u32, id: u32, key: i64, came: u32) -> u32 {
    let node = &mut nodes[id as usize];
    (node.key, node.came) = (key, came);
    descend(nodes, root, id)
}

fn descend(nodes: &mut Nodes, root: u32, id: u32) -> u32 {
    if root == NIL {
        let node = &mut nodes[id as usize];
        (node.left, node.right) = (NIL, NIL);
        settle(nodes, id);
        return id;
    }
    if rank(id) > rank(root) {
        let (left, right) = split(nodes, root, id);
        let node = &mut nodes[id as usize];
        (node.left, node.right) = (left, right);
        settle(nodes, id);
        return id;
    }
    if before(nodes, id, root) {
        let left = descend(nodes, nodes[root as usize].left, id);
        nodes[root as usize].left = left;
    } else {
        let right = descend(nodes, nodes[root as usize].right, id);
        nodes[root as usize].right = right;
    }
    settle(nodes, root);
    root
}

/// Parts a tree into what stands before `id` and what stands after it.
fn split(nodes: &mut Nodes, root: u32, id: u32) -> (u32, u32) {
    if root == NIL {
        return (NIL, NIL);
    }
    let parts = if before(nodes, root, id) {
        let (left, right) = split(nodes, nodes[root as usize].right, id);
        nodes[root as usize].right = left;
        (root, right)
    } else {
        let (left, right) = split(nodes, nodes[root as usize].left, id);
        nodes[root as usize].left = right;
        (left, root)
    };
    settle(nodes, root);
    parts
}

/// Takes an entity out and returns the root.
pub(crate) fn remove(nodes: &mut Nodes, root: u32, id: u32) -> u32 {
    debug_assert_ne!(root, NIL, "entity {id} is in the tree");
    if root == id {
        let Node { left, right, .. } = nodes[id as usize];
        return join(nodes, left, right);
    }
    if before(nodes, id, root) {
        let left = remove(nodes, nodes[root as usize].left, id);
        nodes[root as usize].left = left;
    } else {
        let right = remove(nodes, nodes[root as usize].right, id);
        nodes[root as usize].right = right;
    }
    settle(nodes, root);
    root
}

fn join(nodes: &mut Nodes, left: u32, right: u32) -> u32 {
    if left == NIL {
        return right;
    }
    if right == NIL {
        return left;
    }
    if rank(left) > rank(right) {
        let joined = join(nodes, nodes[left as usize].right, right);
        nodes[left as usize].right = joined;
        settle(nodes, left);
        left
    } else {
        let joined = join(nodes, left, nodes[right as usize].left);
        nodes[right as usize].left = joined;
        settle(nodes, right);
        right
    }
}

/// The shortest slice of a tree, ns; `u32::MAX` when it is empty.
pub(crate) fn least_slice_ns(nodes: &Nodes, root: u32) -> u32 {
    if root == NIL { u32::MAX } else { nodes[root as usize].least_slice_ns }
}

/// The first entity of a tree.
pub(crate) fn first(nodes: &Nodes, root: u32) -> u32 {
    let mut at = root;
    while at != NIL && nodes[at as usize].left != NIL {
        at = nodes[at as usize].left;
    }
    at
}

/// The entity with the earliest deadline among those whose virtual run time is eligible.
pub(crate) fn first_eligible(nodes: &Nodes, root: u32, eligible: impl Fn(i64) -> bool) -> u32 {
    let mut at = root;
    while at != NIL {
        let node = &nodes[at as usize];
        if node.left != NIL && eligible(nodes[node.left as usize].least_vruntime) {
            at = node.left;
        } else if eligible(node.vruntime) {
            return at;
        } else {
            at = node.right;
        }
    }
    NIL
}

/// The entities of a tree from the first to the last, for as long as `visit` says so.
pub(crate) fn each(nodes: &Nodes, root: u32, visit: &mut impl FnMut(u32) -> bool) -> bool {
    root == NIL
        || each(nodes, nodes[root as usize].left, visit)
            && visit(root)
            && each(nodes, nodes[root as usize].right, visit)
}

/// The entities of a tree from the last to the first, for as long as `visit` says so.
pub(crate) fn each_back(nodes: &Nodes, root: u32, visit: &mut impl FnMut(u32) -> bool) -> bool {
    root == NIL
        || each_back(nodes, nodes[root as usize].right, visit)
            && visit(root)
            && each_back(nodes, nodes[root as usize].left, visit)
}
