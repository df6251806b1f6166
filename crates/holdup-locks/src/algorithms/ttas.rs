//! Test-and-test-and-set, by what a waiter does between two looks at the word.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, RawLock, Turns, Unnamed, Word, Worker};
use crate::record::NamedBy;
use crate::{arch, note};
use holdup_model::{Availability, Meta};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm = entry::<Pause>(&Meta {
    id: "ttas",
    summary: "test-and-test-and-set with pause (x86) or isb (arm64)",
    docs: "A waiter only reads until the lock looks free and tries the exchange then, so that the line stays shared \
           while the lock is held; when it is given back, all waiters try. The turn is what Rust's spin_loop and \
           PostgreSQL's SPIN_DELAY are: pause on x86, isb on arm64. Never sleeps: behind a preempted holder, every \
           waiter burns its whole time slice.",
    references: &[
        "T. E. Anderson, The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, section 3.2",
        "PostgreSQL src/include/storage/s_lock.h: spin_delay (x86: rep; nop, arm64: isb)",
    ],
});

/// What it takes to simulate a turn.
pub(super) const NOT_MEASURED: &str = "how long its turn takes was measured on no machine of the simulator";

/// The catalogue entry of a turn.
pub(super) const fn entry<T: Turn>(meta: &'static Meta) -> Algorithm {
    Algorithm::of::<Ttas<T>>(meta, Properties { fair: false, may_sleep: false, needs_kernel: false }).named_by::<Ttas<
        T,
        AtomicU32,
        Named,
    >>()
}

/// Where the turns of arm64 are.
pub(super) fn on_arm64() -> Availability {
    match arch::HAS_TURNS_OF_ARM64 {
        true => Availability::Ready,
        false => Availability::unavailable_but(
            "the instruction is one of arm64",
            "take ttas, which has the pause of this machine, or run it on an arm64 machine",
        ),
    }
}

/// What a waiter does between two looks at the word.
pub(crate) trait Turn: Sync {
    fn pass<W: Word>(word: &W);
    fn at_acquired();
    fn at_released();
    fn at_waiting();
    fn at_waiting_no_longer();
}

pub(crate) struct Pause;

impl Turn for Pause {
    note::points!("lock-contention: ttas", 13);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {
        W::pause();
    }
}

/// 0 is free, anything else is held.
#[repr(C)]
pub(crate) struct Ttas<T, W = AtomicU32, N = Unnamed> {
    word: W,
    turn: PhantomData<(T, N)>,
}

impl<T: Turn, W: Word, N: Naming> RawLock for Ttas<T, W, N> {
    type Local = N::Name;
    const NAMED_BY: NamedBy = N::NAMED_BY;

    #[inline(always)]
    fn at_acquired() {
        T::at_acquired();
    }
    #[inline(always)]
    fn at_released() {
        T::at_released();
    }
    #[inline(always)]
    fn at_waiting() {
        T::at_waiting();
    }
    #[inline(always)]
    fn at_waiting_no_longer() {
        T::at_waiting_no_longer();
    }

    fn free() -> Self {
        Ttas { word: W::new(0), turn: PhantomData }
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
            while self.word.load(Ordering::Relaxed) != 0 {
                if turns.over(stopped) {
                    return Acquired::Stopped;
                }
                T::pass(&self.word);
            }
            if N::take(*name, &self.word) {
                return Acquired::AfterWaiting;
            }
        }
    }

    #[inline(always)]
    fn release(&self, _name: &mut N::Name) {
        self.word.store(0, Ordering::Release);
        Self::at_released();
    }
}
