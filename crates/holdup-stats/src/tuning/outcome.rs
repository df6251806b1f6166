//! What is believed, for those who read it.

use super::choose::Belief;
use super::model::Term;
use super::posterior::DRAWS;
use super::{Point, Tuning};
use std::collections::BTreeMap;

/// A level of which it is this probable that it fails by itself is named.
const SURELY_FAILS: f64 = 0.9;

/// A pair whose effect is as probable as this is named.
const PROBABLE: f64 = 0.5;

/// What is believed after some blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The best point less the settings that are not worth keeping; the default when nothing gains.
    pub best: Point,
    /// Its gain over the default, as a difference of logarithms; posterior mean. It was chosen by the trials that it is
    /// estimated from: fresh blocks say what it is worth.
    pub gain_log: f64,
    /// Posterior standard deviation of the gain.
    pub gain_se_log: f64,
    /// Every level that is not a default, by factor and level.
    pub main_effects: Vec<MainEffect>,
    /// Pairs that probably do something together beyond what each does alone.
    pub interactions: Vec<Interaction>,
    /// Points that were measured in two blocks or more, and the best; the best mean first.
    pub candidates: Vec<Candidate>,
    /// Levels, as (factor, level), at which trials fail with any levels of the others.
    pub infeasible: Vec<(usize, u8)>,
}

/// What a level does alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MainEffect {
    /// Index of the factor.
    pub factor: usize,
    /// The level.
    pub level: u8,
    /// Difference of logarithms to the default, the other factors at their defaults; posterior mean.
    pub effect_log: f64,
    /// Posterior standard deviation.
    pub se_log: f64,
    /// Trials with this level that gave a value.
    pub trials: u32,
}

/// What two levels do together beyond what each does alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// Factor and level.
    pub a: (usize, u8),
    /// Factor and level.
    pub b: (usize, u8),
    /// Difference of logarithms; posterior mean.
    pub effect_log: f64,
    /// Posterior standard deviation.
    pub se_log: f64,
}

/// A point that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Where it is.
    pub point: Point,
    /// Blocks in which it gave a value.
    pub blocks: u32,
    /// Gain over the default, as a difference of logarithms; posterior mean.
    pub gain_log: f64,
    /// Posterior standard deviation.
    pub gain_se_log: f64,
    /// True if it may be the answer: it does not fail and violates no guard, as far as is known.
    pub is_eligible: bool,
}

pub(super) fn of(tuning: &Tuning) -> Outcome {
    let belief = tuning.belief();
    let best = belief.pruned(tuning);
    let (gain_log, gain_se_log) = gain(belief, &best);
    Outcome {
        main_effects: main_effects(tuning, belief),
        interactions: interactions(belief),
        candidates: candidates(tuning, belief, &best),
        infeasible: levels(tuning).filter(|(f, l)| belief.failures.of_level(*f, *l) >= SURELY_FAILS).collect(),
        best,
        gain_log,
        gain_se_log,
    }
}

/// The gain of a point over the default: posterior mean and standard deviation.
fn gain(belief: &Belief, point: &Point) -> (f64, f64) {
    (belief.value.mean(point), belief.value.deviation(|draw| belief.value.value(draw, point)))
}

fn levels(tuning: &Tuning) -> impl Iterator<Item = (usize, u8)> + '_ {
    tuning.space.factors.iter().enumerate().flat_map(|(factor, f)| (1..f.levels).map(move |level| (factor, level)))
}

fn main_effects(tuning: &Tuning, belief: &Belief) -> Vec<MainEffect> {
    let values = || tuning.blocks.iter().flatten().filter(|(_, seen)| seen.value_log.is_some());
    levels(tuning)
        .map(|(factor, level)| {
            let (effect_log, se_log) = gain(belief, &Point::default_of(tuning.space.factors.len()).with(factor, level));
            let trials = values().filter(|(point, _)| point.0[factor] == level).count() as u32;
            MainEffect { factor, level, effect_log, se_log, trials }
        })
        .collect()
}

fn interactions(belief: &Belief) -> Vec<Interaction> {
    let mut present: BTreeMap<usize, u32> = BTreeMap::new();
    for (term, _) in belief.value.draws.draws.iter().flatten() {
        *present.entry(*term).or_default() += 1;
    }
    let probable = present.into_iter().filter(|(_, n)| f64::from(*n) >= PROBABLE * DRAWS as f64);
    let named = probable.filter_map(|(term, _)| {
        let Term::Pair(a, b) = belief.value.terms.all[term] else { return None };
        let effect_log = belief.value.draws.mean[term];
        let se_log = belief.value.deviation(|draw| belief.value.coefficient(draw, term));
        Some(Interaction { a, b, effect_log, se_log })
    });
    let mut all: Vec<Interaction> = named.collect();
    all.sort_by(|a, b| b.effect_log.abs().total_cmp(&a.effect_log.abs()));
    all
}

fn candidates(tuning: &Tuning, belief: &Belief, best: &Point) -> Vec<Candidate> {
    let mut blocks: BTreeMap<&Point, u32> = BTreeMap::from([(best, 0)]);
    for (point, seen) in tuning.blocks.iter().flatten() {
        let count = blocks.entry(point).or_default();
        *count += u32::from(seen.value_log.is_some());
    }
    let often = blocks.into_iter().filter(|(point, n)| *n >= 2 || *point == best);
    let mut all: Vec<Candidate> = often
        .map(|(point, blocks)| {
            let (gain_log, gain_se_log) = gain(belief, point);
            let is_eligible = belief.is_eligible(tuning, point);
            Candidate { point: point.clone(), blocks, gain_log, gain_se_log, is_eligible }
        })
        .collect();
    all.sort_by(|a, b| b.gain_log.total_cmp(&a.gain_log).then(a.point.cmp(&b.point)));
    all
}
