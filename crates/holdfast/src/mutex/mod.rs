//! A mutual exclusion lock of four bytes.

#[cfg(feature = "debug")]
mod debug;
mod raw;

use crate::sharing::{Private, Sharing};
use crate::time::{Clock, Deadline};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
pub use raw::RawMutex;

/// A value that one thread at a time reaches.
///
/// As `std::sync::Mutex`, but without poisoning: a panic gives the lock back, and the value stays as it was left.
///
/// ```
/// static COUNT: holdfast::Mutex<u64> = holdfast::Mutex::new(0);
/// *COUNT.lock() += 1;
/// ```
#[derive(Default)]
#[repr(C)]
pub struct Mutex<T: ?Sized, S: Sharing = Private> {
    raw: RawMutex<S>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time, which may take it away.
unsafe impl<T: ?Sized + Send, S: Sharing> Send for Mutex<T, S> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send, S: Sharing> Sync for Mutex<T, S> {}

impl<T> Mutex<T> {
    /// A free lock around `value`, for the threads of one process.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self::new_in(value)
    }
}

impl<T, S: Sharing> Mutex<T, S> {
    /// A free lock around `value`, for whom `S` says.
    #[cfg(not(loom))]
    pub const fn new_in(value: T) -> Self {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, S: Sharing> Mutex<T, S> {
    /// Takes the lock.
    #[inline]
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T, S> {
        self.raw.lock();
        MutexGuard::of(self)
    }

    /// Takes the lock if it is free.
    #[inline]
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, S>> {
        self.raw.try_lock().then(|| MutexGuard::of(self))
    }

    /// Takes the lock, or gives up after `duration` (`CLOCK_MONOTONIC`).
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn try_lock_for(&self, duration: Duration) -> Option<MutexGuard<'_, T, S>> {
        self.try_lock_until(&Deadline::after(duration, Clock::Monotonic))
    }

    /// Takes the lock, or gives up at `deadline`.
    #[cfg_attr(feature = "debug", track_caller)]
    pub fn try_lock_until(&self, deadline: &Deadline) -> Option<MutexGuard<'_, T, S>> {
        self.raw.lock_until(deadline).then(|| MutexGuard::of(self))
    }

    /// The value, which no other thread reaches while the lock itself is borrowed.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The lock itself, for what this type does not offer.
    pub fn raw(&self) -> &RawMutex<S> {
        &self.raw
    }
}

impl<T: ?Sized + fmt::Debug, S: Sharing> fmt::Debug for Mutex<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => out.field("value", &&*guard),
            None => out.field("value", &format_args!("<locked>")),
        }
        .finish()
    }
}

/// The lock is held for as long as this lives.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized, S: Sharing = Private> {
    mutex: &'a Mutex<T, S>,
    /// A lock is given back by the thread that took it.
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared references to the value alone.
unsafe impl<T: ?Sized + Sync, S: Sharing> Sync for MutexGuard<'_, T, S> {}

impl<'a, T: ?Sized, S: Sharing> MutexGuard<'a, T, S> {
    #[inline(always)]
    fn of(mutex: &'a Mutex<T, S>) -> Self {
        MutexGuard { mutex, not_send: PhantomData }
    }

    /// The mutex that it is of.
    pub(crate) fn mutex(&self) -> &'a Mutex<T, S> {
        self.mutex
    }
}

impl<T: ?Sized, S: Sharing> Deref for MutexGuard<'_, T, S> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and others reach the value by this guard alone.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, S: Sharing> DerefMut for MutexGuard<'_, T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed for writing.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized, S: Sharing> Drop for MutexGuard<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made when this thread took the lock.
        unsafe { self.mutex.raw.unlock() };
    }
}

impl<T: ?Sized + fmt::Debug, S: Sharing> fmt::Debug for MutexGuard<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
