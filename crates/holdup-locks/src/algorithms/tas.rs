//! Test-and-set: one atomic exchange in a loop.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, RawLock, Turns, Unnamed, Word, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Tas>(&META, Properties { fair: false, may_sleep: false, needs_kernel: false })
        .named_by::<Tas<AtomicU32, Named>>();

const META: Meta = Meta {
    id: "tas",
    summary: "test-and-set: an atomic exchange in a loop, nothing else",
    docs: "Every waiter writes the lock's cache line at every turn, so the holder's release has to win the line \
           from all of them. Never sleeps: behind a preempted holder, every waiter burns its whole time slice. \
           The simplest lock there is, and the worst case that the others are compared with.",
    references: &[
        "T. E. Anderson, The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, section 3.1",
        "J. Mellor-Crummey and M. Scott, Algorithms for Scalable Synchronization, ACM TOCS 9(1), 1991, section 2.1",
    ],
};

/// 0 is free, anything else is held.
#[repr(C)]
pub(crate) struct Tas<W = AtomicU32, N = Unnamed> {
    word: W,
    naming: PhantomData<N>,
}

impl<W: Word, N: Naming> RawLock for Tas<W, N> {
    type Local = N::Name;
    const NAMED_BY: NamedBy = N::NAMED_BY;

    note::points!("lock-contention: tas", 0);

    fn free() -> Self {
        Tas { word: W::new(0), naming: PhantomData }
    }

    fn local(worker: &Worker) -> N::Name {
        N::of(worker)
    }

    #[inline(always)]
    fn acquire(&self, name: &mut N::Name, stopped: &impl Fn() -> bool) -> Acquired {
        if N::take(*name, &self.word) {
            return Acquired::Uncontended;
        }
        let mut turns = Turns::default();
        loop {
            W::pause();
            if N::take(*name, &self.word) {
                return Acquired::AfterWaiting;
            }
            if turns.over(stopped) {
                return Acquired::Stopped;
            }
        }
    }

    #[inline(always)]
    fn release(&self, _name: &mut N::Name) {
        self.word.store(0, Ordering::Release);
        Self::at_released();
    }
}
