//! Test-and-set that asks the kernel for a time slice extension while it holds the lock.

use crate::lock::{Acquired, Algorithm, Named, Naming, Properties, RawLock, Turns, Unnamed, Word, Worker};
use crate::note;
use crate::record::NamedBy;
use crate::slice::{self, Requests};
use holdup_model::Meta;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<SliceExtension>(&META, Properties { fair: false, may_sleep: false, needs_kernel: true })
        .named_by::<SliceExtension<AtomicU32, Named>>()
        .where_available(slice::probe);

const META: Meta = Meta {
    id: "slice-extension",
    summary: "tas that asks for a longer time slice while it holds the lock (rseq)",
    docs: "Test-and-set with the time slice extension of rseq (Linux 7.0 and later, x86, s390, riscv and loongarch, \
           CONFIG_RSEQ_SLICE_EXTENSION=y). Each worker registers its own rseq area unless the C library's is \
           long enough, and switches the extension on. It asks before each exchange and takes the request back after \
           the release, or immediately when the exchange found the lock held, so that waiters are not favoured. A kernel \
           that was about to preempt it on the way back from an interrupt or a fault lets it run on for up to \
           slice_ext_nsec (5 to 50 \u{b5}s, knob rseq.slice-length); the worker then gives the CPU away with \
           rseq_slice_yield as soon as the lock is free. slice_grants_per_s counts the extensions that were given \
           back so. One that ran out or was revoked is not counted, because the kernel leaves no trace of it, and \
           preemption inside the kernel (in a page fault under the lock, for example) is not held off at all. \
           Where no holder is preempted, asking is pure cost: two stores and two loads more for each operation.",
    references: &[
        "kernel/rseq.c:rseq_slice_extension_prctl, rseq_syscall_enter_work, sys_rseq_slice_yield (v7.2)",
        "include/linux/rseq_entry.h:__rseq_grant_slice_extension (v7.2); include/uapi/linux/rseq.h",
        "Documentation/userspace-api/rseq.rst, Scheduler time slice extension (v7.2)",
    ],
};

/// 0 is free, anything else is held.
#[repr(C)]
pub(crate) struct SliceExtension<W = AtomicU32, N = Unnamed> {
    word: W,
    naming: PhantomData<N>,
}

/// What a worker keeps for itself.
pub(crate) struct Asking<N: Naming = Unnamed> {
    requests: Requests,
    name: N::Name,
}

impl<W: Word, N: Naming> SliceExtension<W, N> {
    /// One exchange under a request, which stands only when the lock is ours.
    #[inline(always)]
    fn try_asking(&self, asking: &mut Asking<N>) -> bool {
        asking.requests.ask();
        let is_ours = N::take(asking.name, &self.word);
        if !is_ours {
            asking.requests.end();
        }
        is_ours
    }
}

impl<W: Word, N: Naming> RawLock for SliceExtension<W, N> {
    type Local = Asking<N>;
    const NAMED_BY: NamedBy = N::NAMED_BY;

    note::points!("lock-contention: slice-extension", 6);

    fn free() -> Self {
        SliceExtension { word: W::new(0), naming: PhantomData }
    }

    fn local(worker: &Worker) -> Asking<N> {
        Asking { requests: Requests::default(), name: N::of(worker) }
    }

    fn begin(_asking: &mut Asking<N>) -> std::io::Result<()> {
        slice::enable()
    }

    #[inline(always)]
    fn slice_grants(asking: &Asking<N>) -> Option<u64> {
        Some(asking.requests.grants)
    }

    #[inline(always)]
    fn acquire(&self, asking: &mut Asking<N>, stopped: &impl Fn() -> bool) -> Acquired {
        if self.try_asking(asking) {
            return Acquired::Uncontended;
        }
        let mut turns = Turns::default();
        loop {
            W::pause();
            if self.try_asking(asking) {
                return Acquired::AfterWaiting;
            }
            if turns.over(stopped) {
                return Acquired::Stopped;
            }
        }
    }

    #[inline(always)]
    fn release(&self, asking: &mut Asking<N>) {
        self.word.store(0, Ordering::Release);
        Self::at_released();
        asking.requests.end();
    }
}
