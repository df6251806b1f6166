//! PostgreSQL's spinlock with its adaptive delay.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, Random, RawLock, Turns, Unnamed, Word, Worker};
use crate::record::NamedBy;
use crate::{note, syscall};
use holdup_model::Meta;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<SLock>(&META, Properties { fair: false, may_sleep: true, needs_kernel: false })
        .named_by::<SLock<AtomicU32, Named>>();

const META: Meta = Meta {
    id: "postgres-s-lock",
    summary: "PostgreSQL's s_lock: adaptive spinning, then sleeps of 1 ms to 1 s",
    docs: "Test-and-test-and-set that spins for spins_per_delay turns and then sleeps. spins_per_delay is adapted in \
           each worker as in a backend: it begins at 100, grows by 100 up to 1000 after an acquisition that waited \
           without sleeping and shrinks by 1 down to 10 after one that slept. The first sleep is 1 ms; each further \
           one of the same acquisition is longer by a random share of itself, and one beyond 1 s begins again at \
           1 ms. So every waiter that uses up its spins behind a preempted holder loses at least 1 ms. PostgreSQL \
           panics (stuck spinlock) after 1000 sleeps; here the trial is void. Two things differ: a sleep of more than \
           50 ms is taken in pieces so that the end of a trial is seen, and there is no shared estimate, which \
           PostgreSQL hands on only between backends that end and begin.",
    references: &[
        "PostgreSQL src/backend/storage/lmgr/s_lock.c:s_lock, perform_spin_delay, finish_spin_delay (15 to 18)",
        "PostgreSQL src/include/storage/s_lock.h: TAS_SPIN, SPIN_DELAY, DEFAULT_SPINS_PER_DELAY (15 to 18)",
    ],
};

/// `MIN_SPINS_PER_DELAY`.
const MIN_SPINS_PER_DELAY: u32 = 10;
/// `MAX_SPINS_PER_DELAY`.
const MAX_SPINS_PER_DELAY: u32 = 1000;
/// `DEFAULT_SPINS_PER_DELAY`.
const DEFAULT_SPINS_PER_DELAY: u32 = 100;
/// `NUM_DELAYS`: after as many sleeps the lock is called stuck.
const NUM_DELAYS: u32 = 1000;
/// `MIN_DELAY_USEC`.
const MIN_DELAY_US: u32 = 1_000;
/// `MAX_DELAY_USEC`.
const MAX_DELAY_US: u32 = 1_000_000;
/// A longer sleep is taken in pieces of this length.
const LONGEST_PIECE: Duration = Duration::from_millis(50);

/// What a waiter does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Try again.
    Spin,
    /// Sleep for as many microseconds, then try again.
    Sleep(u32),
    /// Give up.
    Stuck,
}

/// The delay of one acquisition. Pure: time and randomness come from outside.
#[derive(Debug, Default)]
struct Delay {
    spins: u32,
    delays: u32,
    /// The next sleep, in microseconds; 0 while none was needed.
    current_us: u32,
}

impl Delay {
    /// One failed try. `share` gives a random share in [0, 1) and is asked once for each sleep.
    #[inline]
    fn turn(&mut self, spins_per_delay: u32, share: impl FnOnce() -> f64) -> Turn {
        self.spins += 1;
        if self.spins < spins_per_delay {
            return Turn::Spin;
        }
        self.delays += 1;
        if self.delays > NUM_DELAYS {
            return Turn::Stuck;
        }
        if self.current_us == 0 {
            self.current_us = MIN_DELAY_US;
        }
        let sleep_us = self.current_us;
        // Rounded to the nearest microsecond, as the original does by adding one half before it cuts.
        self.current_us += (f64::from(sleep_us) * share() + 0.5) as u32;
        if self.current_us > MAX_DELAY_US {
            self.current_us = MIN_DELAY_US;
        }
        self.spins = 0;
        Turn::Sleep(sleep_us)
    }

    /// The next acquisition's `spins_per_delay`, now that this one has the lock.
    #[inline]
    fn finish(&self, spins_per_delay: u32) -> u32 {
        if self.current_us == 0 {
            (spins_per_delay + 100).min(MAX_SPINS_PER_DELAY)
        } else {
            (spins_per_delay - 1).max(MIN_SPINS_PER_DELAY)
        }
    }
}

/// 0 is free, anything else is held.
#[repr(C)]
pub(crate) struct SLock<W = AtomicU32, N = Unnamed> {
    word: W,
    naming: PhantomData<N>,
}

/// What a backend keeps for itself.
pub(crate) struct Backend<N: Naming = Unnamed> {
    spins_per_delay: u32,
    random: Random,
    name: N::Name,
}

impl<W: Word, N: Naming> RawLock for SLock<W, N> {
    type Local = Backend<N>;
    const NAMED_BY: NamedBy = N::NAMED_BY;

    note::points!("lock-contention: postgres-s-lock", 3);

    fn free() -> Self {
        SLock { word: W::new(0), naming: PhantomData }
    }

    fn local(worker: &Worker) -> Backend<N> {
        let name = N::of(worker);
        Backend { spins_per_delay: DEFAULT_SPINS_PER_DELAY, random: Random::new(worker.seed), name }
    }

    #[inline(always)]
    fn acquire(&self, backend: &mut Backend<N>, stopped: &impl Fn() -> bool) -> Acquired {
        if N::take(backend.name, &self.word) {
            return Acquired::Uncontended;
        }
        self.wait(backend, stopped)
    }

    #[inline(always)]
    fn release(&self, _backend: &mut Backend<N>) {
        self.word.store(0, Ordering::Release);
        Self::at_released();
    }
}

impl<W: Word, N: Naming> SLock<W, N> {
    /// TAS_SPIN: the exchange is tried only when a read saw the lock free.
    #[inline(always)]
    fn try_spinning(&self, name: N::Name) -> bool {
        self.word.load(Ordering::Relaxed) == 0 && N::take(name, &self.word)
    }

    fn wait(&self, backend: &mut Backend<N>, stopped: &impl Fn() -> bool) -> Acquired {
        Self::at_waiting();
        let mut delay = Delay::default();
        let mut turns = Turns::default();
        while !self.try_spinning(backend.name) {
            W::pause();
            match delay.turn(backend.spins_per_delay, || backend.random.share()) {
                Turn::Spin if turns.over(stopped) => return Acquired::Stopped,
                Turn::Sleep(us) if !sleep(Duration::from_micros(us.into()), stopped) => return Acquired::Stopped,
                Turn::Spin | Turn::Sleep(_) => {}
                Turn::Stuck => return Acquired::Stuck,
            }
        }
        Self::at_acquired();
        backend.spins_per_delay = delay.finish(backend.spins_per_delay);
        Acquired::AfterWaiting
    }
}

/// Sleeps; a long sleep in pieces. Returns whether it slept to the end.
#[inline(always)]
fn sleep(whole: Duration, stopped: &impl Fn() -> bool) -> bool {
    let mut left = whole;
    loop {
        let piece = left.min(LONGEST_PIECE);
        // It continues after a signal, where pg_usleep would return early; workers get no signals.
        syscall::sleep(piece);
        left -= piece;
        if stopped() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns of one acquisition until its n-th sleep, as (spins before it, sleep in µs).
    fn sleeps(spins_per_delay: u32, share: f64, n: usize) -> Vec<(u32, u32)> {
        let mut delay = Delay::default();
        let (mut out, mut spins) = (Vec::new(), 0);
        while out.len() < n {
            spins += 1;
            match delay.turn(spins_per_delay, || share) {
                Turn::Spin => {}
                Turn::Sleep(us) => {
                    out.push((spins, us));
                    spins = 0;
                }
                Turn::Stuck => break,
            }
        }
        out
    }

    #[test]
    fn sleeps_follow_the_written_algorithm() {
        let check = |spins, share, expect: &[(u32, u32)]| {
            assert_eq!(sleeps(spins, share, expect.len()), expect, "spins_per_delay {spins}, share {share}");
        };
        // The smallest growth is none: a share of 0 adds 0.5 µs, which is cut off.
        check(100, 0.0, &[(100, 1_000), (100, 1_000), (100, 1_000)]);
        check(10, 0.5, &[(10, 1_000), (10, 1_500), (10, 2_250), (10, 3_375), (10, 5_063), (10, 7_595)]);
        // Nearly doubling reaches 1 s at the eleventh sleep and wraps to 1 ms.
        let doubled: Vec<u32> = sleeps(1000, 1.0 - 1e-12, 12).iter().map(|s| s.1).collect();
        assert_eq!(doubled, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1, 2].map(|ms| ms * 1000));
        check(1, 0.25, &[(1, 1_000), (1, 1_250), (1, 1_563)]);
    }

    #[test]
    fn exactly_one_second_does_not_wrap_and_a_microsecond_more_does() {
        let mut delay = Delay { current_us: 500_000, ..Delay::default() };
        assert_eq!((delay.turn(1, || 1.0), delay.current_us), (Turn::Sleep(500_000), 1_000_000));
        let mut delay = Delay { current_us: 500_001, ..Delay::default() };
        assert_eq!((delay.turn(1, || 1.0), delay.current_us), (Turn::Sleep(500_001), 1_000));
    }

    #[test]
    fn the_thousandth_sleep_is_the_last() {
        assert_eq!(sleeps(10, 0.0, 2_000).len(), 1_000);
        let mut delay = Delay { delays: NUM_DELAYS - 1, ..Delay::default() };
        assert_eq!(delay.turn(1, || 0.0), Turn::Sleep(1_000));
        assert_eq!(delay.turn(1, || 0.0), Turn::Stuck);
    }

    #[test]
    fn spins_per_delay_adapts_between_10_and_1000() {
        let without = Delay::default();
        let with = Delay { current_us: MIN_DELAY_US, ..Delay::default() };
        for (delay, before, after) in [
            (&without, 10, 110),
            (&without, 100, 200),
            (&without, 899, 999),
            (&without, 900, 1000),
            (&without, 950, 1000),
            (&without, 1000, 1000),
            (&with, 1000, 999),
            (&with, 100, 99),
            (&with, 11, 10),
            (&with, 10, 10),
        ] {
            assert_eq!(delay.finish(before), after, "{before}, slept: {}", delay.current_us != 0);
        }
    }

    #[test]
    fn a_lock_that_is_never_given_back_is_stuck_after_the_last_sleep() {
        let lock = SLock::<AtomicU32> { word: AtomicU32::new(1), naming: PhantomData };
        let mut backend = SLock::<AtomicU32>::local(&Worker {
            seed: 1,
            sharing: crate::lock::Sharing::Threads,
            name: 1,
            number: None,
            places: None,
        });
        // A waiter near its end, so that the test does not take the two minutes that the real one takes.
        let mut delay = Delay { delays: NUM_DELAYS - 2, ..Delay::default() };
        let mut slept = 0;
        let end = loop {
            assert!(!lock.try_spinning(()));
            match delay.turn(backend.spins_per_delay, || backend.random.share()) {
                Turn::Sleep(_) => slept += 1,
                Turn::Spin => {}
                Turn::Stuck => break Acquired::Stuck,
            }
        };
        assert_eq!((end, slept), (Acquired::Stuck, 2));
        assert_eq!(lock.acquire(&mut backend, &|| true), Acquired::Stopped);
    }
}
