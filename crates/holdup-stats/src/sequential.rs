//! Stopping early without being fooled by having looked.
//!
//! A run that looks at its result after every block and stops when it likes what it sees finds a
//! difference in A/A far more often than 1 time in 20. Here every look has its own, smaller level, so that over
//! all looks together the promise of [`ALPHA`] holds: group-sequential testing with error spending (Lan and DeMets,
//! Biometrika 70, 1983) and repeated confidence intervals (Jennison and Turnbull, JRSS B 51, 1989). The interval at
//! the confidence `1 − level` is valid at any look at which the run ends, for any reason: verdict, budget, Ctrl-C.

use crate::verdict::{ALPHA, MIN_BLOCKS};

/// The looks of a run: after each piece (block, or session where there are several) from the fourth on, at most
/// at `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    /// The number of pieces at the last look, at which the run ends in any case.
    last: u32,
}

/// The level of the last look by the number of pieces at it: the largest for which the whole run calls A/A different
/// in at most 4.9 % of 200,000 simulated runs or more. It falls ever slower: with more looks there is more to pay for.
const LAST_LEVELS: &[(u32, f64)] = &[
    (5, 0.0380),
    (6, 0.0332),
    (7, 0.0317),
    (8, 0.0298),
    (10, 0.0274),
    (12, 0.0260),
    (15, 0.0248),
    (20, 0.0233),
    (25, 0.0228),
    (30, 0.0222),
    (40, 0.0217),
    (60, 0.0212),
    (100, 0.0204),
    (200, 0.0200),
    (500, 0.0197),
    // Not simulated: below what the levels tend to.
    (u32::MAX, 0.0190),
];

impl Looks {
    /// Looks after each piece up to `last`.
    pub fn until(last: u32) -> Self {
        Looks { last }
    }

    /// The first look: with fewer pieces there is no verdict.
    pub fn first(&self) -> u32 {
        MIN_BLOCKS.min(self.last)
    }

    /// The last look.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// The level of the tests at the look after `pieces` pieces: the last level by the square of the share of
    /// pieces that are done. Early looks are strict, so that little is lost when the run continues to its end.
    pub fn level(&self, pieces: u32) -> f64 {
        if self.last <= MIN_BLOCKS {
            return ALPHA;
        }
        let share = f64::from(pieces.min(self.last)) / f64::from(self.last);
        self.last_level() * share * share
    }

    /// The confidence of the interval at that look.
    pub fn confidence(&self, pieces: u32) -> f64 {
        1.0 - self.level(pieces)
    }

    /// Between the entries of the table, the level of the larger number of pieces: it is the smaller one.
    fn last_level(&self) -> f64 {
        let entry = LAST_LEVELS.iter().find(|(last, _)| *last >= self.last).or(LAST_LEVELS.last());
        entry.map_or(ALPHA, |(_, level)| *level)
    }
}
