//! The queue lock of Craig, and of Landin and Hagersten.

use crate::algorithms::mcs::Queued;
use crate::lock::{Acquired, Algorithm, Properties, RawLock, Turns, Word, Worker};
use crate::note;
use crate::queue::{InSlots, Node, Nodes};
use crate::record::NamedBy;
use holdup_model::Meta;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Clh>(&META, Properties { fair: true, may_sleep: false, needs_kernel: false });

const META: Meta = Meta {
    id: "clh",
    summary: "CLH queue lock: FIFO, each spins on the line of the one before it",
    docs: "A waiter appends itself to the queue with one exchange and spins on the line of the one before it, which it takes over \
           for its next turn. The one that leaves writes its own line and need not know who comes next. Like a ticket lock it waits for \
           a waiter that is not on a CPU.",
    references: &[
        "T. Craig, University of Washington TR 93-02-02, 1993",
        "P. Magnusson, A. Landin and E. Hagersten, IPPS 1994",
    ],
};

/// The lock is free when the line of the last in the queue says so.
#[repr(C)]
pub(crate) struct Clh<W = AtomicU32, N = InSlots> {
    last: W,
    /// The line that the queue begins with: number 0.
    first: Node<W>,
    nodes: N,
}

impl<W: Word, N: Nodes<W>> Clh<W, N> {
    #[inline(always)]
    fn node(&self, local: &Queued, number: u32) -> &Node<W> {
        if number == 0 { &self.first } else { self.nodes.at(local.places, number) }
    }
}

impl<W: Word, N: Nodes<W>> RawLock for Clh<W, N> {
    /// Its line at the moment, and that of the one before it, which it has the next time.
    type Local = (Queued, u32);
    const NAMED_BY: NamedBy = NamedBy::OwnerWordAlone;

    note::points!("lock-contention: clh", 8);

    fn free() -> Self {
        Clh { last: W::new(0), first: Node::new(), nodes: N::new() }
    }

    fn local(worker: &Worker) -> Self::Local {
        (Queued { me: worker.name, places: worker.places }, 0)
    }

    #[inline(always)]
    fn acquire(&self, (local, before): &mut Self::Local, stopped: &impl Fn() -> bool) -> Acquired {
        self.node(local, local.me).must_wait.store(1, Ordering::Relaxed);
        *before = self.last.swap(local.me, Ordering::AcqRel);
        let watched = self.node(local, *before);
        if watched.must_wait.load(Ordering::Acquire) == 0 {
            return Acquired::Uncontended;
        }
        let mut turns = Turns::default();
        loop {
            W::pause();
            if watched.must_wait.load(Ordering::Acquire) == 0 {
                return Acquired::AfterWaiting;
            }
            // A worker that leaves the queue stops it; all workers of the trial stop now.
            if turns.over(stopped) {
                return Acquired::Stopped;
            }
        }
    }

    #[inline(always)]
    fn release(&self, (local, before): &mut Self::Local) {
        self.node(local, local.me).must_wait.store(0, Ordering::Release);
        Self::at_released();
        local.me = *before;
    }
}
