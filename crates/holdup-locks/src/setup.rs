//! The parameters of `lock-contention`, read and checked.

use crate::algorithms;
use crate::lock::{Algorithm, Reach, Sharing};
use holdup_catalogue::lock_contention::{self, FirstTouch, Pages, TruthRecord};
use holdup_model::{Availability, Parameters, Problem};
use std::path::PathBuf;

/// One arm's parameters.
#[derive(Debug, Clone)]
pub struct Setup {
    /// How many workers.
    pub workers: usize,
    pub algorithm: &'static Algorithm,
    /// Work inside the lock, ns.
    pub section_ns: u64,
    /// Work outside the lock, ns.
    pub think_ns: u64,
    /// Threads or processes.
    pub sharing: Sharing,
    /// First touches for each section.
    pub faults: usize,
    /// True if they come before the lock.
    pub touches_before: bool,
    /// True if they touch huge pages.
    pub huge: bool,
    /// One of n acquisitions is timed; 0: see [`Setup::sampling`].
    pub sample_every: u64,
    /// True if workers stay on one CPU.
    pub pin: bool,
    /// Where the workers' record is published, when one is kept.
    pub(crate) truth: Option<(PathBuf, TruthRecord)>,
}

impl Setup {
    /// Reads the parameters of an arm, defaults included.
    ///
    /// # Errors
    /// When a value is missing, of the wrong type or out of bounds, which the plan's checker should have seen.
    pub fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let p = lock_contention::Parameters::read(parameters)?;
        let algorithm = algorithms::find(p.algorithm.word())
            .ok_or_else(|| Problem::internal(format!("algorithm {}", p.algorithm), "it is declared and not there"))?;
        Ok(Setup {
            workers: p.threads as usize,
            algorithm,
            section_ns: p.section,
            think_ns: p.think,
            sharing: p.sharing,
            faults: p.faults as usize,
            touches_before: p.first_touch == FirstTouch::Before,
            huge: p.pages == Pages::Huge,
            sample_every: p.sample_every,
            pin: p.pin,
            truth: p.truth.map(|path| (path, p.truth_record.unwrap_or(TruthRecord::LockWord))),
        })
    }

    /// Whether the lock works on this machine.
    ///
    /// # Errors
    /// Of kind `Host` when it does not, with what would make it work; of kind `Usage` when the parameters exclude each other.
    pub fn available(&self) -> Result<(), Problem> {
        if self.touches_before && self.sharing == Sharing::Threads {
            let why = "which pages threads touch is decided inside the lock";
            return Err(Problem::usage("first_touch = before", why).hint("sharing = \"processes\""));
        }
        let what = format!("algorithm {}", self.algorithm.meta.id);
        if (self.algorithm.reach, self.sharing) == (Reach::OneProcess, Sharing::Processes) {
            let why = "its waiters meet inside one process alone";
            return Err(Problem::host(what, why).hint("sharing = \"threads\", or another algorithm"));
        }
        let Availability::Unavailable { reason, remedy } = self.algorithm.probe() else { return Ok(()) };
        let problem = Problem::host(what, reason);
        Err(match remedy {
            Some(remedy) => problem.hint(remedy),
            None => problem,
        })
    }
}

/// What timing may add to an uncontended operation, as a share.
const TIMING_SHARE: f64 = 0.02;
/// What timing one acquisition costs, in readings of the clock: two of them, and about as much again
/// because the CPU cannot overlap the acquisition with its neighbours.
const READINGS_PER_SAMPLE: f64 = 4.0;
/// What the cheapest pair of lock and unlock takes, ns.
const LEAST_PAIR_NS: f64 = 2.0;

impl Setup {
    /// How many acquisitions go on one that is timed. Where the plan does not say, the number at which timing adds
    /// about 2 % to an uncontended operation, as a power of two so that it is the same in each session.
    pub fn sampling(&self, clock_ns: f64) -> u64 {
        if self.sample_every > 0 {
            return self.sample_every;
        }
        let operation_ns = self.section_ns as f64 + self.think_ns as f64 + LEAST_PAIR_NS;
        let every = READINGS_PER_SAMPLE * clock_ns / (TIMING_SHARE * operation_ns);
        (every.ceil() as u64).clamp(1, 1 << 20).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timing_costs_little_where_the_plan_does_not_say_how_often() {
        let check = |section: i64, think: i64, sample_every: i64, expect: u64| {
            let mut parameters = lock_contention::Parameters::defaults(1);
            parameters.set("section", section);
            parameters.set("think", think);
            parameters.set("sample_every", sample_every);
            let setup = Setup::read(&parameters).expect("valid");
            assert_eq!(setup.sampling(20.0), expect, "{section} ns inside, {think} ns outside, {sample_every}");
        };
        check(0, 0, 0, 2048);
        check(100, 100, 0, 32);
        check(1_000, 3_000, 0, 1);
        check(i64::MAX, i64::MAX, 0, 1);
        check(0, 0, 64, 64);
        check(1_000_000, 0, 1_000_000_000, 1_000_000_000);
    }
}
