//! The locks that are compared.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

/// A lock around nothing.
pub(crate) trait Lock: Sync + Send {
    /// A free one.
    fn new() -> Self;
    /// Runs `inside` under the lock. `before` is given the control when the lock is taken.
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R;
    /// The column's title.
    const NAME: &'static str;
}

pub(crate) struct Holdfast(holdfast::Mutex<()>);
impl Lock for Holdfast {
    const NAME: &'static str = "holdfast";
    fn new() -> Self {
        Holdfast(holdfast::Mutex::new(()))
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        inside()
    }
}

pub(crate) struct Std(std::sync::Mutex<()>);
impl Lock for Std {
    const NAME: &'static str = "std";
    fn new() -> Self {
        Std(std::sync::Mutex::new(()))
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().expect("no section panics");
        inside()
    }
}

pub(crate) struct ParkingLot(parking_lot::Mutex<()>);
impl Lock for ParkingLot {
    const NAME: &'static str = "parking_lot";
    fn new() -> Self {
        ParkingLot(parking_lot::Mutex::new(()))
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        inside()
    }
}

/// The C library's, of kind `KIND`.
pub(crate) struct Pthread<const KIND: i32>(Box<UnsafeCell<libc::pthread_mutex_t>>);
// SAFETY: a mutex is made for threads.
unsafe impl<const KIND: i32> Send for Pthread<KIND> {}
// SAFETY: as above.
unsafe impl<const KIND: i32> Sync for Pthread<KIND> {}
/// `PTHREAD_MUTEX_ADAPTIVE_NP` of glibc.
pub(crate) const ADAPTIVE: i32 = 3;
impl<const KIND: i32> Lock for Pthread<KIND> {
    const NAME: &'static str = if KIND == ADAPTIVE { "pthread adaptive" } else { "pthread" };
    fn new() -> Self {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: the attributes and the mutex are locals that live during the calls.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_settype(&raw mut attributes, KIND);
            libc::pthread_mutex_init(mutex.get(), &raw const attributes);
        }
        Pthread(mutex)
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        // SAFETY: the mutex is initialised, and unlocked by the thread that locked it.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        let result = inside();
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        result
    }
}

/// The queue of Mellor-Crummey and Scott (1991): each waiter spins on its own word.
pub(crate) struct Mcs(AtomicPtr<Node>);
#[repr(align(64))]
struct Node {
    next: AtomicPtr<Node>,
    waits: AtomicBool,
}
impl Lock for Mcs {
    const NAME: &'static str = "MCS";
    fn new() -> Self {
        Mcs(AtomicPtr::default())
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        let node = Node { next: AtomicPtr::default(), waits: AtomicBool::new(true) };
        let mine = std::ptr::from_ref(&node).cast_mut();
        let before = self.0.swap(mine, AcqRel);
        if !before.is_null() {
            // SAFETY: the one before us leaves its node only when it has passed the lock on to us.
            unsafe { (*before).next.store(mine, Release) };
            while node.waits.load(Acquire) {
                crate::work::pause();
            }
        }
        let result = inside();
        if node.next.load(Acquire).is_null() {
            if self.0.compare_exchange(mine, std::ptr::null_mut(), Release, Relaxed).is_ok() {
                return result;
            }
            while node.next.load(Acquire).is_null() {
                spin_loop();
            }
        }
        // SAFETY: the one behind us spins on its node until this store.
        unsafe { (*node.next.load(Acquire)).waits.store(false, Release) };
        result
    }
}

/// Tickets are served in their order.
#[derive(Default)]
pub(crate) struct Ticket {
    next: AtomicU32,
    served: AtomicU32,
}
impl Lock for Ticket {
    const NAME: &'static str = "ticket";
    fn new() -> Self {
        Ticket::default()
    }
    #[inline(always)]
    fn with<R>(&self, inside: impl FnOnce() -> R) -> R {
        let mine = self.next.fetch_add(1, Relaxed);
        while self.served.load(Acquire) != mine {
            crate::work::pause();
        }
        let result = inside();
        self.served.store(mine.wrapping_add(1), Release);
        result
    }
}
