//! One trial of `wakeup`: the coordinator's side.

use crate::wakeup::results;
use crate::wakeup::setup::Setup;
use crate::wakeup::worker::{Job, Slots, become_fifo};
use holdup_load::board::phase;
use holdup_load::clock::now_ns;
use holdup_load::drive::{self, Team};
use holdup_load::worker_pool::{self, Sharing, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_model::Problem;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether a thread of holdup may be SCHED_FIFO: tried on one that ends immediately.
pub(crate) fn may_be_fifo() -> io::Result<()> {
    std::thread::spawn(|| become_fifo(1)).join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub(crate) fn run(setup: &Setup, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let slots = Slots::new(setup.threads).map_err(|e| {
        Problem::trial(format!("{} threads", setup.threads), format!("no memory for their counts: {e}"))
    })?;
    let slots = Arc::new(slots);
    let job = |index: usize| {
        let cpus = if setup.pin { vec![setup.cpus[index % setup.cpus.len()]] } else { setup.cpus.clone() };
        let job = Job {
            slots: slots.clone(),
            index,
            interval_ns: setup.interval_of(index),
            offset_ns: setup.interval_ns * index as u64 / setup.threads as u64,
            priority: setup.priority,
            cpus,
        };
        worker_pool::Job::new(move || job.run())
    };
    let stop = slots.clone();
    let pool = WorkerPool::start(Sharing::Threads, "wakeup", (0..setup.threads).map(job).collect(), move || {
        stop.stage().enter(phase::STOP);
    })?;
    let team = Threads { slots: slots.clone(), pool };
    let (begin, end) = drive::through(trial, slots.stage(), setup.threads, team, now_ns)?;
    results::of(setup, &slots, end.saturating_sub(begin))
}

/// The threads, and why one of them gave up.
struct Threads {
    slots: Arc<Slots>,
    pool: WorkerPool,
}

impl Team for Threads {
    fn failed(&mut self) -> Option<String> {
        let gave_up = self.slots.slots().enumerate().find_map(|(index, slot)| {
            let errno = slot.errno.load(Ordering::Acquire);
            (errno != 0).then(|| format!("thread {index} gave up: {}", io::Error::from_raw_os_error(errno)))
        });
        gave_up.or_else(|| self.pool.failed())
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.pool.finish(hurry)
    }
}
