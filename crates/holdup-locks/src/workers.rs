//! The workers of `lock-contention`, and what they say when they give up.

use crate::lock::{Algorithm, Sharing};
use crate::region::{Region, ending};
use crate::worker::Job;
use holdup_load::board::phase;
use holdup_load::drive::Team;
use holdup_load::worker_pool::{self, WorkerPool};
use holdup_model::Problem;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The workers of a trial. Dropping ends all of them.
pub(crate) struct Workers {
    region: Arc<Region>,
    pool: WorkerPool,
}

impl Workers {
    /// Starts one worker for each job.
    pub(crate) fn start(
        region: &Arc<Region>,
        algorithm: &'static Algorithm,
        sharing: Sharing,
        jobs: Vec<Job>,
    ) -> Result<Self, Problem> {
        let jobs = jobs.into_iter().map(|job| worker_pool::Job::new(move || algorithm.run(&job))).collect();
        let stop = region.clone();
        let pool = WorkerPool::start(sharing, "lock", jobs, move || stop.stage().enter(phase::STOP))?;
        Ok(Workers { region: region.clone(), pool })
    }

    /// What a worker said that ended before its time, if one did.
    fn gave_up(&self) -> Option<String> {
        self.region.slots().enumerate().find_map(|(index, slot)| match slot.ending.load(Ordering::Acquire) {
            ending::STUCK => Some(format!("worker {index} gave up: its lock was stuck")),
            ending::REFUSED => {
                let errno = slot.errno.load(Ordering::Relaxed);
                let why = io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
                Some(format!("worker {index} gave up: the kernel refused what its lock needs: {why}"))
            }
            _ => None,
        })
    }
}

impl Team for Workers {
    fn failed(&mut self) -> Option<String> {
        if let Some(why) = self.gave_up() {
            return Some(why);
        }
        let ended = self.pool.failed();
        // A worker that gave up between the two looks has said so before it ended.
        ended.map(|early| self.gave_up().unwrap_or(early))
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.pool.finish(hurry)
    }
}
