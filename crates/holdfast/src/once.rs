//! What is done by one thread, and seen by all, in four bytes.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | not done |
//! | 1 | one thread does it |
//! | 2 | one thread does it, and others sleep until it has |
//! | 3 | done |
//!
//! The table is a contract with `holdfast.h`.

use crate::futex::{ANY, Word};
use crate::sharing::{Private, Sharing};
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const NOT_DONE: u32 = 0;
const RUNS: u32 = 1;
const RUNS_AND_AWAITED: u32 = 2;
const DONE: u32 = 3;

/// Runs something once.
///
/// ```
/// static ONCE: holdfast::Once = holdfast::Once::new();
/// ONCE.call(|| println!("the first"));
/// assert!(ONCE.is_done());
/// ```
#[repr(transparent)]
pub struct Once<S: Sharing = Private> {
    word: Word,
    sharing: PhantomData<S>,
}

impl<S: Sharing> Once<S> {
    /// Nothing was done.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Once { word: Word::new(NOT_DONE), sharing: PhantomData }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Once { word: Word::new(NOT_DONE), sharing: PhantomData }
    }

    /// True if it was done. What it wrote is seen then.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.word.load(Acquire) == DONE
    }

    /// Runs `f`, or waits until another thread has run its own. After a panic of `f` the next caller runs its own. A call inside
    /// `f` waits for ever.
    #[inline]
    pub fn call(&self, f: impl FnOnce()) {
        if !self.is_done() && self.begin() {
            // What stays when `f` panics.
            let mut end = End { once: self, to: NOT_DONE };
            f();
            end.to = DONE;
        }
    }

    /// Returns whether the caller is the one; else it was done.
    #[cold]
    fn begin(&self) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            let new = match word {
                NOT_DONE => RUNS,
                RUNS => RUNS_AND_AWAITED,
                RUNS_AND_AWAITED => {
                    self.word.wait::<S>(RUNS_AND_AWAITED, ANY, None);
                    word = self.word.load(Acquire);
                    continue;
                }
                // A forged word counts as done: waiting would be for ever.
                _ => return false,
            };
            match self.word.compare_exchange(word, new, Acquire, Acquire) {
                Ok(_) if word == NOT_DONE => return true,
                Ok(_) => word = new,
                Err(now) => word = now,
            }
        }
    }
}

struct End<'a, S: Sharing> {
    once: &'a Once<S>,
    to: u32,
}

impl<S: Sharing> Drop for End<'_, S> {
    fn drop(&mut self) {
        if self.once.word.swap(self.to, Release) == RUNS_AND_AWAITED {
            self.once.word.wake::<S>(u32::MAX, ANY);
        }
    }
}

impl<S: Sharing> Default for Once<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sharing> core::fmt::Debug for Once<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Once").field("is_done", &(self.word.load(Relaxed) == DONE)).finish()
    }
}
