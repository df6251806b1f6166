//! Estimates of the remaining time, from the times that trials took.

/// Learns how long trials take beyond their planned load.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    planned_ns: u64,
    overhead_ns: f64,
    trials_seen: u32,
}

/// What a trial takes beyond its load before any was seen: starting a load program, connecting, reading logs.
const FIRST_GUESS_NS: f64 = 400_000_000.0;

impl Pace {
    /// `planned_ns` is settle + warm-up + window of one trial.
    pub(crate) fn new(planned_ns: u64) -> Self {
        Pace { planned_ns, overhead_ns: FIRST_GUESS_NS, trials_seen: 0 }
    }

    /// One trial took this long in all.
    pub(crate) fn saw(&mut self, took_ns: u64) {
        let overhead = took_ns as f64 - self.planned_ns as f64;
        self.trials_seen += 1;
        let weight = (1.0 / f64::from(self.trials_seen)).max(0.1);
        self.overhead_ns += weight * (overhead - self.overhead_ns);
    }

    /// What one more trial will take, ns.
    pub(crate) fn per_trial_ns(&self) -> u64 {
        (self.planned_ns as f64 + self.overhead_ns).max(0.0) as u64
    }

    /// What `trials` more will take, ns.
    pub(crate) fn left_ns(&self, trials: u32) -> u64 {
        self.per_trial_ns().saturating_mul(u64::from(trials))
    }

    /// True if another block of `trials` fits into the budget after `spent_ns`.
    pub(crate) fn fits(&self, budget_ns: Option<u64>, spent_ns: u64, trials: u32) -> bool {
        budget_ns.is_none_or(|budget| spent_ns.saturating_add(self.left_ns(trials)) <= budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_trials_took() {
        let mut pace = Pace::new(2_000_000_000);
        assert_eq!(pace.left_ns(10), 24_000_000_000);
        for _ in 0..50 {
            pace.saw(3_000_000_000);
        }
        assert!((pace.per_trial_ns() as f64 - 3e9).abs() < 1e7, "{}", pace.per_trial_ns());
    }

    #[test]
    fn a_block_that_would_burst_the_budget_is_not_begun() {
        let mut pace = Pace::new(1_000_000_000);
        pace.saw(1_000_000_000);
        assert!(pace.fits(None, u64::MAX, 1_000));
        assert!(pace.fits(Some(10_000_000_000), 6_000_000_000, 4));
        assert!(!pace.fits(Some(10_000_000_000), 6_000_000_001, 4));
    }
}
