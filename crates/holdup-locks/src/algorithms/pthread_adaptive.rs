//! The C library's mutex whose waiters spin first.

use super::pthread_mutex::PthreadMutex;
use crate::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::{Availability, Meta};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<PthreadAdaptive>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true })
        .where_available(probe);

const META: Meta = Meta {
    id: "pthread-adaptive",
    summary: "pthread_mutex_t of glibc's adaptive kind: waiters spin, then sleep",
    docs: "glibc alone has it. A waiter looks up to twice as often as waiters of this lock did on average, at most 100 times, \
           and sleeps then as one of pthread-mutex does. MariaDB asks for it.",
    references: &["glibc nptl/pthread_mutex_lock.c (2.36)", "tunable glibc.pthread.mutex_spin_count"],
};

/// PTHREAD_MUTEX_ADAPTIVE_NP of glibc's pthread.h.
const KIND: libc::c_int = 3;

fn probe() -> Availability {
    if cfg!(target_env = "gnu") {
        Availability::Ready
    } else {
        Availability::unavailable("the C library that holdup was built with has no adaptive mutex: glibc has")
    }
}

/// The library's lock, in shared memory.
#[repr(transparent)]
pub(crate) struct PthreadAdaptive(PthreadMutex);

impl RawLock for PthreadAdaptive {
    type Local = ();
    const NAMED_BY: NamedBy = PthreadMutex::NAMED_BY;

    note::points!("lock-contention: pthread-adaptive", 10);

    fn free() -> Self {
        PthreadAdaptive(PthreadMutex::free())
    }

    unsafe fn init(place: *mut Self, sharing: Sharing) -> std::io::Result<()> {
        // SAFETY: the same memory, and the caller's promise.
        unsafe { PthreadMutex::of_kind(place.cast(), sharing, KIND) }
    }

    fn local(_worker: &Worker) {}

    #[inline(always)]
    fn acquire(&self, (): &mut (), stopped: &impl Fn() -> bool) -> Acquired {
        self.0.acquire(&mut (), stopped)
    }

    #[inline(always)]
    fn release(&self, (): &mut ()) {
        Self::at_released();
        self.0.give_back();
    }
}
