//! The memory that the workers of one trial share, whether they are threads or processes.

use crate::queue::Node;
use crate::record::{Identity, WorkerState};
use holdup_load::account::Marks;
use holdup_load::board::{Board, CachePadded, Shareable};
use holdup_load::record::Record;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a lock has, and what names its holder for `truth`.
pub(crate) const LOCK_BYTES: usize = 128;

/// Where the memory with pages to be touched is cut, see `faults`.
pub(crate) const SEGMENTS: usize = 4;

/// The head of the region: each field on its own cache lines.
#[repr(C)]
pub(crate) struct Head {
    pub(crate) lock: CachePadded<[u8; LOCK_BYTES]>,
    /// What the lock protects: the number of operations. Written with a load and a store, so that
    /// two workers inside the lock at the same time lose an update.
    pub(crate) protected: CachePadded<AtomicU64>,
    /// The next page to touch, counted without wrapping; protected by the lock as well.
    pub(crate) cursor: CachePadded<AtomicU64>,
    /// For which pass each segment of pages was last made untouched.
    pub(crate) clean: CachePadded<[AtomicU64; SEGMENTS]>,
}

/// How a worker ended.
pub(crate) mod ending {
    // 0 while it works.
    /// As asked.
    pub(crate) const DONE: u32 = 1;
    /// Its lock gave up by its own rule.
    pub(crate) const STUCK: u32 = 2;
    /// The kernel refused what its lock needs; the errno is in [`super::Slot::errno`].
    pub(crate) const REFUSED: u32 = 3;
}

/// One worker's part of the region.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Completed operations, written after each.
    pub(crate) operations: CachePadded<AtomicU64>,
    /// See [`ending`].
    pub(crate) ending: AtomicU32,
    /// Why the kernel refused what the lock needs; 0 when it did not.
    pub(crate) errno: AtomicU32,
    /// The accounts when the worker saw the window open and closed.
    pub(crate) marks: Marks,
    /// Since when a sampled acquisition waits, CLOCK_MONOTONIC; 0 when none does.
    pub(crate) waiting_since_ns: AtomicU64,
    /// What the worker does at the moment, with `truth`.
    pub(crate) state: CachePadded<WorkerState>,
    /// Its numbers, with `truth`.
    pub(crate) identity: Identity,
    /// Its line in the queue of a lock that has one.
    pub(crate) node: CachePadded<Node>,
    /// The sampled acquisitions.
    pub(crate) acquisitions: Record,
}

/// The memory of one trial: a [`Head`] and a [`Slot`] for each worker.
pub(crate) type Region = Board<Head, Slot>;

// SAFETY: atomics, and a lock that is made to be shared.
unsafe impl Shareable for Head {}
// SAFETY: atomics.
unsafe impl Shareable for Slot {}

pub(crate) fn lock_of(region: &Region) -> NonNull<u8> {
    // SAFETY: the offset lies inside the head. Made from `head_at`, not from `head`, because the lock is written to,
    // which a pointer from a shared reference would not allow.
    unsafe { region.head_at().cast::<u8>().add(std::mem::offset_of!(Head, lock)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_written_by_two_shares_a_pair_of_lines() {
        assert_eq!(size_of::<Head>(), 4 * 128);
        assert_eq!(size_of::<Slot>() % 128, 0);
        let region = Region::new(3).expect("maps");
        let address = |slot: &Slot| std::ptr::from_ref(slot) as usize;
        assert!(region.slots().all(|s| address(s) % 128 == 0));
        assert_eq!(address(region.slot(2)) - address(region.slot(1)), size_of::<Slot>());
        assert_eq!(lock_of(&region).as_ptr() as usize % 128, 0);
    }
}
