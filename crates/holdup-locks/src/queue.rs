//! The lines of waiters that queue: each spins on one that is not the lock's.

use crate::lock::Word;
use holdup_load::board::CachePadded;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// One waiter's line.
#[repr(C)]
pub(crate) struct Node<W = AtomicU32> {
    /// The number of the next one; 0 while there is none.
    pub(crate) next: W,
    /// 1 while the one that watches the line must wait.
    pub(crate) must_wait: W,
}

impl<W: Word> Node<W> {
    pub(crate) fn new() -> Self {
        Node { next: W::new(0), must_wait: W::new(0) }
    }
}

impl Default for Node {
    fn default() -> Self {
        Node::new()
    }
}

/// Where the nodes of a trial's workers are, those of all workers at the same distance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) first: NonNull<CachePadded<Node>>,
    pub(crate) stride_bytes: usize,
}

/// How a lock finds the node of a worker by its number, from 1.
pub(crate) trait Nodes<W>: Sync {
    /// Those of a new lock.
    fn new() -> Self;
    /// One of them. `places` is what the worker was given.
    fn at(&self, places: Option<Places>, number: u32) -> &Node<W>;
}

/// In the workers' slots.
pub(crate) struct InSlots;

impl Nodes<AtomicU32> for InSlots {
    fn new() -> Self {
        InSlots
    }

    #[inline(always)]
    fn at(&self, places: Option<Places>, number: u32) -> &Node {
        let Places { first, stride_bytes } = places.expect("workers of a trial have slots");
        // SAFETY: a number in a queue is that of a worker, whose slot lives as long as the lock.
        unsafe { &first.byte_add(stride_bytes * (number as usize - 1)).as_ref().0 }
    }
}
