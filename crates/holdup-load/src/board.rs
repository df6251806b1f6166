//! The memory that the workers of one trial share, whether they are threads or processes.
//!
//! Our own, because memmap2 gives bytes, and crossbeam's CachePadded is not `repr(C)`: what is shared here is a typed layout
//! for which zeroed memory is valid.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two cache lines of 64 bytes: x86 fetches lines in pairs, and some aarch64 lines have 128 bytes.
#[repr(C, align(128))]
#[derive(Default)]
pub struct CachePadded<T>(pub T);

/// What the workers are to do. Written by the coordinator, read by the workers.
pub mod phase {
    /// Wait for the others.
    pub const IDLE: u32 = 0;
    /// Work; nothing counts yet.
    pub const WARM: u32 = 1;
    /// Work; what happens counts.
    pub const OPEN: u32 = 2;
    /// Work on, so that the load does not end before the collectors have read; nothing counts any more.
    pub const CLOSED: u32 = 3;
    /// End.
    pub const STOP: u32 = 4;
}

/// What coordinator and workers say to each other.
#[repr(C)]
pub struct Stage {
    /// See [`phase`].
    phase: CachePadded<AtomicU32>,
    /// How many workers wait for the begin.
    ready: CachePadded<AtomicU32>,
}

impl Stage {
    /// The phase, as fast as it can be read.
    #[inline(always)]
    pub fn phase(&self) -> u32 {
        self.phase.0.load(Ordering::Relaxed)
    }

    /// True if the workers are to end.
    #[inline(always)]
    pub fn stopped(&self) -> bool {
        self.phase() == phase::STOP
    }

    /// True if what happens now counts.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.phase() == phase::OPEN
    }

    /// How many workers wait for the begin.
    pub fn ready(&self) -> usize {
        self.ready.0.load(Ordering::SeqCst) as usize
    }

    /// Says that a worker is ready and waits until the coordinator says go. Returns whether there is something to do.
    /// To be called by each worker once.
    pub fn wait_for_begin(&self) -> bool {
        self.ready.0.fetch_add(1, Ordering::SeqCst);
        loop {
            match self.phase.0.load(Ordering::SeqCst) {
                // A wait that ends without reason just looks again.
                phase::IDLE => {
                    let flags = rustix::thread::futex::Flags::empty();
                    let _again = rustix::thread::futex::wait(&self.phase.0, flags, phase::IDLE, None);
                }
                phase::STOP => return false,
                _ => return true,
            }
        }
    }

    /// Sleeps until the workers are to end; for one that has nothing more to do.
    pub fn wait_for_stop(&self) {
        loop {
            match self.phase.0.load(Ordering::SeqCst) {
                phase::STOP => return,
                other => {
                    let flags = rustix::thread::futex::Flags::empty();
                    let _again = rustix::thread::futex::wait(&self.phase.0, flags, other, None);
                }
            }
        }
    }

    /// Puts all workers into a phase, and wakes those that wait for the begin.
    pub fn enter(&self, phase: u32) {
        self.phase.0.store(phase, Ordering::SeqCst);
        let _woken = rustix::thread::futex::wake(&self.phase.0, rustix::thread::futex::Flags::empty(), u32::MAX >> 1);
    }
}

/// Memory that may be shared between processes.
///
/// # Safety
/// All-zero bytes are a valid value, everything that changes in it is atomic (or made to be shared), its alignment is at
/// most that of a [`CachePadded`], and it is never dropped.
pub unsafe trait Shareable: Sync {}

// SAFETY: two atomics.
unsafe impl Shareable for Stage {}
// SAFETY: nothing at all.
unsafe impl Shareable for () {}
// SAFETY: atomics only.
unsafe impl Shareable for crate::record::Record {}
// SAFETY: an atomic.
unsafe impl Shareable for std::sync::atomic::AtomicU64 {}

/// The memory of one trial: a [`Stage`], a head for all and a slot for each worker, zeroed at first.
pub struct Board<H, S> {
    base: NonNull<u8>,
    bytes: usize,
    slots: usize,
    is: PhantomData<(H, S)>,
}

// SAFETY: everything in the board that is reached through a shared reference is `Shareable`; the mapping lives as long
// as the `Board`.
unsafe impl<H: Shareable, S: Shareable> Send for Board<H, S> {}
// SAFETY: see above.
unsafe impl<H: Shareable, S: Shareable> Sync for Board<H, S> {}

/// The alignment of everything on the board, and the most that it may ask for.
const ALIGNMENT: usize = align_of::<CachePadded<()>>();

const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

impl<H: Shareable, S: Shareable> Board<H, S> {
    const HEAD_AT: usize = aligned(size_of::<Stage>());
    const SLOTS_AT: usize = Self::HEAD_AT + aligned(size_of::<H>());
    const STRIDE: usize = aligned(size_of::<S>());

    /// Maps a board with as many slots.
    pub fn new(slots: usize) -> io::Result<Self> {
        const { assert!(align_of::<H>() <= ALIGNMENT && align_of::<S>() <= ALIGNMENT) };
        let bytes = slots
            .checked_mul(Self::STRIDE)
            .and_then(|b| b.checked_add(Self::SLOTS_AT))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = rustix::mm::MapFlags::SHARED;
        let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Board { base, bytes, slots, is: PhantomData })
    }

    /// What coordinator and workers say to each other.
    #[inline(always)]
    pub fn stage(&self) -> &Stage {
        // SAFETY: the mapping is page aligned, begins with a stage, and zero bytes are a valid one.
        unsafe { self.base.cast::<Stage>().as_ref() }
    }

    /// What all workers share.
    #[inline(always)]
    pub fn head(&self) -> &H {
        // SAFETY: it lies inside the mapping, and zero bytes are a valid one.
        unsafe { self.head_at().as_ref() }
    }

    /// Where the head is; for what is written to other than through atomics.
    pub fn head_at(&self) -> NonNull<H> {
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.base.add(Self::HEAD_AT).cast() }
    }

    /// A worker's slot.
    #[inline(always)]
    pub fn slot(&self, index: usize) -> &S {
        assert!(index < self.slots, "slot {index} of {}", self.slots);
        // SAFETY: the index is inside the mapping, slots are aligned, and zero bytes are a valid slot.
        unsafe { self.base.add(Self::SLOTS_AT + index * Self::STRIDE).cast::<S>().as_ref() }
    }

    /// The slots of all workers.
    pub fn slots(&self) -> impl Iterator<Item = &S> {
        (0..self.slots).map(|i| self.slot(i))
    }
}

impl<H, S> Drop for Board<H, S> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no reference into it outlives the `Board`.
        let _unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn nothing_that_is_written_by_two_shares_a_pair_of_lines() {
        let board = Board::<AtomicU64, AtomicU64>::new(3).expect("maps");
        let address = |slot: &AtomicU64| std::ptr::from_ref(slot) as usize;
        let stage = std::ptr::from_ref(board.stage()) as usize;
        assert_eq!(address(board.head()) - stage, 256);
        assert_eq!(address(board.slot(0)) - address(board.head()), 128);
        assert_eq!(address(board.slot(2)) - address(board.slot(1)), 128);
        assert_eq!(board.slots().count(), 3);
    }

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        assert!(Board::<(), crate::record::Record>::new(usize::MAX / 4).is_err());
    }
}
