//! The mutex of holdfast, whose holder asks for a longer time slice.

use super::holdfast::Holdfast;
use crate::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Worker};
use crate::record::NamedBy;
use crate::slice::{self, Requests};
use holdup_model::Meta;

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<HoldfastSlice>(&META, Properties { fair: false, may_sleep: true, needs_kernel: true })
        .where_available(slice::probe);

const META: Meta = Meta {
    id: "holdfast-slice",
    summary: "holdfast::Mutex whose holder asks for a longer time slice (rseq)",
    docs: "The lock of holdfast, taken and given back under a request for the time slice extension of Linux 7.0. The request stands \
           while a waiter looks as well, so it is favoured over others for as long as that.",
    references: &["crates/holdfast/src/hold/mod.rs", "kernel/rseq.c:rseq_slice_extension_prctl (v7.2)"],
};

/// The same lock, in a section of [`holdfast::hold`].
#[repr(C)]
pub(crate) struct HoldfastSlice(Holdfast);

/// What a worker keeps for itself.
pub(crate) struct Asking {
    sharing: Sharing,
    requests: Requests,
}

impl RawLock for HoldfastSlice {
    type Local = Asking;
    const NAMED_BY: NamedBy = NamedBy::OwnerWordAlone;

    fn free() -> Self {
        HoldfastSlice(Holdfast::free())
    }

    fn local(worker: &Worker) -> Asking {
        Asking { sharing: worker.sharing, requests: Requests::default() }
    }

    fn begin(_asking: &mut Asking) -> std::io::Result<()> {
        slice::enable()
    }

    #[inline(always)]
    fn slice_grants(asking: &Asking) -> Option<u64> {
        Some(asking.requests.grants)
    }

    #[inline(always)]
    fn acquire(&self, asking: &mut Asking, _stopped: &impl Fn() -> bool) -> Acquired {
        asking.requests.ask();
        self.0.lock(asking.sharing);
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, asking: &mut Asking) {
        self.0.unlock(asking.sharing);
        asking.requests.end();
    }
}
