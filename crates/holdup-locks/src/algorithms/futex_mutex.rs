//! A mutex of three states whose waiters sleep in the kernel.

use crate::lock::{Acquired, Algorithm, FutexWord, Properties, RawLock, Sharing, Worker};
use crate::note;
use holdup_model::Meta;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<FutexMutex>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true });

const META: Meta = Meta {
    id: "futex-mutex",
    summary: "three-state futex mutex: waiters sleep immediately, none spins",
    docs: "Free, held, held with waiters. A free lock is taken and given back without a system call; a waiter marks \
           the lock and sleeps in FUTEX_WAIT, and the holder wakes one sleeper when it gives a marked lock back. \
           A preempted holder costs its waiters no CPU. The price is two system calls and a wake-up for each \
           contended hand-over. The lock is not handed to the sleeper: the first that comes takes it. Processes use \
           shared futexes, threads private ones.",
    references: &[
        "U. Drepper, Futexes Are Tricky, 2011, section 6 (mutex2)",
        "futex(2); kernel/futex/waitwake.c:futex_wait, futex_wake (v6.18)",
    ],
};

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_WAITERS: u32 = 2;

/// The state, in one word.
#[repr(C)]
pub(crate) struct FutexMutex<W = AtomicU32> {
    word: W,
}

impl<W: FutexWord> RawLock for FutexMutex<W> {
    /// Private or shared futexes.
    type Local = Sharing;

    note::points!("lock-contention: futex-mutex", 4);

    fn free() -> Self {
        FutexMutex { word: W::new(FREE) }
    }

    fn local(worker: &Worker) -> Sharing {
        worker.sharing
    }

    #[inline(always)]
    fn acquire(&self, sharing: &mut Sharing, stopped: &impl Fn() -> bool) -> Acquired {
        match self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Acquired::Uncontended,
            Err(seen) => self.wait(seen, *sharing, stopped),
        }
    }

    #[inline(always)]
    fn release(&self, sharing: &mut Sharing) {
        let before = self.word.swap(FREE, Ordering::Release);
        Self::at_released();
        if before == HELD_WITH_WAITERS {
            self.word.wake_one(*sharing);
        }
    }
}

impl<W: FutexWord> FutexMutex<W> {
    /// Marks the lock and sleeps until it is ours. A worker that came this way always leaves the
    /// mark behind, because it cannot know whether others still sleep.
    #[cold]
    fn wait(&self, seen: u32, sharing: Sharing, stopped: &impl Fn() -> bool) -> Acquired {
        Self::at_waiting();
        let mut state = seen;
        if state != HELD_WITH_WAITERS {
            state = self.word.swap(HELD_WITH_WAITERS, Ordering::Acquire);
        }
        while state != FREE {
            if stopped() {
                // The one that is woken and leaves must not keep the wake-up from the others.
                self.word.wake_one(sharing);
                return Acquired::Stopped;
            }
            self.word.wait(HELD_WITH_WAITERS, sharing);
            state = self.word.swap(HELD_WITH_WAITERS, Ordering::Acquire);
        }
        Self::at_acquired();
        Acquired::AfterWaiting
    }
}
