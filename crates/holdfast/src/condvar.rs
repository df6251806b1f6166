//! A condition variable of eight bytes.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | counts notifications; wraps. Waiters sleep on it |
//! | 1 | waiters, so that a notification without any costs no system call |
//!
//! Two zero words are one without waiters. The table is a contract with `holdfast.h`. A waiter that is killed stays counted,
//! which costs system calls and nothing else.

use crate::futex::{ANY, Woke, Word};
use crate::mutex::{MutexGuard, RawMutex};
use crate::sharing::{Private, Sharing};
use crate::time::Deadline;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

/// Waits for what other threads do to the value of a [`Mutex`](crate::Mutex).
///
/// A wait may end without a notification: look at the value again. A notification is lost if exactly 2³² of them happen between a
/// waiter's giving back of the mutex and its sleep.
///
/// ```
/// use holdfast::{Condvar, Mutex};
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
/// std::thread::spawn(|| {
///     *READY.lock() = true;
///     CHANGED.notify_one();
/// });
/// let mut ready = READY.lock();
/// while !*ready {
///     CHANGED.wait(&mut ready);
/// }
/// ```
#[repr(C)]
pub struct Condvar<S: Sharing = Private> {
    notified: Word,
    waiters: Word,
    sharing: PhantomData<S>,
}

impl<S: Sharing> Condvar<S> {
    /// One without waiters.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Condvar { notified: Word::new(0), waiters: Word::new(0), sharing: PhantomData }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Condvar { notified: Word::new(0), waiters: Word::new(0), sharing: PhantomData }
    }

    /// Gives the mutex back, sleeps until a notification, and takes the mutex again.
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T, S>) {
        // SAFETY: the guard exists, so this thread holds the mutex; and it is borrowed until the mutex is taken again.
        unsafe { self.wait_raw(guard.mutex().raw(), None) };
    }

    /// As [`wait`](Self::wait), or until `deadline` on either clock. Returns `false` when it passed.
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T, S>, deadline: &Deadline) -> bool {
        // SAFETY: as above.
        unsafe { self.wait_raw(guard.mutex().raw(), Some(deadline)) }
    }

    /// As [`wait`](Self::wait) for a mutex without a value.
    ///
    /// # Safety
    /// The calling thread holds `mutex`.
    #[cfg_attr(feature = "debug", track_caller)]
    pub unsafe fn wait_raw(&self, mutex: &RawMutex<S>, deadline: Option<&Deadline>) -> bool {
        // A thread that changes the value under the mutex after this sees the waiter: the mutex orders the two.
        self.waiters.fetch_add(1, Relaxed);
        let notified = self.notified.load(Relaxed);
        // SAFETY: the promise of the caller.
        unsafe { mutex.unlock() };
        let woke = self.notified.wait::<S>(notified, ANY, deadline);
        self.waiters.fetch_sub(1, Relaxed);
        mutex.lock();
        woke != Woke::TimedOut
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    #[inline]
    fn notify(&self, most: u32) {
        if self.waiters.load(Relaxed) != 0 {
            self.notified.fetch_add(1, Relaxed);
            self.notified.wake::<S>(most, ANY);
        }
    }
}

impl<S: Sharing> Default for Condvar<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Sharing> core::fmt::Debug for Condvar<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Condvar").field("waiters", &self.waiters.load(Relaxed)).finish()
    }
}
