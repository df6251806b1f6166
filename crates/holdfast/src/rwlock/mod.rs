//! A read-write lock of eight bytes.

mod raw;

use crate::sharing::{Private, Sharing};
use crate::time::Deadline;
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
pub use raw::RawRwLock;

/// A value that many threads read, or one writes.
///
/// Writers that wait come before readers that come later. As [`Mutex`](crate::Mutex) it knows no poisoning.
///
/// ```
/// static NAMES: holdfast::RwLock<Vec<&str>> = holdfast::RwLock::new(Vec::new());
/// NAMES.write().push("a");
/// assert_eq!(NAMES.read().len(), 1);
/// ```
#[derive(Default)]
#[repr(C)]
pub struct RwLock<T: ?Sized, S: Sharing = Private> {
    raw: RawRwLock<S>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one writer, which may take it away.
unsafe impl<T: ?Sized + Send, S: Sharing> Send for RwLock<T, S> {}
// SAFETY: several readers have references to the value, one writer may take it away.
unsafe impl<T: ?Sized + Send + Sync, S: Sharing> Sync for RwLock<T, S> {}

impl<T> RwLock<T> {
    /// A free lock around `value`, for the threads of one process.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self::new_in(value)
    }
}

impl<T, S: Sharing> RwLock<T, S> {
    /// A free lock around `value`, for whom `S` says.
    #[cfg(not(loom))]
    pub const fn new_in(value: T) -> Self {
        RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// The value, without the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, S: Sharing> RwLock<T, S> {
    /// Takes the lock together with other readers.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T, S> {
        self.raw.lock_shared();
        ReadGuard { lock: self, not_send: PhantomData }
    }

    /// Takes the lock together with other readers if no writer holds it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T, S>> {
        self.raw.try_lock_shared().then(|| ReadGuard { lock: self, not_send: PhantomData })
    }

    /// Takes the lock together with other readers, or gives up at `deadline`.
    pub fn try_read_until(&self, deadline: &Deadline) -> Option<ReadGuard<'_, T, S>> {
        self.raw.lock_shared_until(deadline).then(|| ReadGuard { lock: self, not_send: PhantomData })
    }

    /// Takes the lock alone.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T, S> {
        self.raw.lock_exclusive();
        WriteGuard { lock: self, not_send: PhantomData }
    }

    /// Takes the lock alone if it is free.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, S>> {
        self.raw.try_lock_exclusive().then(|| WriteGuard { lock: self, not_send: PhantomData })
    }

    /// Takes the lock alone, or gives up at `deadline`.
    pub fn try_write_until(&self, deadline: &Deadline) -> Option<WriteGuard<'_, T, S>> {
        self.raw.lock_exclusive_until(deadline).then(|| WriteGuard { lock: self, not_send: PhantomData })
    }

    /// The value, which no other thread reaches while the lock itself is borrowed.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The lock itself, for what this type does not offer.
    pub fn raw(&self) -> &RawRwLock<S> {
        &self.raw
    }
}

impl<T: ?Sized + fmt::Debug, S: Sharing> fmt::Debug for RwLock<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => out.field("value", &&*guard),
            None => out.field("value", &format_args!("<locked>")),
        }
        .finish()
    }
}

/// The lock is held together with other readers for as long as this lives.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct ReadGuard<'a, T: ?Sized, S: Sharing = Private> {
    lock: &'a RwLock<T, S>,
    not_send: PhantomData<*const ()>,
}

/// The lock is held alone for as long as this lives.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct WriteGuard<'a, T: ?Sized, S: Sharing = Private> {
    lock: &'a RwLock<T, S>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared references to the value alone.
unsafe impl<T: ?Sized + Sync, S: Sharing> Sync for ReadGuard<'_, T, S> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync, S: Sharing> Sync for WriteGuard<'_, T, S> {}

impl<T: ?Sized, S: Sharing> Deref for ReadGuard<'_, T, S> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held, so there is no writer.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, S: Sharing> Deref for WriteGuard<'_, T, S> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, S: Sharing> DerefMut for WriteGuard<'_, T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held alone, and the guard is borrowed for writing.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, S: Sharing> Drop for ReadGuard<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made when this thread took the lock so.
        unsafe { self.lock.raw.unlock_shared() };
    }
}

impl<T: ?Sized, S: Sharing> Drop for WriteGuard<'_, T, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made when this thread took the lock so.
        unsafe { self.lock.raw.unlock_exclusive() };
    }
}

impl<T: ?Sized + fmt::Debug, S: Sharing> fmt::Debug for ReadGuard<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug, S: Sharing> fmt::Debug for WriteGuard<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
