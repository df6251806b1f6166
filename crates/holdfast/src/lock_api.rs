//! The traits of `lock_api`, so that its guards and wrappers stand on these locks.

use crate::{Clock, Deadline, RawMutex, RawRwLock, Sharing};
use ::lock_api::GuardNoSend;
use core::time::Duration;

// SAFETY: the word of a mutex is taken by one thread at a time (the models of loom, `models.rs`).
unsafe impl<S: Sharing> ::lock_api::RawMutex for RawMutex<S> {
    #[allow(clippy::declare_interior_mutable_const, reason = "what the trait asks for: a free lock to copy")]
    const INIT: Self = RawMutex::new();
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        RawMutex::lock(self);
    }
    #[inline]
    fn try_lock(&self) -> bool {
        RawMutex::try_lock(self)
    }
    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the promise of the caller.
        unsafe { RawMutex::unlock(self) };
    }
    fn is_locked(&self) -> bool {
        RawMutex::is_locked(self)
    }
}

// SAFETY: as above.
unsafe impl<S: Sharing> ::lock_api::RawMutexTimed for RawMutex<S> {
    type Duration = Duration;
    type Instant = Deadline;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_until(&Deadline::after(timeout, Clock::Monotonic))
    }
    fn try_lock_until(&self, timeout: Deadline) -> bool {
        self.lock_until(&timeout)
    }
}

// SAFETY: one writer or readers alone have the lock (the models of loom, `models.rs`).
unsafe impl<S: Sharing> ::lock_api::RawRwLock for RawRwLock<S> {
    #[allow(clippy::declare_interior_mutable_const, reason = "what the trait asks for: a free lock to copy")]
    const INIT: Self = RawRwLock::new();
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        RawRwLock::lock_shared(self);
    }
    #[inline]
    fn try_lock_shared(&self) -> bool {
        RawRwLock::try_lock_shared(self)
    }
    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the promise of the caller.
        unsafe { RawRwLock::unlock_shared(self) };
    }
    #[inline]
    fn lock_exclusive(&self) {
        RawRwLock::lock_exclusive(self);
    }
    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        RawRwLock::try_lock_exclusive(self)
    }
    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the promise of the caller.
        unsafe { RawRwLock::unlock_exclusive(self) };
    }
    fn is_locked(&self) -> bool {
        RawRwLock::is_locked(self)
    }
    fn is_locked_exclusive(&self) -> bool {
        RawRwLock::is_locked_exclusive(self)
    }
}

// SAFETY: as above.
unsafe impl<S: Sharing> ::lock_api::RawRwLockTimed for RawRwLock<S> {
    type Duration = Duration;
    type Instant = Deadline;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.lock_shared_until(&Deadline::after(timeout, Clock::Monotonic))
    }
    fn try_lock_shared_until(&self, timeout: Deadline) -> bool {
        self.lock_shared_until(&timeout)
    }
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.lock_exclusive_until(&Deadline::after(timeout, Clock::Monotonic))
    }
    fn try_lock_exclusive_until(&self, timeout: Deadline) -> bool {
        self.lock_exclusive_until(&timeout)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn guards_of_lock_api_stand_on_these_locks() {
        static COUNT: ::lock_api::Mutex<crate::RawMutex, u32> = ::lock_api::Mutex::new(1);
        static NAMES: ::lock_api::RwLock<crate::RawRwLock, u32> = ::lock_api::RwLock::new(2);
        let guard = COUNT.lock();
        assert!(COUNT.try_lock_for(core::time::Duration::from_micros(1)).is_none());
        assert_eq!(*guard + *NAMES.read(), 3);
        *NAMES.write() += 1;
        assert!(!NAMES.is_locked());
    }
}
