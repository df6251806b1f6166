//! The mutex of Rust's standard library.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Worker};
use crate::note;
use holdup_model::Meta;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<StdMutex>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true }).of_one_process();

const META: Meta = Meta {
    id: "std-mutex",
    summary: "std::sync::Mutex of Rust: waiters look 100 times, then sleep",
    docs: "What a Rust program gets without another crate. A waiter looks up to 100 times while no other one sleeps, then \
           marks the lock and sleeps in FUTEX_WAIT. Its futexes are private to one process.",
    references: &["library/std/src/sys/sync/mutex/futex.rs (Rust 1.91)"],
};

/// The library's lock.
#[repr(C)]
pub(crate) struct StdMutex {
    inner: Mutex<()>,
}

impl RawLock for StdMutex {
    /// The guard, while the worker holds the lock.
    type Local = Option<MutexGuard<'static, ()>>;

    note::points!("lock-contention: std-mutex", 11);

    fn free() -> Self {
        StdMutex { inner: Mutex::new(()) }
    }

    fn local(_worker: &Worker) -> Self::Local {
        None
    }

    #[inline(always)]
    fn acquire(&self, guard: &mut Self::Local, _stopped: &impl Fn() -> bool) -> Acquired {
        let taken: MutexGuard<'_, ()> = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the region with the lock outlives the worker's state.
        *guard = Some(unsafe { std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(taken) });
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, guard: &mut Self::Local) {
        // The lock is free some instructions into the drop; what may follow there is a long wake-up.
        Self::at_released();
        *guard = None;
    }
}
