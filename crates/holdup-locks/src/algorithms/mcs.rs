//! The queue lock of Mellor-Crummey and Scott.

use crate::lock::{Acquired, Algorithm, Properties, RawLock, Turns, Word, Worker};
use crate::note;
use crate::queue::{InSlots, Node, Nodes, Places};
use holdup_model::Meta;
use std::sync::atomic::{AtomicU32, Ordering};

/// The catalogue entry.
pub const ALGORITHM: Algorithm =
    Algorithm::of::<Mcs>(&META, Properties { fair: true, may_sleep: false, needs_kernel: false });

const META: Meta = Meta {
    id: "mcs",
    summary: "MCS queue lock: FIFO, each waiter spins on its own line",
    docs: "A waiter appends itself to the queue with one exchange and spins on its own line, which only the one before it writes. A \
           hand-over moves two lines, for any number of waiters. Like a ticket lock it waits for a waiter that is not on a CPU.",
    references: &["J. Mellor-Crummey and M. Scott, ACM TOCS 9(1), 1991, section 2.4"],
};

/// The number of the last in the queue; 0 when the lock is free.
#[repr(C)]
pub(crate) struct Mcs<W = AtomicU32, N = InSlots> {
    last: W,
    nodes: N,
}

/// What a worker keeps for itself: its number, and where nodes are.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    pub(crate) me: u32,
    pub(crate) places: Option<Places>,
}

impl<W: Word, N: Nodes<W>> Mcs<W, N> {
    #[inline(always)]
    fn node(&self, local: &Queued, number: u32) -> &Node<W> {
        self.nodes.at(local.places, number)
    }
}

impl<W: Word, N: Nodes<W>> RawLock for Mcs<W, N> {
    type Local = Queued;

    note::points!("lock-contention: mcs", 7);

    fn free() -> Self {
        Mcs { last: W::new(0), nodes: N::new() }
    }

    fn local(worker: &Worker) -> Queued {
        Queued { me: worker.name, places: worker.places }
    }

    #[inline(always)]
    fn acquire(&self, local: &mut Queued, stopped: &impl Fn() -> bool) -> Acquired {
        let node = self.node(local, local.me);
        node.next.store(0, Ordering::Relaxed);
        node.must_wait.store(1, Ordering::Relaxed);
        let before = self.last.swap(local.me, Ordering::AcqRel);
        if before == 0 {
            return Acquired::Uncontended;
        }
        self.node(local, before).next.store(local.me, Ordering::Release);
        let mut turns = Turns::default();
        while node.must_wait.load(Ordering::Acquire) != 0 {
            W::pause();
            // A worker that leaves the queue stops it; all workers of the trial stop now.
            if turns.over(stopped) {
                return Acquired::Stopped;
            }
        }
        Acquired::AfterWaiting
    }

    #[inline(always)]
    fn release(&self, local: &mut Queued) {
        let node = self.node(local, local.me);
        let mut next = node.next.load(Ordering::Acquire);
        if next == 0 {
            if self.last.compare_exchange(local.me, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
                Self::at_released();
                return;
            }
            // The next one has appended itself and is about to write its number here.
            while next == 0 {
                W::pause();
                next = node.next.load(Ordering::Acquire);
            }
        }
        self.node(local, next).must_wait.store(0, Ordering::Release);
        Self::at_released();
    }
}
