//! The ticket lock: first come, first served.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, RawLock, Turns, Unnamed, Word, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Ticket>(&META, Properties { fair: true, may_sleep: false, needs_kernel: false })
        .named_by::<Ticket<AtomicU32, Named>>();

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
pub(crate) struct Ticket<W = AtomicU32, N = Unnamed> {
    next: W,
    serving: W,
    naming: PhantomData<N>,
}

impl<W: Word, N: Naming> Ticket<W, N> {
    /// A free lock whose first number is `first`.
    fn starting_at(first: u32) -> Self {
        Ticket { next: W::new(first), serving: W::new(first), naming: PhantomData }
    }

    /// A free lock that is about to wrap around.
    #[cfg(test)]
    pub(crate) fn about_to_wrap() -> Self {
        Self::starting_at(u32::MAX)
    }
}

impl<W: Word, N: Naming> RawLock for Ticket<W, N> {
    /// The number that this worker holds the lock with.
    type Local = (u32, N::Name);
    const NAMED_BY: NamedBy = NamedBy::Ticket;

    note::points!("lock-contention: ticket", 2);

    fn free() -> Self {
        Self::starting_at(0)
    }

    fn local(worker: &Worker) -> Self::Local {
        (0, N::of(worker))
    }

    #[inline(always)]
    fn acquire(&self, (mine, name): &mut Self::Local, stopped: &impl Fn() -> bool) -> Acquired {
        *mine = self.next.fetch_add(1, Ordering::Relaxed);
        N::drew(*name, *mine);
        if self.serving.load(Ordering::Acquire) == *mine {
            return Acquired::Uncontended;
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
    fn release(&self, (mine, _): &mut Self::Local) {
        self.serving.store(mine.wrapping_add(1), Ordering::Release);
        Self::at_released();
    }
}
