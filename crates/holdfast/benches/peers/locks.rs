//! The locks that are compared.

use holdfast::Sharing;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

/// What a worker has of its own for a lock.
pub(crate) struct Spot<'a> {
    /// In memory that all workers have.
    pub(crate) node: &'a Node,
    /// The cell is over: those that spin in a queue let others run, so that the queue empties.
    pub(crate) is_over: &'a AtomicBool,
}

impl Spot<'_> {
    /// One turn of a waiting spin.
    #[inline(always)]
    fn pause(&self) {
        if self.is_over.load(Relaxed) {
            std::thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

/// A lock around nothing.
pub(crate) trait Lock: Sync + Send + Sized {
    /// Puts a free one where it stays, for the threads of one process or for several processes.
    fn init(place: &mut MaybeUninit<Self>, is_shared: bool);
    /// Runs `inside` under the lock.
    fn with<R>(&self, spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R;
    /// The column's title.
    const NAME: &'static str;
}

pub(crate) struct Holdfast<S: Sharing>(holdfast::Mutex<(), S>);
impl<S: Sharing> Lock for Holdfast<S> {
    const NAME: &'static str = "holdfast";
    fn init(place: &mut MaybeUninit<Self>, _is_shared: bool) {
        place.write(Holdfast(holdfast::Mutex::default()));
    }
    #[inline(always)]
    fn with<R>(&self, _spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        inside()
    }
}

pub(crate) struct Std(std::sync::Mutex<()>);
impl Lock for Std {
    const NAME: &'static str = "std";
    fn init(place: &mut MaybeUninit<Self>, _is_shared: bool) {
        place.write(Std(std::sync::Mutex::new(())));
    }
    #[inline(always)]
    fn with<R>(&self, _spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().expect("no section panics");
        inside()
    }
}

pub(crate) struct ParkingLot(parking_lot::Mutex<()>);
impl Lock for ParkingLot {
    const NAME: &'static str = "parking_lot";
    fn init(place: &mut MaybeUninit<Self>, _is_shared: bool) {
        place.write(ParkingLot(parking_lot::Mutex::new(())));
    }
    #[inline(always)]
    fn with<R>(&self, _spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        inside()
    }
}

/// The C library's, of kind `KIND`.
#[repr(transparent)]
pub(crate) struct Pthread<const KIND: i32>(UnsafeCell<libc::pthread_mutex_t>);
// SAFETY: a mutex is made for threads.
unsafe impl<const KIND: i32> Send for Pthread<KIND> {}
// SAFETY: as above.
unsafe impl<const KIND: i32> Sync for Pthread<KIND> {}
/// `PTHREAD_MUTEX_ADAPTIVE_NP` of glibc.
pub(crate) const ADAPTIVE: i32 = 3;
impl<const KIND: i32> Lock for Pthread<KIND> {
    const NAME: &'static str = if KIND == ADAPTIVE { "pthread adaptive" } else { "pthread" };
    fn init(place: &mut MaybeUninit<Self>, is_shared: bool) {
        // SAFETY: the attributes are a local that lives during the calls; the place has room for the mutex.
        unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_settype(&raw mut attributes, KIND);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, i32::from(is_shared));
            libc::pthread_mutex_init(place.as_mut_ptr().cast(), &raw const attributes);
        }
    }
    #[inline(always)]
    fn with<R>(&self, _spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
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
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Node {
    next: AtomicPtr<Node>,
    waits: AtomicBool,
}
impl Lock for Mcs {
    const NAME: &'static str = "MCS";
    fn init(place: &mut MaybeUninit<Self>, _is_shared: bool) {
        place.write(Mcs(AtomicPtr::default()));
    }
    #[inline(always)]
    fn with<R>(&self, spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
        let node = spot.node;
        node.next.store(std::ptr::null_mut(), Relaxed);
        node.waits.store(true, Relaxed);
        let mine = std::ptr::from_ref(node).cast_mut();
        let before = self.0.swap(mine, AcqRel);
        if !before.is_null() {
            // SAFETY: the one before us leaves its node only when it has passed the lock on to us.
            unsafe { (*before).next.store(mine, Release) };
            while node.waits.load(Acquire) {
                spot.pause();
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
    fn init(place: &mut MaybeUninit<Self>, _is_shared: bool) {
        place.write(Ticket::default());
    }
    #[inline(always)]
    fn with<R>(&self, spot: &Spot<'_>, inside: impl FnOnce() -> R) -> R {
        let mine = self.next.fetch_add(1, Relaxed);
        while self.served.load(Acquire) != mine {
            spot.pause();
        }
        let result = inside();
        self.served.store(mine.wrapping_add(1), Release);
        result
    }
}
