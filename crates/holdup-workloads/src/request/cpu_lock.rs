//! A spin lock for each CPU.
//!
//! No other task runs on a CPU while its lock is taken there, unless the holder was preempted or migrated: then the next
//! one that wants it spins until the holder has run again. How often that happens is what the lock is for.

use holdup_load::board::{CachePadded, Stage};
use holdup_load::clock::now_ns;
use std::sync::atomic::{AtomicU32, Ordering};

/// The locks of all CPUs.
pub(crate) struct CpuLocks {
    locks: Vec<CachePadded<AtomicU32>>,
}

/// A lock that is held; it is given back by [`CpuLocks::release`].
pub(crate) struct Held {
    cpu: usize,
    /// How long the lock was waited for, ns; 0 when it was free.
    pub(crate) spun_ns: u64,
}

/// The CPU that the calling thread runs on; the first where the kernel does not say.
fn current_cpu() -> usize {
    // SAFETY: a plain call; its answer may be out of date immediately.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

impl CpuLocks {
    /// Free locks for CPUs up to this number.
    pub(crate) fn new(highest_cpu: u32) -> Self {
        CpuLocks { locks: (0..=highest_cpu).map(|_| CachePadded(AtomicU32::new(0))).collect() }
    }

    fn of(&self, cpu: usize) -> &AtomicU32 {
        // A CPU beyond those that were known shares the lock of another one.
        &self.locks[cpu % self.locks.len()].0
    }

    /// Takes the lock of the CPU that the caller runs on, and is still on it then; `None` when the trial is over.
    pub(crate) fn acquire(&self, stage: &Stage) -> Option<Held> {
        let mut waiting_since_ns = 0;
        loop {
            let cpu = current_cpu();
            if self.of(cpu).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                if current_cpu() == cpu {
                    let spun_ns = if waiting_since_ns == 0 { 0 } else { (now_ns() - waiting_since_ns).max(1) };
                    return Some(Held { cpu, spun_ns });
                }
                // Migrated between the two: the lock is that of another CPU.
                self.of(cpu).store(0, Ordering::Release);
                continue;
            }
            if waiting_since_ns == 0 {
                waiting_since_ns = now_ns();
            }
            if stage.stopped() {
                return None;
            }
            std::hint::spin_loop();
        }
    }

    /// Gives it back, wherever the caller runs now.
    pub(crate) fn release(&self, held: &Held) {
        self.of(held.cpu).store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_load::board::{Board, phase};
    use holdup_load::placement::stay_on;
    use std::sync::Arc;

    #[test]
    fn a_task_that_finds_the_lock_of_its_cpu_held_spins_until_it_is_free_or_the_trial_over() {
        let cpu = holdup_host::cpu_topologies(&holdup_host::Host::real()).first().expect("a CPU is allowed").cpu;
        let locks = Arc::new(CpuLocks::new(cpu));
        let board = Arc::new(Board::<(), ()>::new(1).expect("maps"));
        let take = || {
            let (locks, board) = (locks.clone(), board.clone());
            std::thread::spawn(move || {
                stay_on(&[cpu]).expect("it is allowed");
                locks.acquire(board.stage()).map(|held| held.spun_ns)
            })
        };
        let first = take().join().expect("it ends");
        assert_eq!(first, Some(0), "a free lock is taken immediately");
        // The holder has ended and not given it back, as if it were preempted. A late waiter finds the lock free, and
        // is the next holder.
        let spins = (0..200).any(|_| {
            let waiter = take();
            std::thread::sleep(std::time::Duration::from_millis(5));
            locks.release(&Held { cpu: cpu as usize, spun_ns: 0 });
            waiter.join().expect("it ends").is_some_and(|ns| ns > 0)
        });
        assert!(spins, "a lock that is held was taken immediately, 200 times");
        let third = take();
        board.stage().enter(phase::STOP);
        assert_eq!(third.join().expect("it ends"), None);
    }
}
