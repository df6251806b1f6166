//! The C library's own mutex.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<PthreadMutex>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true });

const META: Meta = Meta {
    id: "pthread-mutex",
    summary: "pthread_mutex_t with default attributes, as the C library has it",
    docs: "What a C program gets when it asks for a mutex: in glibc a futex mutex of three states that does not spin. \
           Processes use PTHREAD_PROCESS_SHARED. The difference to futex-mutex is the price of a call into the \
           library and of its checks for other kinds of mutexes. holdup is linked statically, so the C library is the \
           one that it was built with, not that of the host.",
    references: &["pthread_mutex_lock(3p)", "glibc nptl/pthread_mutex_lock.c (2.36)"],
};

/// The library's lock, in shared memory.
#[repr(C)]
pub(crate) struct PthreadMutex {
    inner: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: a pthread mutex is made to be used from several threads through shared references.
unsafe impl Sync for PthreadMutex {}

impl RawLock for PthreadMutex {
    type Local = ();
    const NAMED_BY: NamedBy = if cfg!(target_env = "gnu") { NamedBy::OwnerTid } else { NamedBy::OwnerWord };

    note::points!("lock-contention: pthread-mutex", 5);

    fn free() -> Self {
        PthreadMutex { inner: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER) }
    }

    unsafe fn init(place: *mut Self, sharing: Sharing) -> std::io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Self::of_kind(place, sharing, libc::PTHREAD_MUTEX_DEFAULT) }
    }

    fn local(_worker: &Worker) {}

    #[inline(always)]
    fn acquire(&self, (): &mut (), stopped: &impl Fn() -> bool) -> Acquired {
        // The library does not say whether it waited; asking with trylock first would be another algorithm.
        // SAFETY: `init` made the mutex before any worker began.
        match unsafe { libc::pthread_mutex_lock(self.inner.get()) } {
            0 => Acquired::AfterWaiting,
            _ if stopped() => Acquired::Stopped,
            _ => Acquired::Stuck,
        }
    }

    #[inline(always)]
    fn release(&self, (): &mut ()) {
        // The lock is free about ten instructions into the call; what may follow there is a long wake-up.
        Self::at_released();
        self.give_back();
    }
}

impl PthreadMutex {
    /// Makes a free lock with the attribute that processes need.
    ///
    /// # Safety
    /// As for [`RawLock::init`].
    pub(super) unsafe fn of_kind(place: *mut Self, sharing: Sharing, kind: libc::c_int) -> std::io::Result<()> {
        let shared = match sharing {
            Sharing::Threads => libc::PTHREAD_PROCESS_PRIVATE,
            Sharing::Processes => libc::PTHREAD_PROCESS_SHARED,
        };
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: `attributes` is initialised by the first call and used by the following ones;
        // `place` is writable, aligned and not in use yet, as the caller promises.
        unsafe {
            done(libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
            done(libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), shared))?;
            done(libc::pthread_mutexattr_settype(attributes.as_mut_ptr(), kind))?;
            done(libc::pthread_mutex_init((*place).inner.get(), attributes.as_ptr()))?;
            done(libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()))
        }
    }

    #[inline(always)]
    pub(super) fn give_back(&self) {
        // SAFETY: this worker holds the mutex. Unlocking a held default mutex does not fail.
        unsafe { libc::pthread_mutex_unlock(self.inner.get()) };
    }
}

fn done(code: libc::c_int) -> std::io::Result<()> {
    if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(code)) }
}
