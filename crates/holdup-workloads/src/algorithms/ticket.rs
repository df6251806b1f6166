//! The ticket lock: first come, first served.

use crate::contention::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Turns, Word};
use holdup_model::Meta;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Ticket>(&META, Properties { fair: true, may_sleep: false, needs_kernel: false });

const META: Meta = Meta {
    id: "ticket",
    summary: "ticket lock: spinning, first come, first served",
    docs: "A waiter draws a number and spins until it is served. Fair to the last operation, and for that reason \
           helpless against preemption: not only a preempted holder stops everyone, but also a preempted waiter \
           whose turn it is. With more workers than CPUs each hand-over may cost a time slice. The two counters \
           wrap around after 2^32 acquisitions, which is harmless with fewer than 2^32 waiters.",
    references: &[
        "J. Mellor-Crummey and M. Scott, Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, section 2.2",
        "S. Boyd-Wickizer et al., Non-scalable locks are dangerous, Linux Symposium 2012",
    ],
};

/// The next number to draw, and the number that is served.
#[repr(C)]
pub(crate) struct Ticket<W = AtomicU32> {
    next: W,
    serving: W,
}

impl<W: Word> Ticket<W> {
    /// A free lock whose first number is `first`.
    fn starting_at(first: u32) -> Self {
        Ticket { next: W::new(first), serving: W::new(first) }
    }

    /// A free lock that is about to wrap around.
    #[cfg(test)]
    pub(crate) fn about_to_wrap() -> Self {
        Self::starting_at(u32::MAX)
    }
}

impl<W: Word> RawLock for Ticket<W> {
    /// The number that this worker holds the lock with.
    type Local = u32;

    unsafe fn init(place: *mut Self, _sharing: Sharing) -> std::io::Result<()> {
        // SAFETY: the caller gives a writable and aligned place that nobody uses yet.
        unsafe { place.write(Self::starting_at(0)) };
        Ok(())
    }

    fn local(_seed: u64, _sharing: Sharing) -> u32 {
        0
    }

    #[inline(always)]
    fn acquire(&self, mine: &mut u32, stopped: &impl Fn() -> bool) -> Acquired {
        *mine = self.next.fetch_add(1, Ordering::Relaxed);
        if self.serving.load(Ordering::Acquire) == *mine {
            return Acquired::AtOnce;
        }
        let mut turns = Turns::default();
        loop {
            W::pause();
            if self.serving.load(Ordering::Acquire) == *mine {
                return Acquired::AfterWaiting;
            }
            // A number that was drawn and not used stops all later ones; that is only right because
            // `stopped` says so to every worker of the trial, and the lock is thrown away after it.
            if turns.over(stopped) {
                return Acquired::Stopped;
            }
        }
    }

    #[inline(always)]
    fn release(&self, mine: &mut u32) {
        self.serving.store(mine.wrapping_add(1), Ordering::Release);
    }
}
