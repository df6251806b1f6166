//! The side that posts requests.

use crate::request::idle_workers::Posted;
use crate::request::worker::{Shared, sleep_until};
use holdup_load::board::{Shareable, phase};
use holdup_load::clock::now_ns;
use holdup_load::placement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of a messenger that arrive by a schedule, as its coordinator sees them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// When the first one arrives, CLOCK_MONOTONIC; 0 before it is known.
    first_ns: AtomicU64,
    /// How many were given to workers.
    assigned: AtomicU64,
    /// How many found no free worker when they arrived, in the window.
    pub(crate) late: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Shareable for Arrivals {}

impl Arrivals {
    /// How many have arrived by then.
    pub(crate) fn due(&self, at_ns: u64, interval_ns: f64) -> u64 {
        match self.first_ns.load(Ordering::Acquire) {
            0 => 0,
            first if at_ns < first => 0,
            first => ((at_ns - first) as f64 / interval_ns) as u64 + 1,
        }
    }

    /// When one arrives, counted from 0.
    fn at_ns(&self, index: u64, interval_ns: f64) -> u64 {
        self.first_ns.load(Ordering::Relaxed) + (index as f64 * interval_ns).ceil() as u64
    }

    /// How long the oldest one that no worker has got waits by then, ns; `None` when there is none.
    pub(crate) fn oldest_wait_ns(&self, at_ns: u64, interval_ns: f64) -> Option<u64> {
        let assigned = self.assigned.load(Ordering::Acquire);
        (self.due(at_ns, interval_ns) > assigned).then(|| at_ns.saturating_sub(self.at_ns(assigned, interval_ns)))
    }
}

/// A messenger's life.
pub(crate) fn run(shared: &Arc<Shared>, index: usize) {
    if let Some(cpus) = &shared.messenger_cpus {
        // The CPUs were allowed a moment ago; where one went offline since, the environment's facts show it.
        let _stays = placement::stay_on(cpus);
    }
    if !shared.board.stage().wait_for_begin() {
        return;
    }
    match shared.interval_ns {
        None => on_asking(shared, index),
        Some(interval_ns) => {
            // The default slack would make every request up to 50 us late (PR_SET_TIMERSLACK, prctl(2)).
            // SAFETY: a plain system call for the calling thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            on_schedule(shared, index, interval_ns);
        }
    }
}

/// Wakes the workers that ask. As in schbench, all that ask together are woken with the time of the first wake-up.
fn on_asking(shared: &Shared, index: usize) {
    let (idle_workers, wake_slots) = (&shared.idle[index], shared.wake_slots_of(index));
    let open = |worker: usize, posted_ns| wake_slots[worker].call(Posted { posted_ns, arrived_ns: 0 });
    loop {
        idle_workers.wait();
        let posted_ns = now_ns();
        if !idle_workers.take(wake_slots, |worker| open(worker, posted_ns)) {
            return;
        }
    }
}

/// Calls a free worker whenever a request arrives; the one that was free last comes first.
fn on_schedule(shared: &Shared, index: usize, interval_ns: f64) {
    let (idle_workers, wake_slots, arrivals) =
        (&shared.idle[index], shared.wake_slots_of(index), &shared.board.slot(index).arrivals);
    let mut free = Vec::with_capacity(wake_slots.len());
    // Messengers take turns.
    let phase_ns = interval_ns * index as f64 / shared.idle.len() as f64;
    arrivals.first_ns.store(now_ns() + phase_ns as u64, Ordering::Release);
    let (mut assigned, mut late_until) = (0, 0);
    let late = |due: u64, assigned: u64, late_until: &mut u64| {
        let new = due.saturating_sub(assigned.max(*late_until));
        *late_until = due.max(*late_until);
        if shared.board.stage().phase() == phase::OPEN {
            arrivals.late.fetch_add(new, Ordering::Relaxed);
        }
    };
    loop {
        if !idle_workers.take(wake_slots, |worker| free.push(worker)) {
            return;
        }
        let due = arrivals.due(now_ns(), interval_ns);
        while assigned < due {
            let Some(worker) = free.pop() else { break };
            let arrived_ns = arrivals.at_ns(assigned, interval_ns);
            // Counted before the worker can be done with it, so that no more are done than were given.
            assigned += 1;
            arrivals.assigned.store(assigned, Ordering::Release);
            wake_slots[worker].call(Posted { posted_ns: now_ns(), arrived_ns });
        }
        if assigned < due {
            late(due, assigned, &mut late_until);
            idle_workers.wait();
            // What arrived meanwhile found no free worker either.
            late(arrivals.due(now_ns(), interval_ns), assigned, &mut late_until);
        } else {
            sleep_until(arrivals.at_ns(assigned, interval_ns), shared.board.stage());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_at_fixed_distances() {
        let arrivals = Arrivals::default();
        assert_eq!((arrivals.due(u64::MAX / 2, 10.0), arrivals.oldest_wait_ns(100, 10.0)), (0, None));
        arrivals.first_ns.store(1_000, Ordering::Relaxed);
        for (at_ns, due) in [(0, 0), (999, 0), (1_000, 1), (1_002, 1), (1_003, 2), (1_024, 10)] {
            assert_eq!(arrivals.due(at_ns, 2.5), due, "at {at_ns} ns");
        }
        for index in 0..100 {
            let at_ns = arrivals.at_ns(index, 2.5);
            assert!(arrivals.due(at_ns, 2.5) > index, "the one of {index} has arrived at its time");
        }
        arrivals.assigned.store(9, Ordering::Relaxed);
        assert_eq!(arrivals.oldest_wait_ns(1_024, 2.5), Some(1));
        assert_eq!(arrivals.oldest_wait_ns(1_020, 2.5), None);
    }
}
