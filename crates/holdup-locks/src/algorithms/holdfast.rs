//! The mutex of holdfast.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Worker};
use crate::record::NamedBy;
use holdfast::{Private, RawMutex, Shared};
use holdup_model::Meta;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Holdfast>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true });

const META: Meta = Meta {
    id: "holdfast",
    summary: "holdfast::Mutex: waiters look for some microseconds, then sleep",
    docs: "One instruction takes a free lock. A waiter looks seven times with growing pauses, 14 \u{b5}s in all, unless others sleep \
           already, then sleeps in FUTEX_WAIT. At most once in 500 \u{b5}s a holder that leaves hands the lock to a sleeper instead of \
           freeing it. The same code runs in programs that take in the crate, and its sections are in their ELF notes.",
    references: &["crates/holdfast/src/mutex/raw.rs; docs/holdfast.md"],
};

/// The crate's lock. Its word is the same for threads and for processes.
#[repr(C)]
pub(crate) struct Holdfast {
    private: RawMutex<Private>,
}

impl Holdfast {
    fn shared(&self) -> &RawMutex<Shared> {
        // SAFETY: both are `repr(transparent)` over the same word; they differ in the queue of the kernel alone.
        unsafe { &*(&raw const self.private).cast() }
    }

    #[inline(always)]
    pub(super) fn lock(&self, sharing: Sharing) {
        match sharing {
            Sharing::Threads => self.private.lock(),
            Sharing::Processes => self.shared().lock(),
        }
    }

    #[inline(always)]
    pub(super) fn unlock(&self, sharing: Sharing) {
        // SAFETY: this worker holds it.
        unsafe {
            match sharing {
                Sharing::Threads => self.private.unlock(),
                Sharing::Processes => self.shared().unlock(),
            }
        }
    }
}

// The points of its sections are those that holdfast itself declares.
impl RawLock for Holdfast {
    type Local = Sharing;
    const NAMED_BY: NamedBy = NamedBy::OwnerWordAlone;

    fn free() -> Self {
        Holdfast { private: RawMutex::new() }
    }

    fn local(worker: &Worker) -> Sharing {
        worker.sharing
    }

    #[inline(always)]
    fn acquire(&self, sharing: &mut Sharing, _stopped: &impl Fn() -> bool) -> Acquired {
        self.lock(*sharing);
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, sharing: &mut Sharing) {
        self.unlock(*sharing);
    }
}
