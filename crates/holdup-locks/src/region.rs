//! The memory that the workers of one trial share, whether they are threads or processes.

use crate::record::{Identity, Said};
use holdup_load::account::thread_usage;
use holdup_load::board::{Board, CachePadded, Shareable};
use holdup_load::clock::now_ns;
use holdup_load::record::Record;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a lock has, and what names its holder for `truth`.
pub(crate) const LOCK_BYTES: usize = 128;

/// Where the memory with pages to be touched is cut, see `faults`.
pub(crate) const SEGMENTS: usize = 4;

/// The head of the region: each field on its own cache lines.
#[repr(C)]
pub(crate) struct Head {
    /// The lock.
    pub(crate) lock: CachePadded<[u8; LOCK_BYTES]>,
    /// What the lock protects: the number of operations. Written with a load and a store, so that
    /// two workers inside the lock at the same time lose an update.
    pub(crate) protected: CachePadded<AtomicU64>,
    /// The next page to touch, counted without wrapping; protected by the lock as well.
    pub(crate) cursor: CachePadded<AtomicU64>,
    /// For which pass each segment of pages was last made untouched.
    pub(crate) clean: CachePadded<[AtomicU64; SEGMENTS]>,
}

/// A worker's account with the kernel at one moment. Written by the worker, read after it has ended.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Mark {
    at_ns: AtomicU64,
    operations: AtomicU64,
    minor_faults: AtomicU64,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    /// [`NO_SLICES`] where the lock asks for none.
    slice_grants: AtomicU64,
}

/// Stands for the slice grants of a lock that never asks for a slice.
const NO_SLICES: u64 = u64::MAX;

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) at_ns: u64,
    pub(crate) operations: u64,
    pub(crate) minor_faults: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    /// `None` where the lock never asks for a slice.
    pub(crate) slice_grants: Option<u64>,
}

impl Mark {
    /// Takes the account of the calling thread. Only the first one counts.
    pub(crate) fn take(&self, operations: u64, slice_grants: Option<u64>) {
        if self.at_ns.load(Ordering::Relaxed) != 0 {
            return;
        }
        let usage = thread_usage();
        self.operations.store(operations, Ordering::Relaxed);
        self.minor_faults.store(usage.ru_minflt as u64, Ordering::Relaxed);
        self.voluntary.store(usage.ru_nvcsw as u64, Ordering::Relaxed);
        self.involuntary.store(usage.ru_nivcsw as u64, Ordering::Relaxed);
        self.slice_grants.store(slice_grants.unwrap_or(NO_SLICES), Ordering::Relaxed);
        self.at_ns.store(now_ns(), Ordering::Release);
    }

    /// The account; `None` when it was never taken.
    pub(crate) fn account(&self) -> Option<Account> {
        let at_ns = self.at_ns.load(Ordering::Acquire);
        (at_ns != 0).then(|| Account {
            at_ns,
            operations: self.operations.load(Ordering::Relaxed),
            minor_faults: self.minor_faults.load(Ordering::Relaxed),
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
            slice_grants: Some(self.slice_grants.load(Ordering::Relaxed)).filter(|grants| *grants != NO_SLICES),
        })
    }
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
    /// The account when the worker saw the window open.
    pub(crate) opened: Mark,
    /// The account when the worker saw the window closed.
    pub(crate) closed: Mark,
    /// Since when a sampled acquisition waits, CLOCK_MONOTONIC; 0 when none does.
    pub(crate) waiting_since_ns: AtomicU64,
    /// What the worker does at the moment, with `truth`.
    pub(crate) said: CachePadded<Said>,
    /// Its numbers, with `truth`.
    pub(crate) identity: Identity,
    /// The sampled acquisitions.
    pub(crate) acquisitions: Record,
}

/// The memory of one trial: a [`Head`] and a [`Slot`] for each worker.
pub(crate) type Region = Board<Head, Slot>;

// SAFETY: atomics, and a lock that is made to be shared.
unsafe impl Shareable for Head {}
// SAFETY: atomics.
unsafe impl Shareable for Slot {}

/// Where the lock of a region is.
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
