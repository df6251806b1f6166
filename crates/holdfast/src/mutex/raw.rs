//! The word of a mutex, and what each thread does to it.
//!
//! | bit | name | meaning |
//! |---|---|---|
//! | 0 | `LOCKED` | the lock is held, or reserved by `GRANTED` |
//! | 1 | `SLEEPERS` | threads may sleep on the word that no wake-up is under way to |
//! | 2 | `HANDOVER` | a waiter is owed the lock: the holder must not free it, but grant it |
//! | 3 | `GRANTED` | with `LOCKED`: the holder has left, and a waiter that is owed the lock may take it |
//! | 4–31 | – | zero |
//!
//! Zero is a free lock. The table is a contract with `holdfast.h`, and with other processes where the lock is shared.
//!
//! What keeps every wake-up: a thread sleeps only on a word with `LOCKED` and `SLEEPERS`. The thread that frees the lock clears
//! `SLEEPERS` in the same step and wakes one thread, which sets it again before it takes the lock or sleeps. So while one
//! thread sleeps, either the bit is set and the next release sees it, or a woken thread is on its way.
//!
//! What bounds barging: a woken thread that finds the lock taken sets `HANDOVER`, at most once in an interval for all waiters
//! of a lock, and sleeps on another mask. The next release keeps `LOCKED` and sets `GRANTED`, so that no newcomer gets
//! in between. Waiters are woken in the order in which they fell asleep (kernel/futex/core.c: `__futex_queue`).

use crate::futex::{ANY, Woke, Word};
use crate::sharing::{Private, Sharing};
use crate::spin::{self, LOOKS, LOOKS_WOKEN};
use crate::time::Deadline;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LOCKED: u32 = 1;
const SLEEPERS: u32 = 2;
const HANDOVER: u32 = 4;
const GRANTED: u32 = 8;

/// futex masks: of a waiter that competes, and of one that is owed the lock.
const COMPETES: u32 = 1;
const IS_OWED: u32 = 2;

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
    /// It used up a wake-up, so it owes the bit `SLEEPERS` to those that still sleep.
    was_woken: bool,
    /// It has set `HANDOVER`.
    is_owed: bool,
    /// It slept before.
    has_slept: bool,
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
    pub fn lock(&self) {
        // One instruction takes a free lock, with any other bits in the word.
        if self.word.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            self.wait(None);
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    pub fn try_lock(&self) -> bool {
        self.word.load(Relaxed) & LOCKED == 0 && self.word.fetch_or(LOCKED, Acquire) & LOCKED == 0
    }

    /// Takes the lock, or returns `false` when `deadline` passes first.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    pub fn lock_until(&self, deadline: &Deadline) -> bool {
        self.word.fetch_or(LOCKED, Acquire) & LOCKED == 0 || self.wait(Some(deadline))
    }

    /// Whether it is held. True only for the moment of the look.
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & LOCKED != 0
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread holds it.
    #[inline]
    pub unsafe fn unlock(&self) {
        // The word is touched by one atomic operation and not after it: the next holder may free the memory of the lock.
        if self.word.load(Relaxed) != LOCKED {
            return self.unlock_with_waiters();
        }
        // An exchange is shorter than a compare-exchange. A waiter may have set bits since the look: SLEEPERS is cleared and one
        // woken, as `release` has it; a HANDOVER is lost, and set again by the waiter when it is awake.
        if self.word.swap(0, Release) != LOCKED {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        self.word.wake::<S>(1, ANY);
    }

    #[cold]
    fn unlock_with_waiters(&self) {
        let mut word = self.word.load(Relaxed);
        loop {
            let (new, mask) = release(word);
            match self.word.compare_exchange(word, new, Release, Relaxed) {
                Ok(_) if mask == 0 => return,
                Ok(_) => {
                    self.word.wake::<S>(1, mask);
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Waits. Returns whether the lock was taken before the deadline.
    #[cold]
    fn wait(&self, until: Option<&Deadline>) -> bool {
        let mut me = Waiter::default();
        loop {
            let word = self.look(&me);
            if let Some(new) = me.take(word) {
                if self.word.compare_exchange(word, new, Acquire, Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            me.is_owed |= me.was_woken && spin::may_hand_over(self.word.address());
            let (new, mask) = me.sleep(word);
            if new != word && self.word.compare_exchange(word, new, Relaxed, Relaxed).is_err() {
                continue;
            }
            me = Waiter { was_woken: false, has_slept: true, ..me };
            match self.word.wait::<S>(new, mask, until) {
                Woke::ByAnother => me.was_woken = true,
                Woke::Unasked => {}
                Woke::TimedOut => return self.give_up(&me),
            }
        }
    }

    /// Looks until the lock can be taken or waiting no longer pays. Returns the word.
    fn look(&self, me: &Waiter) -> u32 {
        let mut word = self.word.load(Relaxed);
        for look in 0..if me.has_slept { LOOKS_WOKEN } else { LOOKS } {
            // Where others sleep already, the lock is wanted more than it is free: a newcomer queues.
            let is_saturated = word & (HANDOVER | GRANTED) != 0 || word & SLEEPERS != 0 && !me.has_slept;
            if me.take(word).is_some() || is_saturated {
                break;
            }
            spin::pause(look);
            word = self.word.load(Relaxed);
        }
        word
    }

    /// The deadline has passed. Returns whether the lock was granted meanwhile, which cannot be given back unseen.
    fn give_up(&self, me: &Waiter) -> bool {
        let mut word = self.word.load(Relaxed);
        while me.is_owed && word & (HANDOVER | GRANTED) != 0 {
            let is_granted = word & GRANTED != 0;
            let new = if is_granted { word & !GRANTED } else { word & !HANDOVER };
            match self.word.compare_exchange(word, new, Acquire, Relaxed) {
                Ok(_) => return is_granted,
                Err(now) => word = now,
            }
        }
        false
    }
}

/// What the holder makes of the word, and whom it wakes then.
fn release(word: u32) -> (u32, u32) {
    match word {
        _ if word & HANDOVER != 0 => (word & !HANDOVER | GRANTED, IS_OWED),
        _ if word & SLEEPERS != 0 => (word & !(LOCKED | SLEEPERS), ANY),
        _ => (word & !LOCKED, 0),
    }
}

impl Waiter {
    /// What the word becomes when this waiter takes the lock, if it may.
    fn take(&self, word: u32) -> Option<u32> {
        let may = word & LOCKED == 0 || self.is_owed && word & GRANTED != 0;
        let owed = if self.was_woken { SLEEPERS } else { 0 };
        may.then_some((word | LOCKED | owed) & !GRANTED)
    }

    /// What the word becomes before this waiter sleeps, and for which wake-ups it does.
    fn sleep(&self, word: u32) -> (u32, u32) {
        if self.is_owed { (word | SLEEPERS | HANDOVER, IS_OWED) } else { (word | SLEEPERS, COMPETES) }
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
