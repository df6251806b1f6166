//! The memory that the workers of one trial share, whether they are threads or processes.

use crate::contention::calibrate::now_ns;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Two cache lines of 64 bytes: x86 fetches lines in pairs, and some aarch64 lines have 128 bytes.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The most that a lock may take.
pub(crate) const LOCK_BYTES: usize = 128;

/// Where the memory with pages to be touched is cut, see `faults`.
pub(crate) const SEGMENTS: usize = 4;

/// What the workers are to do. Written by the coordinator, read by the workers.
pub(crate) mod phase {
    /// Wait for the others.
    pub(crate) const IDLE: u32 = 0;
    /// Work; nothing counts yet.
    pub(crate) const WARM: u32 = 1;
    /// Work; sampled acquisitions are recorded.
    pub(crate) const OPEN: u32 = 2;
    /// Work on, so that the load does not end before the collectors have read; nothing counts any more.
    pub(crate) const CLOSED: u32 = 3;
    /// End.
    pub(crate) const STOP: u32 = 4;
}

/// The head of the region: each field on lines of its own.
#[repr(C)]
pub(crate) struct Head {
    /// See [`phase`].
    pub(crate) phase: Line<AtomicU32>,
    /// How many workers wait for the begin.
    pub(crate) ready: Line<AtomicU32>,
    /// The lock.
    pub(crate) lock: Line<[u8; LOCK_BYTES]>,
    /// What the lock protects: the number of operations. Written with a load and a store, so that
    /// two workers inside the lock at once lose an update and show.
    pub(crate) protected: Line<AtomicU64>,
    /// The next page to touch, counted without wrapping; protected by the lock as well.
    pub(crate) cursor: Line<AtomicU64>,
    /// For which pass each segment of pages was last made untouched.
    pub(crate) clean: Line<[AtomicU64; SEGMENTS]>,
}

impl Head {
    /// Whether the workers are to end.
    #[inline(always)]
    pub(crate) fn stopped(&self) -> bool {
        self.phase.0.load(Ordering::Relaxed) == phase::STOP
    }
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
        // SAFETY: an all-zero rusage is valid, and the kernel fills in one.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
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
    /// As told.
    pub(crate) const DONE: u32 = 1;
    /// Its lock gave up by its own rule.
    pub(crate) const STUCK: u32 = 2;
    /// The kernel refused what its lock needs; the errno is in [`super::Slot::errno`].
    pub(crate) const REFUSED: u32 = 3;
}

/// Exponential ranges of 256 linear buckets: at most 0.4 % wide, up to 73 minutes.
const SUB_BITS: u32 = 8;
const LARGEST_BITS: u32 = 42;
/// Buckets of a worker's record.
pub(crate) const BUCKETS: usize = ((LARGEST_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// One worker's part of the region.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Completed operations, written after each.
    pub(crate) operations: Line<AtomicU64>,
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
    /// The longest sampled acquisition, ns.
    pub(crate) longest_ns: AtomicU64,
    /// How many acquisitions fell into each bucket.
    pub(crate) buckets: [AtomicU64; BUCKETS],
}

impl Slot {
    /// Counts one acquisition. Only this slot's worker writes, so no read-modify-write is needed.
    #[inline]
    pub(crate) fn record(&self, ns: u64) {
        let bucket = &self.buckets[bucket_of(ns)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(ns, Ordering::Relaxed);
        }
    }
}

/// The bucket of a duration.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let ns = ns.min((1 << LARGEST_BITS) - 1);
    let Some(shift) = (63 - (ns | 1).leading_zeros()).checked_sub(SUB_BITS) else { return ns as usize };
    (((shift + 1) as usize) << SUB_BITS) + ((ns >> shift) as usize & ((1 << SUB_BITS) - 1))
}

/// The middle of a bucket, ns.
pub(crate) fn middle_of(bucket: usize) -> u64 {
    let (range, place) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    let Some(shift) = range.checked_sub(1) else { return place };
    let low = ((1 << SUB_BITS) + place) << shift;
    low + ((1u64 << shift) - 1) / 2
}

/// The region of one trial: a [`Head`] and a [`Slot`] for each worker, zeroed.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
    workers: usize,
}

// SAFETY: everything in the region that is reached through a shared reference is atomic, or is a
// lock that is made to be shared; the mapping lives as long as the `Region`.
unsafe impl Send for Region {}
// SAFETY: see above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps a region for as many workers.
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        let bytes = size_of::<Head>() + workers * size_of::<Slot>();
        let flags = rustix::mm::MapFlags::SHARED;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { base, bytes, workers })
    }

    /// The head.
    #[inline(always)]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the mapping is page aligned, begins with a head, and zero bytes are a valid one.
        unsafe { self.base.cast::<Head>().as_ref() }
    }

    /// Where the lock is.
    pub(crate) fn lock(&self) -> NonNull<u8> {
        // SAFETY: the offset lies inside the mapping. Made from `base`, not from `head()`, because the
        // lock is written to, which a pointer from a shared reference would not allow.
        unsafe { self.base.add(std::mem::offset_of!(Head, lock)) }
    }

    /// A worker's slot.
    #[inline(always)]
    pub(crate) fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.workers, "slot {index} of {}", self.workers);
        // SAFETY: the index is inside the mapping, slots follow the head at its alignment, and zero
        // bytes are a valid slot.
        unsafe { self.base.add(size_of::<Head>()).cast::<Slot>().add(index).as_ref() }
    }

    /// The slots of all workers.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        (0..self.workers).map(|i| self.slot(i))
    }

    /// Puts all workers into a phase, and wakes those that wait for the begin.
    pub(crate) fn enter(&self, phase: u32) {
        self.head().phase.0.store(phase, Ordering::SeqCst);
        let _woken =
            rustix::thread::futex::wake(&self.head().phase.0, rustix::thread::futex::Flags::empty(), u32::MAX >> 1);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no reference into it outlives the `Region`.
        let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_exact_below_256_ns_and_end_at_73_minutes() {
        for (ns, bucket, middle) in
            [(0, 0, 0), (1, 1, 1), (255, 255, 255), (256, 256, 256), (511, 511, 511), (512, 512, 512), (513, 512, 512)]
        {
            assert_eq!((bucket_of(ns), middle_of(bucket_of(ns))), (bucket, middle), "{ns} ns");
        }
        assert_eq!(bucket_of((1 << 42) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_bucket_s_middle_is_within_a_fifth_of_a_percent(ns in 0u64..(1 << 42)) {
            let middle = middle_of(bucket_of(ns));
            prop_assert!(middle.abs_diff(ns) as f64 <= ns as f64 * 0.002, "{ns} is shown as {middle}");
        }

        #[test]
        fn longer_durations_are_never_in_lower_buckets(a in 0u64..(1 << 43), b in 0u64..(1 << 43)) {
            prop_assert!(bucket_of(a.min(b)) <= bucket_of(a.max(b)));
        }
    }

    #[test]
    fn nothing_that_is_written_by_two_shares_a_pair_of_lines() {
        assert_eq!(size_of::<Head>(), 6 * 128);
        assert_eq!(size_of::<Slot>() % 128, 0);
        let region = Region::new(3).expect("maps");
        let address = |slot: &Slot| std::ptr::from_ref(slot) as usize;
        assert!(region.slots().all(|s| address(s) % 128 == 0));
        assert_eq!(address(region.slot(2)) - address(region.slot(1)), size_of::<Slot>());
        assert_eq!(region.lock().as_ptr() as usize % 128, 0);
    }
}
