//! The C library's spin lock.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use std::cell::UnsafeCell;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<PthreadSpin>(&META, Properties { fair: false, may_sleep: false, needs_kernel: false });

const META: Meta = Meta {
    id: "pthread-spin",
    summary: "pthread_spinlock_t of the C library: waiters never leave the CPU",
    docs: "What a C program gets when it asks for a spin lock. In glibc on x86 a decrement takes it, and waiters read until it is \
           free. A waiter neither sleeps nor yields, so where its holder is off the CPU it spins for the rest of its slice.",
    references: &[
        "pthread_spin_lock(3)",
        "glibc sysdeps/x86_64/nptl/pthread_spin_lock.S, nptl/pthread_spin_lock.c (2.36)",
    ],
};

/// The library's lock, in shared memory.
#[repr(C)]
pub(crate) struct PthreadSpin {
    inner: UnsafeCell<libc::pthread_spinlock_t>,
}

// SAFETY: a spin lock is made to be used from several threads through shared references.
unsafe impl Sync for PthreadSpin {}

impl RawLock for PthreadSpin {
    type Local = ();
    const NAMED_BY: NamedBy = NamedBy::OwnerWordAlone;

    note::points!("lock-contention: pthread-spin", 9);

    fn free() -> Self {
        let lock = PthreadSpin { inner: UnsafeCell::new(0) };
        // SAFETY: it is ours alone. The call writes the value of a free lock and does not fail.
        unsafe { libc::pthread_spin_init(lock.inner.get(), libc::PTHREAD_PROCESS_SHARED) };
        lock
    }

    fn local(_worker: &Worker) {}

    #[inline(always)]
    fn acquire(&self, (): &mut (), _stopped: &impl Fn() -> bool) -> Acquired {
        // SAFETY: `free` made it.
        unsafe { libc::pthread_spin_lock(self.inner.get()) };
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, (): &mut ()) {
        Self::at_released();
        // SAFETY: this worker holds it.
        unsafe { libc::pthread_spin_unlock(self.inner.get()) };
    }
}
