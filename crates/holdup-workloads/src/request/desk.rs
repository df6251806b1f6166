//! Where workers ask a messenger for a request, and are called.

use holdup_load::board::Line;
use rustix::thread::futex::{self, Flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// On a desk: nobody asks. On a chair: nobody has called.
const NONE: u32 = 0;
/// On a desk: the trial is over.
const CLOSED: u32 = u32::MAX;
/// On a chair: there is a request.
const CALLED: u32 = 1;

/// A worker's place. All waiting is in the kernel (futex(2)), as it is in schbench.
#[derive(Default)]
pub(crate) struct Chair {
    called: Line<AtomicU32>,
    /// The worker that asked before, as its number + 1.
    below: AtomicU32,
    /// When the messenger called, CLOCK_MONOTONIC.
    posted_ns: AtomicU64,
    /// When the request arrived by the schedule; 0 where there is none.
    arrived_ns: AtomicU64,
}

/// A call, as the worker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// When the messenger called, CLOCK_MONOTONIC.
    pub(crate) posted_ns: u64,
    /// When the request arrived by the schedule; 0 where there is none.
    pub(crate) arrived_ns: u64,
}

/// A messenger's place.
#[derive(Default)]
pub(crate) struct Desk {
    /// The worker that asked last, as its number + 1; the others hang below it.
    asking: Line<AtomicU32>,
    /// Whether the messenger sleeps until someone asks.
    asleep: Line<AtomicU32>,
}

fn wake(word: &AtomicU32) {
    let _woken = futex::wake(word, Flags::PRIVATE, 1);
}

impl Desk {
    /// A worker says that it is free. Its chair must be one that nobody has called since. Returns `false` when the
    /// trial is over.
    pub(crate) fn ask(&self, worker: usize, chair: &Chair) -> bool {
        let mut last = self.asking.0.load(Ordering::SeqCst);
        loop {
            if last == CLOSED {
                return false;
            }
            chair.below.store(last, Ordering::Relaxed);
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
    pub(crate) fn take(&self, chairs: &[Chair], mut each: impl FnMut(usize)) -> bool {
        let mut last = self.asking.0.load(Ordering::SeqCst);
        // Not a swap: what is closed must stay closed for those who ask at the same moment.
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
            // Read before the worker is called, who may ask again at once.
            next = chairs[worker].below.load(Ordering::Relaxed);
            each(worker);
        }
        true
    }

    /// Sleeps until someone asks or the trial is over.
    pub(crate) fn wait(&self) {
        self.asleep.0.store(1, Ordering::SeqCst);
        while self.asking.0.load(Ordering::SeqCst) == NONE {
            let _again = futex::wait(&self.asking.0, Flags::PRIVATE, NONE, None);
        }
        self.asleep.0.store(0, Ordering::SeqCst);
    }

    /// The trial is over: whoever waits or asks here learns it.
    pub(crate) fn close(&self) {
        self.asking.0.store(CLOSED, Ordering::SeqCst);
        wake(&self.asking.0);
    }
}

impl Chair {
    /// Makes it one that nobody has called; by its worker, before it asks. A closed one stays closed.
    pub(crate) fn clear(&self) {
        let _closed = self.called.0.compare_exchange(CALLED, NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A messenger has a request for who sits here; a closed one stays closed.
    pub(crate) fn call(&self, call: Call) {
        self.posted_ns.store(call.posted_ns, Ordering::Relaxed);
        self.arrived_ns.store(call.arrived_ns, Ordering::Relaxed);
        // Whoever sits here sees the two above once it sees this.
        if self.called.0.compare_exchange(NONE, CALLED, Ordering::Release, Ordering::Relaxed).is_ok() {
            wake(&self.called.0);
        }
    }

    /// Sleeps until called; `None` when the trial is over.
    pub(crate) fn wait(&self) -> Option<Call> {
        loop {
            match self.called.0.load(Ordering::Acquire) {
                NONE => {
                    let _again = futex::wait(&self.called.0, Flags::PRIVATE, NONE, None);
                }
                CALLED => {
                    return Some(Call {
                        posted_ns: self.posted_ns.load(Ordering::Relaxed),
                        arrived_ns: self.arrived_ns.load(Ordering::Relaxed),
                    });
                }
                _ => return None,
            }
        }
    }

    /// The trial is over: who sits here learns it, also when a call comes at the same moment.
    pub(crate) fn close(&self) {
        self.called.0.store(CLOSED, Ordering::SeqCst);
        wake(&self.called.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn taken(desk: &Desk, chairs: &[Chair]) -> Option<Vec<usize>> {
        let mut workers = Vec::new();
        desk.take(chairs, |worker| workers.push(worker)).then_some(workers)
    }

    #[test]
    fn who_asks_is_taken_once_and_the_latest_first() {
        let desk = Desk::default();
        let chairs: Vec<Chair> = (0..3).map(|_| Chair::default()).collect();
        assert_eq!(taken(&desk, &chairs), Some(vec![]));
        for worker in [1, 0, 2] {
            assert!(desk.ask(worker, &chairs[worker]));
        }
        assert_eq!(taken(&desk, &chairs), Some(vec![2, 0, 1]));
        assert_eq!(taken(&desk, &chairs), Some(vec![]));
        desk.close();
        assert!(!desk.ask(0, &chairs[0]));
        assert_eq!(taken(&desk, &chairs), None);
        desk.wait();
    }

    #[test]
    fn a_closed_chair_stays_closed() {
        let chair = Chair::default();
        let call = Call { posted_ns: 5, arrived_ns: 3 };
        chair.call(call);
        assert_eq!(chair.wait(), Some(call));
        chair.clear();
        chair.close();
        chair.call(call);
        chair.clear();
        assert_eq!(chair.wait(), None);
    }

    /// Everyone is called as often as it asked, whoever of the two was first.
    #[test]
    fn no_call_is_lost() {
        const ROUNDS: usize = 2_000;
        let shared = Arc::new((Desk::default(), (0..3).map(|_| Chair::default()).collect::<Vec<_>>()));
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let (desk, chairs) = &*shared;
                    let mut calls = 0;
                    loop {
                        chairs[worker].clear();
                        if !desk.ask(worker, &chairs[worker]) || chairs[worker].wait().is_none() {
                            return calls;
                        }
                        calls += 1;
                    }
                })
            })
            .collect();
        let (desk, chairs) = &*shared;
        let mut called = 0;
        while called < ROUNDS {
            desk.wait();
            desk.take(chairs, |worker| {
                chairs[worker].call(Call { posted_ns: 1, arrived_ns: 0 });
                called += 1;
            });
        }
        // Once all of them ask again, every call has been answered.
        let mut asking = 0;
        while asking < 3 {
            desk.wait();
            desk.take(chairs, |_| asking += 1);
        }
        desk.close();
        chairs.iter().for_each(Chair::close);
        let answered: usize = workers.into_iter().map(|w| w.join().expect("it ends")).sum();
        assert_eq!(answered, called);
    }
}
