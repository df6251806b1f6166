//! Where idle workers wait for a request of a messenger, and are woken.

use holdup_load::board::CachePadded;
use rustix::thread::futex::{self, Flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// In the list: no worker is idle. In a wake slot: no request.
const NONE: u32 = 0;
/// In either: the trial is over.
const CLOSED: u32 = u32::MAX;
/// In a wake slot: there is a request.
const CALLED: u32 = 1;

/// Where one worker is woken. All waiting is in the kernel (futex(2)), as it is in schbench.
#[derive(Default)]
pub(crate) struct WakeSlot {
    called: CachePadded<AtomicU32>,
    /// The worker that asked before, as its number + 1.
    below: AtomicU32,
    /// When the messenger posted it, CLOCK_MONOTONIC.
    posted_ns: AtomicU64,
    /// When the request arrived by the schedule; 0 where there is none.
    arrived_ns: AtomicU64,
}

/// A request, as the worker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posted {
    /// When the messenger posted it, CLOCK_MONOTONIC.
    pub(crate) posted_ns: u64,
    /// When the request arrived by the schedule; 0 where there is none.
    pub(crate) arrived_ns: u64,
}

/// The idle workers of a messenger, as a list without locks.
#[derive(Default)]
pub(crate) struct IdleWorkers {
    /// The worker that asked last, as its number + 1; the others hang below it.
    asking: CachePadded<AtomicU32>,
    /// Whether the messenger sleeps until a worker asks.
    asleep: CachePadded<AtomicU32>,
}

fn wake(word: &AtomicU32) {
    let _woken = futex::wake(word, Flags::PRIVATE, 1);
}

impl IdleWorkers {
    /// A worker says that it is free. Its wake slot must be clear. Returns `false` when the
    /// trial is over.
    pub(crate) fn ask(&self, worker: usize, wake_slot: &WakeSlot) -> bool {
        let mut last = self.asking.0.load(Ordering::SeqCst);
        loop {
            if last == CLOSED {
                return false;
            }
            wake_slot.below.store(last, Ordering::Relaxed);
            match self.asking.0.compare_exchange_weak(last, worker as u32 + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        if self.asleep.0.load(Ordering::SeqCst) == 1 {
            wake(&self.asking.0);
        }
        true
    }

    /// Takes all workers that ask, the latest first; returns `false` when the trial is over.
    pub(crate) fn take(&self, wake_slots: &[WakeSlot], mut each: impl FnMut(usize)) -> bool {
        let mut last = self.asking.0.load(Ordering::SeqCst);
        // Not a swap: what is closed must stay closed for workers that ask at the same moment.
        while last != NONE && last != CLOSED {
            match self.asking.0.compare_exchange_weak(last, NONE, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        if last == CLOSED {
            return false;
        }
        let mut next = last;
        while next != NONE {
            let worker = next as usize - 1;
            // Read before the worker is woken, which may ask again immediately.
            next = wake_slots[worker].below.load(Ordering::Relaxed);
            each(worker);
        }
        true
    }

    /// Sleeps until a worker asks or the trial is over.
    pub(crate) fn wait(&self) {
        self.asleep.0.store(1, Ordering::SeqCst);
        while self.asking.0.load(Ordering::SeqCst) == NONE {
            let _again = futex::wait(&self.asking.0, Flags::PRIVATE, NONE, None);
        }
        self.asleep.0.store(0, Ordering::SeqCst);
    }

    /// The trial is over: every task that waits or asks here sees it.
    pub(crate) fn close(&self) {
        self.asking.0.store(CLOSED, Ordering::SeqCst);
        wake(&self.asking.0);
    }
}

impl WakeSlot {
    /// Takes the request away; called by its worker, before it asks. A closed one stays closed.
    pub(crate) fn clear(&self) {
        let _closed = self.called.0.compare_exchange(CALLED, NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A messenger has a request for this worker; a closed one stays closed.
    pub(crate) fn call(&self, call: Posted) {
        self.posted_ns.store(call.posted_ns, Ordering::Relaxed);
        self.arrived_ns.store(call.arrived_ns, Ordering::Relaxed);
        // The worker sees the two above once it sees this.
        if self.called.0.compare_exchange(NONE, CALLED, Ordering::Release, Ordering::Relaxed).is_ok() {
            wake(&self.called.0);
        }
    }

    /// Sleeps until woken; `None` when the trial is over.
    pub(crate) fn wait(&self) -> Option<Posted> {
        loop {
            match self.called.0.load(Ordering::Acquire) {
                NONE => {
                    let _again = futex::wait(&self.called.0, Flags::PRIVATE, NONE, None);
                }
                CALLED => {
                    return Some(Posted {
                        posted_ns: self.posted_ns.load(Ordering::Relaxed),
                        arrived_ns: self.arrived_ns.load(Ordering::Relaxed),
                    });
                }
                _ => return None,
            }
        }
    }

    /// The trial is over: the worker sees it, also when a request comes at the same moment.
    pub(crate) fn close(&self) {
        self.called.0.store(CLOSED, Ordering::SeqCst);
        wake(&self.called.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn taken(idle_workers: &IdleWorkers, wake_slots: &[WakeSlot]) -> Option<Vec<usize>> {
        let mut workers = Vec::new();
        idle_workers.take(wake_slots, |worker| workers.push(worker)).then_some(workers)
    }

    #[test]
    fn an_idle_worker_is_taken_once_and_the_latest_first() {
        let idle_workers = IdleWorkers::default();
        let wake_slots: Vec<WakeSlot> = (0..3).map(|_| WakeSlot::default()).collect();
        assert_eq!(taken(&idle_workers, &wake_slots), Some(vec![]));
        for worker in [1, 0, 2] {
            assert!(idle_workers.ask(worker, &wake_slots[worker]));
        }
        assert_eq!(taken(&idle_workers, &wake_slots), Some(vec![2, 0, 1]));
        assert_eq!(taken(&idle_workers, &wake_slots), Some(vec![]));
        idle_workers.close();
        assert!(!idle_workers.ask(0, &wake_slots[0]));
        assert_eq!(taken(&idle_workers, &wake_slots), None);
        idle_workers.wait();
    }

    #[test]
    fn a_closed_chair_stays_closed() {
        let wake_slot = WakeSlot::default();
        let call = Posted { posted_ns: 5, arrived_ns: 3 };
        wake_slot.call(call);
        assert_eq!(wake_slot.wait(), Some(call));
        wake_slot.clear();
        wake_slot.close();
        wake_slot.call(call);
        wake_slot.clear();
        assert_eq!(wake_slot.wait(), None);
    }

    /// Every worker is woken as often as it asked, whether it or the messenger was first.
    #[test]
    fn no_call_is_lost() {
        const ROUNDS: usize = 2_000;
        let shared = Arc::new((IdleWorkers::default(), (0..3).map(|_| WakeSlot::default()).collect::<Vec<_>>()));
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (idle_workers, wake_slots) = &*shared;
                    let mut calls = 0;
                    loop {
                        wake_slots[worker].clear();
                        if !idle_workers.ask(worker, &wake_slots[worker]) || wake_slots[worker].wait().is_none() {
                            return calls;
                        }
                        calls += 1;
                    }
                })
            })
            .collect();
        let (idle_workers, wake_slots) = &*shared;
        let mut called = 0;
        while called < ROUNDS {
            idle_workers.wait();
            idle_workers.take(wake_slots, |worker| {
                wake_slots[worker].call(Posted { posted_ns: 1, arrived_ns: 0 });
                called += 1;
            });
        }
        // Once all of them ask again, every call has been answered.
        let mut asking = 0;
        while asking < 3 {
            idle_workers.wait();
            idle_workers.take(wake_slots, |_| asking += 1);
        }
        idle_workers.close();
        wake_slots.iter().for_each(WakeSlot::close);
        let answered: usize = workers.into_iter().map(|w| w.join().expect("it ends")).sum();
        assert_eq!(answered, called);
    }
}
