//! Test-and-test-and-set, by what a waiter does between two looks at the word.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, RawLock, Turns, Unnamed, Word, Worker};
use crate::record::NamedBy;
use crate::{arch, note};
use holdup_model::{Availability, Meta};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// With the instruction that compilers give for a spin loop.
pub const TTAS: Algorithm = entry::<Pause>(&Meta {
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

/// With nothing.
pub const TTAS_NO_PAUSE: Algorithm = entry::<Nothing>(&Meta {
    id: "ttas-no-pause",
    summary: "test-and-test-and-set without a pause",
    docs: "As ttas, with nothing between two looks: the shortest turn, which takes the most of what a core has from the \
           other thread of the core, and of its power.",
    references: &[
        "Intel 64 and IA-32 Architectures Optimization Reference Manual, Pause Latency in Skylake Client Microarchitecture",
    ],
})
.only_real(NOT_MEASURED);

/// With `yield`.
pub const TTAS_YIELD: Algorithm = entry::<Yield>(&Meta {
    id: "ttas-yield",
    summary: "test-and-test-and-set with yield (arm64)",
    docs: "As ttas with yield, a hint for cores with several threads; most arm64 cores have one and take it as nop, so \
           that the turn is about as short as without a pause.",
    references: &["Arm Architecture Reference Manual for A-profile, DDI 0487: YIELD"],
})
.only_real(NOT_MEASURED)
.where_available(on_arm64);

/// With `wfe`.
pub const TTAS_WFE: Algorithm = entry::<Event>(&Meta {
    id: "ttas-wfe",
    summary: "test-and-test-and-set with wfe (arm64)",
    docs: "As ttas with a load that claims the line (ldaxr) and wfe, which stops the core until another one writes to the \
           line, an interrupt comes or the kernel's event stream ticks (every 100 \u{b5}s where it is on). The line is \
           read once for each write. The core that waits is still taken: to the scheduler this is spinning.",
    references: &[
        "Arm Architecture Reference Manual for A-profile, DDI 0487: Wait for Event",
        "arch/arm64/include/asm/cmpxchg.h:__cmpwait (v6.18); drivers/clocksource/arm_arch_timer.c: event stream (v6.18)",
    ],
})
.only_real(NOT_MEASURED)
.where_available(on_arm64);

/// What it takes to simulate a turn.
const NOT_MEASURED: &str = "how long its turn takes was measured on no machine of the simulator";

const fn entry<T: Turn>(meta: &'static Meta) -> Algorithm {
    Algorithm::of::<Ttas<T>>(meta, Properties { fair: false, may_sleep: false, needs_kernel: false }).named_by::<Ttas<
        T,
        AtomicU32,
        Named,
    >>()
}

fn on_arm64() -> Availability {
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
struct Nothing;
struct Yield;
struct Event;

impl Turn for Pause {
    note::points!("lock-contention: ttas", 13);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {
        W::pause();
    }
}

impl Turn for Nothing {
    note::points!("lock-contention: ttas-no-pause", 14);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {}
}

impl Turn for Yield {
    note::points!("lock-contention: ttas-yield", 15);
    #[inline(always)]
    fn pass<W: Word>(_word: &W) {
        arch::yield_turn();
    }
}

impl Turn for Event {
    note::points!("lock-contention: ttas-wfe", 16);
    #[inline(always)]
    fn pass<W: Word>(word: &W) {
        word.wait_while_held();
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
