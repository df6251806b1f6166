//! The two words of a read-write lock.
//!
//! | word | bits | name | meaning |
//! |---|---|---|---|
//! | 0 | 0–29 | readers | how many hold it; all ones: a writer does |
//! | 0 | 30 | `READERS_WAIT` | readers may sleep on word 0 |
//! | 0 | 31 | `WRITERS_WAIT` | writers may sleep on word 1 |
//! | 1 | 0–31 | – | counts wake-ups of writers; wraps |
//!
//! Two zero words are a free lock. The table is a contract with `holdfast.h`.
//!
//! Writers that wait come before readers that come later, so that readers cannot keep them out. A writer that leaves wakes another
//! writer if one waits: readers can be kept out by an endless row of writers.

use crate::futex::{ANY, Woke, Word};
use crate::note::{read_point, write_point};
use crate::sharing::{Private, Sharing};
use crate::spin::{self, LOOKS};
use crate::time::Deadline;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const READERS: u32 = (1 << 30) - 1;
const WRITTEN: u32 = READERS;
const MOST_READERS: u32 = READERS - 1;
const READERS_WAIT: u32 = 1 << 30;
const WRITERS_WAIT: u32 = 1 << 31;

/// A read-write lock without a value: eight bytes, zero when free.
///
/// As for [`RawMutex`](crate::RawMutex): `S` says who meets at it, the layout is that of `holdfast_rwlock_t`, and it does not know
/// its holders.
#[repr(C)]
pub struct RawRwLock<S: Sharing = Private> {
    state: Word,
    writers: Word,
    sharing: PhantomData<S>,
}

fn is_free(state: u32) -> bool {
    state & READERS == 0
}

/// True if a reader may enter. A reader that slept may pass writers that wait: it was let in by one that left.
fn may_read(state: u32, has_slept: bool) -> bool {
    state & READERS < MOST_READERS && (has_slept || state & (READERS_WAIT | WRITERS_WAIT) == 0)
}

impl<S: Sharing> RawRwLock<S> {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RawRwLock { state: Word::new(0), writers: Word::new(0), sharing: PhantomData }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        RawRwLock { state: Word::new(0), writers: Word::new(0), sharing: PhantomData }
    }

    /// Takes the lock together with other readers.
    #[inline]
    pub fn lock_shared(&self) {
        if !self.try_lock_shared() {
            read_point!(waiting);
            self.wait_to_read(None);
            read_point!(acquired);
        }
    }

    /// Takes the lock together with other readers if no writer holds it or waits for it.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    pub fn try_lock_shared(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        while may_read(state, false) {
            match self.state.compare_exchange(state, state + 1, Acquire, Relaxed) {
                Ok(_) => {
                    read_point!(acquired);
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes the lock together with other readers, or returns `false` when `deadline` passes first.
    #[must_use = "a lock that was taken must be given back"]
    pub fn lock_shared_until(&self, deadline: &Deadline) -> bool {
        self.try_lock_shared() || self.wait_to_read(Some(deadline))
    }

    /// Takes the lock alone.
    #[inline]
    pub fn lock_exclusive(&self) {
        if self.state.compare_exchange(0, WRITTEN, Acquire, Relaxed).is_err() {
            write_point!(waiting);
            self.wait_to_write(None);
        }
        write_point!(acquired);
    }

    /// Takes the lock alone if it is free.
    #[inline]
    #[must_use = "a lock that was taken must be given back"]
    pub fn try_lock_exclusive(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        while is_free(state) {
            match self.state.compare_exchange(state, state | WRITTEN, Acquire, Relaxed) {
                Ok(_) => {
                    write_point!(acquired);
                    return true;
                }
                Err(now) => state = now,
            }
        }
        false
    }

    /// Takes the lock alone, or returns `false` when `deadline` passes first.
    #[must_use = "a lock that was taken must be given back"]
    pub fn lock_exclusive_until(&self, deadline: &Deadline) -> bool {
        self.try_lock_exclusive() || self.wait_to_write(Some(deadline))
    }

    /// True if anyone holds it. True only for the moment of the look.
    pub fn is_locked(&self) -> bool {
        !is_free(self.state.load(Relaxed))
    }

    /// True if a writer holds it. True only for the moment of the look.
    pub fn is_locked_exclusive(&self) -> bool {
        self.state.load(Relaxed) & READERS == WRITTEN
    }

    /// Gives back a lock that was taken together with others.
    ///
    /// # Safety
    /// The calling thread has taken it so.
    #[inline]
    pub unsafe fn unlock_shared(&self) {
        let state = self.state.fetch_sub(1, Release) - 1;
        read_point!(released);
        // Readers may wait as well: one that was woken passes those that still sleep.
        if is_free(state) && state != 0 {
            self.wake(state);
        }
    }

    /// Gives back a lock that was taken alone.
    ///
    /// # Safety
    /// The calling thread has taken it so.
    #[inline]
    pub unsafe fn unlock_exclusive(&self) {
        let state = self.state.fetch_sub(WRITTEN, Release) - WRITTEN;
        write_point!(released);
        if state & (WRITERS_WAIT | READERS_WAIT) != 0 {
            self.wake(state);
        }
    }

    /// The lock is free and others wait. Clears a bit before it wakes, so that those who come later set it again.
    #[cold]
    fn wake(&self, mut state: u32) {
        if state == WRITERS_WAIT {
            match self.state.compare_exchange(state, 0, Relaxed, Relaxed) {
                Ok(_) => {
                    self.wake_writer();
                    return;
                }
                Err(now) => state = now,
            }
        }
        if state == READERS_WAIT | WRITERS_WAIT {
            // READERS_WAIT stays: readers are woken when the writer leaves, or now if no writer slept.
            if self.state.compare_exchange(state, READERS_WAIT, Relaxed, Relaxed).is_err() {
                // Another has taken the lock: it wakes when it leaves.
                return;
            }
            if self.wake_writer() {
                return;
            }
            state = READERS_WAIT;
        }
        if state == READERS_WAIT && self.state.compare_exchange(state, 0, Relaxed, Relaxed).is_ok() {
            self.state.wake::<S>(u32::MAX, ANY);
        }
    }

    /// Returns whether a writer was asleep.
    fn wake_writer(&self) -> bool {
        self.writers.fetch_add(1, Release);
        self.writers.wake::<S>(1, ANY) > 0
    }

    #[cold]
    fn wait_to_read(&self, until: Option<&Deadline>) -> bool {
        let mut has_slept = false;
        loop {
            let mut state = self.look(|state| may_read(state, has_slept) || state & (READERS_WAIT | WRITERS_WAIT) != 0);
            if may_read(state, has_slept) {
                if self.state.compare_exchange(state, state + 1, Acquire, Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            if state & READERS_WAIT == 0 {
                if self.state.compare_exchange(state, state | READERS_WAIT, Relaxed, Relaxed).is_err() {
                    continue;
                }
                state |= READERS_WAIT;
            }
            match self.state.wait::<S>(state, ANY, until) {
                Woke::TimedOut => return false,
                Woke::ByAnother => has_slept = true,
                Woke::Unasked => {}
            }
        }
    }

    #[cold]
    fn wait_to_write(&self, until: Option<&Deadline>) -> bool {
        // A writer that slept cannot know whether others still do: it leaves the bit set.
        let mut others = 0;
        loop {
            let state = self.look(|state| is_free(state) || state & WRITERS_WAIT != 0);
            if is_free(state) {
                if self.state.compare_exchange(state, state | WRITTEN | others, Acquire, Relaxed).is_ok() {
                    return true;
                }
                continue;
            }
            if state & WRITERS_WAIT == 0
                && self.state.compare_exchange(state, state | WRITERS_WAIT, Relaxed, Relaxed).is_err()
            {
                continue;
            }
            others = WRITERS_WAIT;
            // The count is read before the last look: a wake-up after that look changes it, and the sleep does not begin.
            let count = self.writers.load(Acquire);
            let state = self.state.load(Relaxed);
            if is_free(state) || state & WRITERS_WAIT == 0 {
                continue;
            }
            if self.writers.wait::<S>(count, ANY, until) == Woke::TimedOut {
                self.give_up_writing();
                return false;
            }
        }
    }

    /// Readers must not wait behind a writer that has given up, while others read. Whether more writers sleep is not known: all are
    /// woken, and those that wait on set their bit again.
    #[cold]
    fn give_up_writing(&self) {
        let state = self.state.fetch_and(READERS, Relaxed);
        if state & WRITERS_WAIT != 0 {
            self.writers.fetch_add(1, Release);
            self.writers.wake::<S>(u32::MAX, ANY);
        }
        if state & READERS_WAIT != 0 {
            self.state.wake::<S>(u32::MAX, ANY);
        }
    }

    /// Looks until `is_over` or until waiting no longer pays. Returns the state.
    fn look(&self, is_over: impl Fn(u32) -> bool) -> u32 {
        let mut state = self.state.load(Relaxed);
        for look in 0..LOOKS.min(4) {
            if is_over(state) {
                break;
            }
            spin::pause(look);
            state = self.state.load(Relaxed);
        }
        state
    }
}

impl<S: Sharing> Default for RawRwLock<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sharing> core::fmt::Debug for RawRwLock<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (locked, exclusive) = (self.is_locked(), self.is_locked_exclusive());
        f.debug_struct("RawRwLock").field("is_locked", &locked).field("is_locked_exclusive", &exclusive).finish()
    }
}
