//! The workers: woken, they do a piece of work.

use crate::request::cpu_lock::CpuLocks;
use crate::request::idle_workers::{IdleWorkers, WakeSlot};
use crate::request::messenger::Arrivals;
use holdup_load::account::Marks;
use holdup_load::board::{Board, CachePadded, Shareable, Stage, phase};
use holdup_load::clock::now_ns;
use holdup_load::placement;
use holdup_load::record::Record;
use holdup_locks::calibrate::Work;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest sleep between two looks whether the trial is over, ns.
const LOOK_NS: u64 = 20_000_000;

/// A thread's part of the board: first the messengers', then the workers'.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Completed requests, written after each.
    pub(crate) requests: CachePadded<AtomicU64>,
    /// Requests that found the lock of their CPU held, in the window.
    pub(crate) spins: AtomicU64,
    /// How long they spun, ns.
    pub(crate) spun_ns: AtomicU64,
    /// A messenger's requests that come by a schedule.
    pub(crate) arrivals: Arrivals,
    /// The kernel's account of the thread.
    pub(crate) marks: Marks,
    /// From the call to running, ns.
    pub(crate) wakeups: Record,
    /// From the arrival (by schedule) or from running to the end, ns.
    pub(crate) latencies: Record,
}

// SAFETY: atomics only.
unsafe impl Shareable for Slot {}

/// The counts of one trial.
pub(crate) type Region = Board<(), Slot>;

/// All that the threads of one trial share.
pub(crate) struct Shared {
    pub(crate) board: Region,
    pub(crate) idle: Vec<IdleWorkers>,
    /// Of all workers, those of one messenger after another.
    pub(crate) wake_slots: Vec<WakeSlot>,
    pub(crate) workers_each: usize,
    /// `None` where operations hold no lock.
    pub(crate) locks: Option<CpuLocks>,
    pub(crate) work: Work,
    pub(crate) operations: u64,
    pub(crate) think_ns: u64,
    /// Distance of two requests of a messenger; `None` where they come when a worker asks.
    pub(crate) interval_ns: Option<f64>,
    pub(crate) messenger_cpus: Option<Vec<u32>>,
    pub(crate) worker_cpus: Option<Vec<u32>>,
    #[cfg(test)]
    pub(crate) disturbance: tests::Disturbance,
}

impl Shared {
    /// The wake slots of a messenger's workers.
    pub(crate) fn wake_slots_of(&self, messenger: usize) -> &[WakeSlot] {
        &self.wake_slots[messenger * self.workers_each..(messenger + 1) * self.workers_each]
    }

    pub(crate) fn worker_slots(&self) -> impl Iterator<Item = &Slot> {
        self.board.slots().skip(self.idle.len())
    }

    pub(crate) fn messenger_slots(&self) -> impl Iterator<Item = &Slot> {
        self.board.slots().take(self.idle.len())
    }

    /// Ends the trial. The lists of idle workers come first: a worker that finds its list closed does not go to sleep.
    pub(crate) fn stop(&self) {
        self.board.stage().enter(phase::STOP);
        self.idle.iter().for_each(IdleWorkers::close);
        self.wake_slots.iter().for_each(WakeSlot::close);
    }
}

/// Sleeps until then or until the trial stops, which is seen at least every 20 ms.
pub(crate) fn sleep_until(until_ns: u64, stage: &Stage) {
    loop {
        let now = now_ns();
        if now >= until_ns || stage.stopped() {
            return;
        }
        let next = until_ns.min(now + LOOK_NS);
        let time = Timespec { tv_sec: (next / 1_000_000_000) as i64, tv_nsec: (next % 1_000_000_000) as i64 };
        // An interrupted sleep is continued.
        let _slept = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    }
}

/// A worker's life. `index` counts the workers of all messengers.
pub(crate) fn run(shared: &Arc<Shared>, index: usize) {
    if let Some(cpus) = &shared.worker_cpus {
        // The CPUs were allowed a moment ago; where one went offline since, the environment's facts show it.
        let _stays = placement::stay_on(cpus);
    }
    let slot = shared.board.slot(shared.idle.len() + index);
    slot.wakeups.touch();
    slot.latencies.touch();
    let stage = shared.board.stage();
    if !stage.wait_for_begin() {
        return;
    }
    let (idle_workers, wake_slot) = (&shared.idle[index / shared.workers_each], &shared.wake_slots[index]);
    let (mut requests, mut seen, mut done) = (0, phase::IDLE, 0);
    loop {
        wake_slot.clear();
        if !idle_workers.ask(index % shared.workers_each, wake_slot) {
            break;
        }
        let Some(call) = wake_slot.wait() else { break };
        let running_ns = now_ns();
        if stage.is_open() {
            slot.wakeups.count(running_ns.saturating_sub(call.posted_ns));
        }
        #[cfg(test)]
        if shared.disturbance.strikes() {
            return;
        }
        if !request(shared, slot, running_ns, &mut done) {
            break;
        }
        let end_ns = now_ns();
        let begin_ns = if call.arrived_ns == 0 { running_ns } else { call.arrived_ns };
        let now = stage.phase();
        if now == phase::OPEN {
            slot.latencies.count(end_ns.saturating_sub(begin_ns));
        }
        if now != seen {
            seen = now;
            slot.marks.saw(now, requests);
        }
        requests += 1;
        slot.requests.0.store(requests, Ordering::Release);
    }
    slot.marks.saw(phase::CLOSED, requests);
    black_box(done);
}

/// Think, lock, work, unlock. Returns `false` when the trial is over.
fn request(shared: &Shared, slot: &Slot, running_ns: u64, done: &mut u64) -> bool {
    let stage = shared.board.stage();
    if shared.think_ns > 0 {
        sleep_until(running_ns.saturating_add(shared.think_ns), stage);
    }
    let held = match &shared.locks {
        None => None,
        Some(locks) => match locks.acquire(stage) {
            Some(held) => Some((locks, held)),
            None => return false,
        },
    };
    for _ in 0..shared.operations {
        *done = shared.work.run(*done, &|| stage.stopped());
    }
    if let Some((locks, held)) = held {
        locks.release(&held);
        if held.spun_ns > 0 && stage.is_open() {
            slot.spins.fetch_add(1, Ordering::Relaxed);
            slot.spun_ns.fetch_add(held.spun_ns, Ordering::Relaxed);
        }
    }
    !stage.stopped()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// What a test does to workers.
    #[derive(Default)]
    pub(crate) struct Disturbance {
        /// Every worker stands still from the first request that it gets after this time, CLOCK_MONOTONIC; 0 for never.
        pub(crate) from_ns: AtomicU64,
        /// Until this time.
        pub(crate) until_ns: AtomicU64,
        /// The worker that gets the next request ends at it. A certain worker might get none: the latest that asked is first, so
        /// that some sit through a whole trial.
        pub(crate) deadly: AtomicBool,
    }

    impl Disturbance {
        /// True if the worker that asks is to end.
        pub(super) fn strikes(&self) -> bool {
            let from_ns = self.from_ns.load(Ordering::SeqCst);
            let until_ns = self.until_ns.load(Ordering::SeqCst);
            while from_ns > 0 && (from_ns..until_ns).contains(&now_ns()) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            self.deadly.swap(false, Ordering::SeqCst)
        }
    }

    #[test]
    fn a_sleep_lasts_until_its_time_or_until_the_trial_is_over() {
        let board = Board::<(), ()>::new(1).expect("maps");
        let until = now_ns() + 30_000_000;
        sleep_until(until, board.stage());
        assert!(now_ns() >= until);
        board.stage().enter(phase::STOP);
        sleep_until(u64::MAX, board.stage());
    }
}
