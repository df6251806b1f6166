//! Which levels, or pairs of levels, make trials fail.
//!
//! A level or pair at which a trial did not fail is not to blame. Of the others each may be, a level rather than a pair;
//! a trial also fails now and then for no reason of the point. Sets that may be to blame are drawn by Gibbs sampling.

use super::{Point, Seen};
use crate::random::Noise;
use std::collections::BTreeSet;

/// One level, or two together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suspect(pub(super) Vec<(usize, u8)>);

/// Prior probabilities.
const LEVEL_FAILS: f64 = 0.03;
const PAIR_FAILS: f64 = 0.001;
const FAILS_ANYWAY: f64 = 0.003;

const BURN_IN: usize = 200;
const THINNING: usize = 10;

/// With more suspects than this pairs are left out: levels explain most.
const MOST_SUSPECTS: usize = 400;

impl Suspect {
    /// True if a point has all of its levels.
    pub(super) fn is_in(&self, point: &Point) -> bool {
        self.0.iter().all(|(factor, level)| point.0[*factor] == *level)
    }

    /// The default with these levels.
    pub(super) fn alone(&self, factors: usize) -> Point {
        self.0.iter().fold(Point::default_of(factors), |point, (factor, level)| point.with(*factor, *level))
    }
}

/// What may be to blame.
#[derive(Debug, Clone, Default)]
pub(super) struct Failures {
    pub(super) suspects: Vec<Suspect>,
    /// Probability of each.
    pub(super) probabilities: Vec<f64>,
    /// Sets of suspects, by index, one for each draw.
    pub(super) draws: Vec<Vec<usize>>,
    /// Points that failed.
    pub(super) failed: BTreeSet<Point>,
}

impl Failures {
    pub(super) fn of(blocks: &[Vec<(Point, Seen)>], draws: usize, seed: u64) -> Failures {
        let trials = || blocks.iter().flatten().filter(|(point, _)| !point.is_default());
        let failed: Vec<&Point> = trials().filter(|(_, s)| s.value_log.is_none()).map(|(p, _)| p).collect();
        if failed.is_empty() {
            return Failures { draws: vec![Vec::new(); draws], ..Failures::default() };
        }
        let passed: BTreeSet<&Point> = trials().filter(|(_, s)| s.value_log.is_some()).map(|(p, _)| p).collect();
        let suspects = suspects(&failed, &passed);
        let holds: Vec<Vec<usize>> =
            suspects.iter().map(|s| (0..failed.len()).filter(|t| s.is_in(failed[*t])).collect()).collect();
        let mut random = Noise::new(seed);
        let mut is_to_blame = vec![false; suspects.len()];
        // How many of those to blame each failed trial has.
        let mut causes = vec![0_u32; failed.len()];
        let mut out = Failures {
            probabilities: vec![0.0; suspects.len()],
            failed: failed.iter().map(|p| (*p).clone()).collect(),
            ..Failures::default()
        };
        for sweep in 1..=BURN_IN + draws * THINNING {
            for (at, suspect) in suspects.iter().enumerate() {
                if is_to_blame[at] {
                    holds[at].iter().for_each(|t| causes[*t] -= 1);
                }
                let prior = if suspect.0.len() == 1 { LEVEL_FAILS } else { PAIR_FAILS };
                let unexplained = holds[at].iter().filter(|t| causes[**t] == 0).count();
                let odds = prior / (1.0 - prior) * FAILS_ANYWAY.powf(-(unexplained as f64)).min(1e300);
                let probability = odds / (1.0 + odds);
                is_to_blame[at] = random.uniform() < probability;
                if is_to_blame[at] {
                    holds[at].iter().for_each(|t| causes[*t] += 1);
                }
                if sweep > BURN_IN {
                    out.probabilities[at] += probability / (draws * THINNING) as f64;
                }
            }
            if sweep > BURN_IN && (sweep - BURN_IN).is_multiple_of(THINNING) {
                out.draws.push((0..suspects.len()).filter(|s| is_to_blame[*s]).collect());
            }
        }
        out.suspects = suspects;
        out
    }

    /// True if a point fails in a draw.
    pub(super) fn fails_in(&self, draw: usize, point: &Point) -> bool {
        self.draws[draw].iter().any(|s| self.suspects[*s].is_in(point))
    }

    /// The probability that a point fails.
    pub(super) fn probability(&self, point: &Point) -> f64 {
        if self.suspects.is_empty() {
            return 0.0;
        }
        (0..self.draws.len()).filter(|draw| self.fails_in(*draw, point)).count() as f64 / self.draws.len() as f64
    }

    /// The probability that a level fails by itself.
    pub(super) fn of_level(&self, factor: usize, level: u8) -> f64 {
        let at = self.suspects.iter().position(|s| s.0 == [(factor, level)]);
        at.map_or(0.0, |at| self.probabilities[at])
    }
}

fn suspects(failed: &[&Point], passed: &BTreeSet<&Point>) -> Vec<Suspect> {
    let mut levels = BTreeSet::new();
    let mut pairs = BTreeSet::new();
    for point in failed {
        let settings: Vec<(usize, u8)> = point.settings().collect();
        for (at, b) in settings.iter().enumerate() {
            levels.insert(Suspect(vec![*b]));
            pairs.extend(settings[..at].iter().map(|a| Suspect(vec![*a, *b])));
        }
    }
    let is_cleared = |s: &Suspect| passed.iter().any(|point| s.is_in(point));
    let levels: Vec<Suspect> = levels.into_iter().filter(|s| !is_cleared(s)).collect();
    // A pair of a level that is a suspect itself adds nothing before that one is cleared.
    let holds_suspect = |s: &Suspect| s.0.iter().any(|x| levels.iter().any(|l| l.0[0] == *x));
    let pairs: Vec<Suspect> = pairs.into_iter().filter(|s| !holds_suspect(s) && !is_cleared(s)).collect();
    let room = MOST_SUSPECTS.saturating_sub(levels.len());
    levels.into_iter().chain(pairs.into_iter().take(room)).collect()
}
