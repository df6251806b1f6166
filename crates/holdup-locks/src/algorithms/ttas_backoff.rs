//! Test-and-test-and-set with bounded exponential back-off.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, Random, RawLock, Turns, Unnamed, Word, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<TtasBackoff>(&META, Properties { fair: false, may_sleep: false, needs_kernel: false })
        .named_by::<TtasBackoff<AtomicU32, Named>>();

const META: Meta = Meta {
    id: "ttas-backoff",
    summary: "test-and-test-and-set with bounded exponential back-off",
    docs: "A waiter only reads until the lock looks free and tries the exchange then. After each exchange that was \
           lost it stays away for a random number of pause instructions, up to a bound that doubles from 4 to 1024. \
           Reading keeps the line shared, backing off spreads the waiters in time. Never sleeps: behind a preempted \
           holder, every waiter still burns its whole time slice.",
    references: &[
        "T. E. Anderson, The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, sections 3.2 and 3.3",
        "J. Mellor-Crummey and M. Scott, Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, section 2.1",
    ],
};

/// The first bound of the back-off, in pause instructions.
const FIRST_BOUND: u32 = 4;
/// The largest bound of the back-off, in pause instructions.
const LAST_BOUND: u32 = 1024;

/// 0 is free, anything else is held.
#[repr(C)]
pub(crate) struct TtasBackoff<W = AtomicU32, N = Unnamed> {
    word: W,
    naming: PhantomData<N>,
}

impl<W: Word, N: Naming> RawLock for TtasBackoff<W, N> {
    type Local = (Random, N::Name);
    const NAMED_BY: NamedBy = N::NAMED_BY;

    note::points!("lock-contention: ttas-backoff", 1);

    fn free() -> Self {
        TtasBackoff { word: W::new(0), naming: PhantomData }
    }

    fn local(worker: &Worker) -> Self::Local {
        (Random::new(worker.seed), N::of(worker))
    }

    #[inline(always)]
    fn acquire(&self, (random, name): &mut Self::Local, stopped: &impl Fn() -> bool) -> Acquired {
        if N::take(*name, &self.word) {
            return Acquired::Uncontended;
        }
        self.wait(random, *name, stopped)
    }

    #[inline(always)]
    fn release(&self, _local: &mut Self::Local) {
        self.word.store(0, Ordering::Release);
        Self::at_released();
    }
}

impl<W: Word, N: Naming> TtasBackoff<W, N> {
    fn wait(&self, random: &mut Random, name: N::Name, stopped: &impl Fn() -> bool) -> Acquired {
        Self::at_waiting();
        let mut turns = Turns::default();
        let mut bound = FIRST_BOUND;
        loop {
            for _ in 0..=random.bits() % u64::from(bound) {
                W::pause();
            }
            while self.word.load(Ordering::Relaxed) != 0 {
                if turns.over(stopped) {
                    return Acquired::Stopped;
                }
                W::pause();
            }
            if N::take(name, &self.word) {
                Self::at_acquired();
                return Acquired::AfterWaiting;
            }
            bound = (bound * 2).min(LAST_BOUND);
        }
    }
}
