//! The word of a mutex, and what each thread does to it.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | `LOCKED` | the lock is held, or reserved by `GRANTED` |
//! | 1 | `GRANTED` | with `LOCKED`: the holder has left, and a woken thread may take the lock |
//! | 2 | `WOKEN` | a thread was woken for the lock and has not arrived yet; a hint |
//! | 3–9 | – | with `WOKEN`: how often the lock was freed since; bit 9 is `LATE` |
//! | 10–30 | – | zero |
//! | 31 | `SLEEPERS` | threads may sleep on the word that no wake-up is under way to; where the kernel has `FUTEX_WAITERS`, so that tools know it |
//!
//! Zero is a free lock, and so is any word without `LOCKED`. The table is a contract with `holdfast.h`, and with other processes where the lock is shared.
//!
//! What keeps every wake-up: a thread sleeps only on a word with `LOCKED` and `SLEEPERS`. The thread that frees the lock clears
//! `SLEEPERS` in the same step and wakes one thread, which sets it again before it takes the lock or sleeps. So while one
//! thread sleeps, either the bit is set and the next release sees it, or a woken thread is on its way.
//!
//! What keeps CPUs from standing idle: a woken thread may wait for its CPU behind others, for a slice, and nothing says whether more sleep.
//! `WOKEN` stands until it arrives. Once in 64 releases meanwhile the holder reads the clock. After 2 ms it wakes another one, which may
//! have a CPU, or hands the lock over.
//!
//! What bounds barging: once in an interval the holder of a lock with sleepers hands it over. It clears `SLEEPERS`, wakes a thread while it
//! holds the lock, and leaves `LOCKED` and `GRANTED` behind, which no newcomer takes. If `SLEEPERS` stands there again, the
//! woken thread may sleep again, and the holder frees the lock as always. Sleepers are woken in the order in which they fell
//! asleep (kernel/futex/core.c: `__futex_queue`).

use crate::futex::{ANY, Woke, Word};
use crate::note::mutex_point;
use crate::sharing::{Private, Shared, Sharing};
use crate::spin::{self, LOOKS, LOOKS_OF_MANY, Late};
use crate::time::Deadline;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LOCKED: u32 = 1;
const GRANTED: u32 = 2;
const WOKEN: u32 = 1 << 2;
const ONE_RELEASE: u32 = if cfg!(loom) { LATE } else { 1 << 3 };
const LATE: u32 = 1 << 9;
/// What stands in the word while a woken thread has not arrived.
const ARRIVES: u32 = 0x3fc;
const SLEEPERS: u32 = 1 << 31;

/// A mutex without a value: four bytes, zero when free.
///
/// `S` says whether waiters of several processes meet at it ([`Private`](crate::Private), [`Shared`](crate::Shared)). The memory
/// of a `RawMutex<Shared>` may be mapped by several processes, written in Rust or in C (`holdfast_mutex_t`). Zeroed memory is a
/// free lock.
///
/// It does not know its holder: a thread that locks it twice waits for ever, and the death of a process that holds it is not
/// noticed ([`RobustMutex`](crate::RobustMutex) notices).
#[repr(transparent)]
pub struct RawMutex<S: Sharing = Private> {
    word: Word,
    sharing: PhantomData<S>,
}

/// What a waiter knows of itself.
#[derive(Default)]
struct Waiter {
    /// How often it has looked since it was awake. A lock that was seen free and lost is no reason to begin anew: with many
    /// waiters the line of the lock would serve their first looks alone.
    looks: u32,
    /// It used up a wake-up, so it owes the bit `SLEEPERS` to those that still sleep.
    was_woken: bool,
}

impl<S: Sharing> RawMutex<S> {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RawMutex { word: Word::new(0), sharing: PhantomData }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        RawMutex { word: Word::new(0), sharing: PhantomData }
    }

    /// Takes the lock. Sleeps where another thread holds it for longer than some microseconds.
    #[inline]
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn lock(&self) {
        #[cfg(feature = "debug")]
        super::debug::before_lock(self.word.address(), self.is_locked());
        // One instruction takes a free lock, with any other bits in the word.
        if self.word.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            mutex_point!(waiting);
            self.wait(None);
        }
        self.has_taken();
    }

    /// Takes the lock if it is free.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn try_lock(&self) -> bool {
        let is_ours = self.word.load(Relaxed) & LOCKED == 0 && self.word.fetch_or(LOCKED, Acquire) & LOCKED == 0;
        if is_ours {
            self.has_taken();
        }
        is_ours
    }

    /// Takes the lock, or returns `false` when `deadline` passes first.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn lock_until(&self, deadline: &Deadline) -> bool {
        if self.word.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            mutex_point!(waiting);
            if !self.wait(Some(deadline)) {
                mutex_point!(waiting_no_longer);
                return false;
            }
        }
        self.has_taken();
        true
    }

    /// The calling thread has it now.
    #[inline(always)]
    #[cfg_attr(feature = "debug", track_caller)]
    fn has_taken(&self) {
        mutex_point!(acquired);
        #[cfg(feature = "debug")]
        super::debug::took(self.word.address());
    }

    /// True if it is held. True only for the moment of the look.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline]
    #[cfg_attr(feature = "debug", track_caller)]
    pub unsafe fn unlock(&self) {
        #[cfg(feature = "debug")]
        super::debug::gives(self.word.address(), self.is_locked());
        // The word is touched by one atomic operation and not after it: the next holder may free the memory of the lock.
        // An exchange is shorter than a compare-exchange. A waiter may have set SLEEPERS since the look.
        let word = self.word.load(Relaxed);
        let must_wake = if word == LOCKED {
            self.word.swap(0, Release) != LOCKED
        } else if word & (SLEEPERS | LATE) == 0 {
            // Of a word that was forged, or given back twice, nothing but the hints is kept.
            self.word.swap((word & ARRIVES) + ONE_RELEASE, Release) & SLEEPERS != 0
        } else {
            self.unlock_with_waiters(word)
        };
        mutex_point!(released);
        if must_wake {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        self.word.wake::<S>(1, ANY);
    }

    /// `SLEEPERS`, which only the holder clears, or `LATE` is set. Returns whether a sleeper must be woken.
    #[cold]
    fn unlock_with_waiters(&self, word: u32) -> bool {
        let address = self.word.address();
        let left = match spin::lateness(address, word & SLEEPERS != 0) {
            Late::No => WOKEN,
            // Woken before the lock is free, because it must not be touched after that.
            Late::WakeAnother if self.word.wake::<S>(1, ANY) > 0 => WOKEN,
            Late::WakeAnother => 0,
            Late::HandOver if self.hand_over() => return false,
            Late::HandOver => WOKEN,
        };
        self.word.swap(left, Release) & SLEEPERS != 0
    }

    /// Wakes a thread and hands the lock to it: `WOKEN` alone is no promise that there is one. Returns whether the lock is a woken thread's.
    fn hand_over(&self) -> bool {
        self.word.swap(LOCKED | WOKEN, Relaxed);
        self.word.wake::<S>(1, ANY) > 0
            && self.word.compare_exchange(LOCKED | WOKEN, LOCKED | WOKEN | GRANTED, Release, Relaxed).is_ok()
    }

    /// Waits. Returns whether the lock was taken before the deadline.
    #[cold]
    fn wait(&self, until: Option<&Deadline>) -> bool {
        let mut me = Waiter::default();
        loop {
            let word = self.look(&mut me);
            if let Some(new) = me.take(word) {
                if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                    if word & GRANTED != 0 {
                        spin::was_handed_over(self.word.address());
                    }
                    return true;
                }
                continue;
            }
            let new = (word | SLEEPERS) & !me.arrives();
            if new != word && self.word.compare_exchange(word, new, Relaxed, Relaxed).is_err() {
                continue;
            }
            let sleeping = spin::sleeping(self.word.address());
            let woke = self.word.wait::<S>(new, ANY, until);
            drop(sleeping);
            match woke {
                Woke::ByAnother => me = Waiter { was_woken: true, looks: 0 },
                Woke::Unasked => me = Waiter::default(),
                Woke::TimedOut => return false,
            }
        }
    }

    /// Looks until the lock can be taken or waiting no longer pays. Returns the word.
    fn look(&self, me: &mut Waiter) -> u32 {
        let mut word = self.word.load(Relaxed);
        let mut one_of_few = None;
        // Of a lock of several processes, sleepers of the others are not known.
        let longer = |looks| S::FUTEX_FLAG != Shared::FUTEX_FLAG && spin::looks_longer(self.word.address(), looks);
        while me.looks < LOOKS || longer(me.looks) {
            // A lock that is handed over is not for this one.
            if me.take(word).is_some() || word & GRANTED != 0 {
                break;
            }
            if me.looks >= LOOKS_OF_MANY && one_of_few.is_none() {
                one_of_few = spin::one_of_few(self.word.address());
                if one_of_few.is_none() {
                    break;
                }
            }
            spin::pause(me.looks);
            me.looks += 1;
            word = self.word.load(Relaxed);
        }
        if me.looks > LOOKS {
            spin::looked_longer(self.word.address(), me.take(word).is_some());
        }
        word
    }
}

impl Waiter {
    /// What the word becomes when this waiter takes the lock, if it may.
    fn take(&self, word: u32) -> Option<u32> {
        let may = word & LOCKED == 0 || self.was_woken && word & GRANTED != 0;
        let owed = if self.was_woken { SLEEPERS } else { 0 };
        may.then_some((word | LOCKED | owed) & !GRANTED & !self.arrives())
    }

    /// The bits that a woken thread clears.
    fn arrives(&self) -> u32 {
        if self.was_woken { ARRIVES } else { 0 }
    }
}

impl<S: Sharing> Default for RawMutex<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sharing> core::fmt::Debug for RawMutex<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RawMutex").field("is_locked", &self.is_locked()).finish()
    }
}
