//! The mutex of the crate parking_lot.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Worker};
use crate::note;
use crate::record::NamedBy;
use holdup_model::Meta;
use parking_lot::lock_api::RawMutex as _;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<ParkingLot>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true })
        .of_one_process();

const META: Meta = Meta {
    id: "parking-lot",
    summary: "parking_lot::Mutex of Rust: waiters spin, yield, then sleep in a queue",
    docs: "A waiter spins for three growing pauses, yields the CPU seven times, then enters a queue that the process keeps by the \
           lock's address. About once in half a millisecond, at random, the lock is handed to the first in the queue instead of \
           being freed.",
    references: &["parking_lot 0.12: src/raw_mutex.rs; parking_lot_core 0.9: src/spinwait.rs, src/parking_lot.rs"],
};

/// The crate's lock.
#[repr(C)]
pub(crate) struct ParkingLot {
    inner: parking_lot::RawMutex,
}

impl RawLock for ParkingLot {
    type Local = ();
    const NAMED_BY: NamedBy = NamedBy::OwnerWordAlone;

    note::points!("lock-contention: parking-lot", 12);

    fn free() -> Self {
        ParkingLot { inner: parking_lot::RawMutex::INIT }
    }

    fn local(_worker: &Worker) {}

    #[inline(always)]
    fn acquire(&self, (): &mut (), _stopped: &impl Fn() -> bool) -> Acquired {
        self.inner.lock();
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, (): &mut ()) {
        Self::at_released();
        // SAFETY: this worker holds it.
        unsafe { self.inner.unlock() };
    }
}
