//! Which of many settings, each with a few levels, make a noisy metric better, and what to measure next to find out.
//!
//! A point is a level for each factor; level 0 is the default. Trials come in blocks that hold the default and a few
//! points once each, so what a block shares cancels. The logarithm of the metric is the block's level, plus sparse
//! effects of levels, of pairs of levels and of single points, plus noise (`model`). The posterior is drawn from by
//! Gibbs sampling (`posterior`; George and McCulloch, "Variable selection via Gibbs sampling", 1993), and so is the set
//! of levels and pairs at which trials fail (`failures`). Each draw is a whole surface with its own best point.
//!
//! First come blocks in which levels and pairs of levels are balanced and every other point mirrors the one before
//! (`design`; Plackett and Burman, "The design of optimum multifactorial experiments", 1946; Booth and Cox, "Some
//! systematic supersaturated designs", 1962). Then the best points of draws race against the leader (`choose`; Thompson,
//! "On the likelihood that one unknown probability exceeds another", 1933; Russo, "Simple Bayesian algorithms for best-arm
//! identification", 2016), until the gain that is still expected is small. `simulate` plays whole searches.

mod choose;
mod design;
mod failures;
mod model;
mod outcome;
mod posterior;
mod simulate;

pub use outcome::{Candidate, Interaction, MainEffect, Outcome};
pub use simulate::{Played, Surface, SurfaceOptions, simulate_halving, simulate_random, simulate_tuning};

use crate::NoEstimate;
use choose::Belief;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// More factors than this are refused.
pub const MOST_FACTORS: usize = 64;

/// Levels of a factor, the default included.
pub const LEVELS: std::ops::RangeInclusive<u8> = 2..=8;

/// Logarithms farther from zero than this are no measurement, and their squares would overflow.
const LARGEST_LOG: f64 = 1e3;

/// Levels of each factor chosen; index 0 is the default.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point(pub Vec<u8>);

impl Point {
    /// The default of this number of factors.
    pub fn default_of(factors: usize) -> Point {
        Point(vec![0; factors])
    }

    /// True if every factor has its default.
    pub fn is_default(&self) -> bool {
        self.0.iter().all(|level| *level == 0)
    }

    /// This point with another level of one factor.
    fn with(&self, factor: usize, level: u8) -> Point {
        let mut point = self.clone();
        point.0[factor] = level;
        point
    }

    /// The factors that are not at their default, with their levels.
    fn settings(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        self.0.iter().copied().enumerate().filter(|(_, level)| *level > 0)
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Factor {
    /// How many levels, within [`LEVELS`]; level 0 is the default.
    pub levels: u8,
    /// True if levels lie in an order, so that neighbours are alike.
    pub is_ordered: bool,
    /// What setting another level costs before a trial, in seconds. Of points that are as good as each other, the
    /// cheaper is preferred.
    pub change_cost_s: f64,
}

/// Two levels that do not go together: (factor, level) with (factor, level).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The one.
    pub a: (usize, u8),
    /// The other.
    pub b: (usize, u8),
}

/// What is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// The settings, at most [`MOST_FACTORS`].
    pub factors: Vec<Factor>,
    /// Levels that do not go together; such points are never proposed.
    pub conflicts: Vec<Conflict>,
}

impl Space {
    fn may_hold(&self, point: &Point) -> bool {
        self.conflicts.iter().all(|c| point.0[c.a.0] != c.a.1 || point.0[c.b.0] != c.b.1)
    }
}

/// How a search goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Same seed and same trials, same proposals.
    pub seed: u64,
    /// The search ends before it would take more trials than this, those of the default included.
    pub most_trials: u32,
    /// Gains below this, as a difference of logarithms, do not pay; above zero.
    pub least_gain_log: f64,
    /// For each guard by how much it may get worse, as a difference of logarithms; not negative.
    pub guards_log: Vec<f64>,
    /// The most points in a block beside the default.
    pub points_per_block: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 1,
            most_trials: 400,
            least_gain_log: 0.01_f64.ln_1p(),
            guards_log: Vec::new(),
            points_per_block: 7,
        }
    }
}

/// What a trial gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Logarithm of the metric, turned so that larger is better; `None` when the trial failed at this point.
    pub value_log: Option<f64>,
    /// Logarithms of the guards, turned so that larger is worse; `None` where there is no value.
    pub guards_log: Vec<Option<f64>>,
}

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All levels, balanced: what does each one do alone?
    Screening,
    /// The levels that may be good, balanced: what do they do together?
    Interactions,
    /// The best points against each other and the default.
    Racing,
    /// The leader without one of its settings: is each worth keeping?
    Pruning,
}

/// Why a search is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nothing is better than the default, as far as it would pay.
    NothingGains,
    /// More trials are not expected to find a better point that pays.
    Found,
    /// Trials are used up; the best so far may not be the best there is.
    OutOfTrials,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Measure one block, then ask again.
    Measure {
        /// The points, each once and in random order; the default belongs to every block and is not listed.
        points: Vec<Point>,
        /// What the block is for.
        phase: Phase,
        /// How many blocks this phase still has, this one included, when that is known.
        of: Option<u32>,
    },
    /// The search is over.
    Done {
        /// Why.
        reason: Ended,
    },
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Tuning {
    space: Space,
    options: Options,
    blocks: Vec<Vec<(Point, Seen)>>,
    /// What is believed after these blocks; computed when it is asked for.
    belief: OnceCell<Belief>,
}

impl Tuning {
    /// A search in which nothing is measured yet.
    ///
    /// # Errors
    /// No factor or too many; a count of levels outside of [`LEVELS`]; costs or options that are negative, not finite
    /// or zero where that means nothing; conflicts that name what does not exist, or the default.
    pub fn new(space: Space, options: Options) -> Result<Tuning, NoEstimate> {
        check_space(&space)?;
        check_options(&options)?;
        Ok(Tuning { space, options, blocks: Vec::new(), belief: OnceCell::new() })
    }

    /// Takes the trials of one block; it may hold fewer or other points than were asked for.
    ///
    /// # Errors
    /// A block without the default, or with a point twice; a point that is not of this space; values that are no
    /// logarithm of a measurement; another number of guards. Nothing is taken then.
    pub fn add_block(&mut self, block: &[(Point, Seen)]) -> Result<(), NoEstimate> {
        let mut points = BTreeSet::new();
        for (point, seen) in block {
            self.check_trial(point, seen)?;
            if !points.insert(point) {
                return Err(NoEstimate::new("a block holds a point twice"));
            }
        }
        if !block.iter().any(|(point, _)| point.is_default()) {
            return Err(NoEstimate::new("a block lacks the default"));
        }
        self.blocks.push(block.to_vec());
        self.belief = OnceCell::new();
        Ok(())
    }

    fn check_trial(&self, point: &Point, seen: &Seen) -> Result<(), NoEstimate> {
        let factors = &self.space.factors;
        if point.0.len() != factors.len() {
            return Err(NoEstimate::new(format!("a point of {} factors, not of {}", point.0.len(), factors.len())));
        }
        if let Some(at) = (0..factors.len()).find(|at| point.0[*at] >= factors[*at].levels) {
            return Err(NoEstimate::new(format!("factor {at} has no level {}", point.0[at])));
        }
        if seen.guards_log.len() != self.options.guards_log.len() {
            let wanted = self.options.guards_log.len();
            return Err(NoEstimate::new(format!("{} guards, not {wanted}", seen.guards_log.len())));
        }
        let is_sound = |value: &f64| value.abs() <= LARGEST_LOG;
        if !seen.value_log.iter().chain(seen.guards_log.iter().flatten()).all(is_sound) {
            return Err(NoEstimate::new("a value that is no logarithm of a measurement"));
        }
        Ok(())
    }

    /// How many trials were taken, failed ones included.
    pub fn trials(&self) -> u32 {
        u32::try_from(self.blocks.iter().map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// What to do next: the same for the same blocks and the same seed.
    pub fn next(&self) -> Next {
        choose::next(self)
    }

    /// What is believed now.
    pub fn outcome(&self) -> Outcome {
        outcome::of(self)
    }

    fn belief(&self) -> &Belief {
        self.belief.get_or_init(|| Belief::of(self))
    }
}

fn check_space(space: &Space) -> Result<(), NoEstimate> {
    let factors = &space.factors;
    match factors.len() {
        0 => return Err(NoEstimate::new("there is no factor")),
        1..=MOST_FACTORS => {}
        n => return Err(NoEstimate::new(format!("{n} factors: at most {MOST_FACTORS}"))),
    }
    for (at, factor) in factors.iter().enumerate() {
        if !LEVELS.contains(&factor.levels) {
            let (least, most) = (LEVELS.start(), LEVELS.end());
            return Err(NoEstimate::new(format!("factor {at} has {} levels: {least} to {most}", factor.levels)));
        }
        if !(factor.change_cost_s.is_finite() && factor.change_cost_s >= 0.0) {
            return Err(NoEstimate::new(format!("factor {at}: the cost is negative or not finite")));
        }
    }
    for conflict in &space.conflicts {
        for (factor, level) in [conflict.a, conflict.b] {
            if factors.get(factor).is_none_or(|f| level >= f.levels) {
                return Err(NoEstimate::new(format!("a conflict names factor {factor}, level {level}: there is none")));
            }
        }
        if conflict.a.1 == 0 && conflict.b.1 == 0 {
            return Err(NoEstimate::new("a conflict excludes the default"));
        }
        if conflict.a.0 == conflict.b.0 {
            return Err(NoEstimate::new(format!("a conflict of factor {} with itself", conflict.a.0)));
        }
    }
    Ok(())
}

fn check_options(options: &Options) -> Result<(), NoEstimate> {
    if !(options.least_gain_log.is_finite() && options.least_gain_log > 0.0) {
        return Err(NoEstimate::new("the least gain is not above zero, or not finite"));
    }
    if options.guards_log.iter().any(|g| !(g.is_finite() && *g >= 0.0)) {
        return Err(NoEstimate::new("what a guard may lose is negative or not finite"));
    }
    if options.points_per_block == 0 {
        return Err(NoEstimate::new("no points in a block beside the default"));
    }
    Ok(())
}
