//! The measured loop on the calling thread, for benches that compare it with a hand-written one.

use crate::calibrate::Work;
use crate::lock::{Algorithm, Sharing};
use crate::region::Region;
use crate::worker::Job;
use holdup_load::board::phase;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One worker of a lock without contention, with an empty section and no think time.
pub struct Bare {
    algorithm: &'static Algorithm,
    job: Job,
}

impl Bare {
    /// With the given sampling, as in an open window.
    ///
    /// # Errors
    /// When the memory cannot be mapped or the lock not be made.
    pub fn new(algorithm: &'static Algorithm, sample_every: u64) -> io::Result<Self> {
        let region = Arc::new(Region::new(1)?);
        algorithm.entry.init(&region, Sharing::Threads)?;
        region.stage().enter(phase::OPEN);
        let job = Job {
            region,
            index: 0,
            sharing: Sharing::Threads,
            seed: 1,
            section: Work::NONE,
            think: Work::NONE,
            pages: None,
            sample_every: sample_every.max(1),
            batch: Job::batch_for(0),
            limit: 0,
            cpu: None,
            exact: None,
        };
        Ok(Bare { algorithm, job })
    }

    /// Runs about as many operations (up to one batch more) and gives how many they were.
    pub fn run(&mut self, operations: u64) -> u64 {
        self.job.limit = operations;
        self.algorithm.run(&self.job);
        self.job.region.slot(0).operations.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;

    #[test]
    fn one_of_so_many_acquisitions_is_timed() {
        for algorithm in algorithms::usable() {
            for (sample_every, operations, samples) in [(1, 100, 100), (10, 640, 64), (64, 6_400, 100), (1_000, 999, 0)]
            {
                let mut bare = Bare::new(algorithm, sample_every).expect("memory for one worker");
                let done = bare.run(operations);
                // A batch that was begun is ended.
                assert!((operations..operations + 64).contains(&done), "{done} of {operations}");
                let counted = bare.job.region.slot(0).acquisitions.total();
                let expected = samples..=samples + 64 / sample_every;
                assert!(expected.contains(&counted), "{counted} samples of {done}, one in {sample_every}");
            }
        }
    }
}
