//! What is believed after some blocks, and which block to measure next.

use super::failures::Failures;
use super::model::{self, Sums, Term, Terms};
use super::posterior::{self, DRAWS, Draws};
use super::{Ended, Next, Phase, Point, Tuning, design};
use crate::random::Noise;
use std::collections::{BTreeMap, BTreeSet};

/// Trials of the first two phases for each level that is not a default, at most these shares of all trials.
const SCREENING: (f64, f64) = (3.0, 0.3);
const INTERACTIONS: (f64, f64) = (2.0, 0.2);

/// The search ends when the gain still expected is below this share of the least gain that pays.
const ENOUGH: f64 = 0.2;

/// Settings go as long as all that go are worth less than this share of the least gain. That worth is a mean over draws: a
/// setting of which it is unlikely, but possible, that it pays is worth little, and stays.
const WORTH: f64 = 0.25;

/// A point that fails, or violates a guard, with more than this probability is not eligible.
pub(super) const MOST_FAILURE: f64 = 0.2;
pub(super) const MOST_VIOLATION: f64 = 0.25;

/// Blocks that a setting of the leader is left out in, unless its worth is known before.
const PRUNING_BLOCKS: u32 = 3;

/// A level of which this much is known to be bad is left out of the second phase.
const SURELY_BAD: f64 = 0.9;

/// Rounds of exchanging one level at a time.
const ROUNDS: usize = 12;

/// Pairs that a search for the best point of a draw starts from.
const PAIR_STARTS: usize = 6;

/// Weight of the cost of settings, as a difference of logarithms for all costs together: decides between equals only.
const COST_WEIGHT_LOG: f64 = 2e-4;

/// A fit of one metric.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) terms: Terms,
    pub(super) draws: Draws,
    /// Points with a term of their own, by its index.
    own: Vec<Point>,
}

impl Fit {
    fn of(tuning: &Tuning, seed: u64, read: impl Fn(&super::Seen) -> Option<f64>) -> Fit {
        let mut measured: BTreeMap<&Point, u32> = BTreeMap::new();
        let mut rows = Vec::new();
        for block in &tuning.blocks {
            let values: Vec<(&Point, f64, f64)> =
                block.iter().filter_map(|(p, seen)| read(seen).map(|y| (p, y, 1.0))).collect();
            values.iter().for_each(|(p, ..)| *measured.entry(p).or_default() += 1);
            rows.push(values);
        }
        let levels = Terms::new(&tuning.space, &[], &BTreeMap::new());
        let ranked = rank(&levels, &rows, seed);
        let terms = Terms::new(&tuning.space, &ranked, &measured);
        let mut draws = posterior::draw(&terms, &Sums::of(&terms, &rows), seed);
        if model::weigh_down_outliers(&terms, &mut rows, &draws.mean, draws.sigma) {
            draws = posterior::draw(&terms, &Sums::of(&terms, &rows), seed);
        }
        let own = terms.own_points();
        Fit { terms, draws, own }
    }

    /// The value of a point over the default in one draw.
    pub(super) fn value(&self, draw: usize, point: &Point) -> f64 {
        self.draws.draws[draw].iter().map(|(term, b)| b * self.x(*term, point)).sum()
    }

    fn x(&self, term: usize, point: &Point) -> f64 {
        let is = |holds: bool| f64::from(u8::from(holds));
        match self.terms.all[term] {
            Term::Level(f, l) => is(point.0[f] == l),
            Term::Ramp(f, levels) => f64::from(point.0[f]) / f64::from(levels - 1),
            Term::Pair((f, l), (g, m)) => is(point.0[f] == l && point.0[g] == m),
            Term::Own(index) => is(self.own[index] == *point),
        }
    }

    /// A coefficient in one draw.
    pub(super) fn coefficient(&self, draw: usize, term: usize) -> f64 {
        let draw = &self.draws.draws[draw];
        draw.binary_search_by_key(&term, |(t, _)| *t).map_or(0.0, |at| draw[at].1)
    }

    /// The mean over draws.
    pub(super) fn mean(&self, point: &Point) -> f64 {
        self.terms.value(&self.draws.mean, point, &mut Vec::new())
    }

    /// Standard deviation over draws of anything that is read off a draw.
    pub(super) fn deviation(&self, read: impl Fn(usize) -> f64) -> f64 {
        let values: Vec<f64> = (0..DRAWS).map(read).collect();
        let mean = values.iter().sum::<f64>() / DRAWS as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        (squares / (DRAWS - 1) as f64).sqrt()
    }
}

/// Levels by what they do alone, the largest effect first, for the choice of pairs where there are too many.
fn rank(levels: &Terms, rows: &model::Rows<'_>, seed: u64) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..levels.levels()).collect();
    if levels.has_room_for_all_pairs() {
        return ranked;
    }
    let mean = posterior::draw(levels, &Sums::of(levels, rows), seed).mean;
    ranked.sort_by(|a, b| mean[*b].abs().total_cmp(&mean[*a].abs()).then(a.cmp(b)));
    ranked
}

/// What is believed.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    pub(super) value: Fit,
    pub(super) guards: Vec<Fit>,
    pub(super) failures: Failures,
    /// The eligible point with the best mean.
    pub(super) leader: Point,
    /// The best point of each draw.
    pub(super) best: Vec<Point>,
    /// The gain over the leader that knowing the truth would bring, as far as draws say.
    pub(super) regret_log: f64,
}

impl Belief {
    pub(super) fn of(tuning: &Tuning) -> Belief {
        let seed = tuning.options.seed ^ (tuning.blocks.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let guards = 0..tuning.options.guards_log.len();
        let mut belief = Belief {
            value: Fit::of(tuning, seed, |seen| seen.value_log),
            guards: guards.map(|g| Fit::of(tuning, seed ^ (g as u64 + 1), |seen| seen.guards_log[g])).collect(),
            failures: Failures::of(&tuning.blocks, DRAWS, seed),
            leader: Point::default_of(tuning.space.factors.len()),
            best: Vec::new(),
            regret_log: 0.0,
        };
        let default = belief.leader.clone();
        let first: Vec<Point> = (0..DRAWS).map(|draw| belief.best_of(tuning, draw, &default)).collect();
        belief.leader = belief.find_leader(tuning, &first);
        for (draw, from_default) in first.into_iter().enumerate() {
            let from_leader = belief.climb_draw(tuning, draw, belief.leader.clone());
            let value = |point: &Point| belief.rate(tuning, draw, point);
            belief.best.push(if value(&from_leader) >= value(&from_default) { from_leader } else { from_default });
        }
        let regrets = (0..DRAWS).map(|draw| {
            let lead = belief.value.value(draw, &belief.leader);
            (belief.value.value(draw, &belief.best[draw]) - lead).max(0.0)
        });
        belief.regret_log = regrets.sum::<f64>() / DRAWS as f64;
        belief
    }

    /// The worth of a point in a draw; none where it fails, violates a guard, or may not be.
    fn rate(&self, tuning: &Tuning, draw: usize, point: &Point) -> f64 {
        let is_out = !tuning.space.may_hold(point)
            || (!point.is_default() && self.failures.failed.contains(point))
            || self.failures.fails_in(draw, point)
            || self.guards.iter().zip(&tuning.options.guards_log).any(|(g, most)| g.value(draw, point) > *most);
        if is_out && !point.is_default() {
            return f64::NEG_INFINITY;
        }
        self.value.value(draw, point) - cost_log(tuning, point)
    }

    fn climb_draw(&self, tuning: &Tuning, draw: usize, start: Point) -> Point {
        climb(tuning, start, |point| self.rate(tuning, draw, point)).0
    }

    /// The best point of a draw that is found from a start, with and without the pairs that do good in it.
    fn best_of(&self, tuning: &Tuning, draw: usize, start: &Point) -> Point {
        let rate = |point: &Point| self.rate(tuning, draw, point);
        let mut best = climb(tuning, start.clone(), rate);
        let mut pairs: Vec<(f64, Term)> = self.value.draws.draws[draw]
            .iter()
            .map(|(term, b)| (*b, self.value.terms.all[*term]))
            .filter(|(b, term)| *b > 0.0 && matches!(term, Term::Pair(..)))
            .collect();
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, pair) in pairs.into_iter().take(PAIR_STARTS) {
            if let Term::Pair(a, b) = pair {
                let next = climb(tuning, best.0.with(a.0, a.1).with(b.0, b.1), rate);
                if next.1 > best.1 {
                    best = next;
                }
            }
        }
        best.0
    }

    fn find_leader(&self, tuning: &Tuning, starts: &[Point]) -> Point {
        let starts: BTreeSet<&Point> = starts.iter().collect();
        let rate = |point: &Point| {
            let penalty = if self.is_eligible(tuning, point) { 0.0 } else { 1e3 };
            self.value.mean(point) - cost_log(tuning, point) - penalty
        };
        let mut best = climb(tuning, Point::default_of(tuning.space.factors.len()), rate);
        let mut rated: Vec<(f64, &Point)> = starts.into_iter().map(|p| (rate(p), p)).collect();
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        for (_, start) in rated.into_iter().take(8) {
            let next = climb(tuning, start.clone(), rate);
            if next.1 > best.1 {
                best = next;
            }
        }
        best.0
    }

    /// True if a point may be the answer.
    pub(super) fn is_eligible(&self, tuning: &Tuning, point: &Point) -> bool {
        point.is_default()
            || (tuning.space.may_hold(point)
                && !self.failures.failed.contains(point)
                && self.failures.probability(point) <= MOST_FAILURE
                && self.violation(tuning, point) <= MOST_VIOLATION)
    }

    /// The probability that a point violates a guard.
    pub(super) fn violation(&self, tuning: &Tuning, point: &Point) -> f64 {
        if self.guards.is_empty() {
            return 0.0;
        }
        let violates = |draw: &usize| {
            self.guards.iter().zip(&tuning.options.guards_log).any(|(g, most)| g.value(*draw, point) > *most)
        };
        (0..DRAWS).filter(violates).count() as f64 / DRAWS as f64
    }

    /// The leader less the settings that are not worth keeping: the least worth first, as long as all that goes is
    /// worth little beside the least gain.
    pub(super) fn pruned(&self, tuning: &Tuning) -> Point {
        let least = tuning.options.least_gain_log;
        let top = self.value.mean(&self.leader);
        let mut point = self.leader.clone();
        loop {
            let reset = |factor: usize| point.with(factor, 0);
            let shorter = point.settings().map(|(factor, _)| reset(factor)).filter(|p| self.is_eligible(tuning, p));
            let best = shorter.map(|p| (self.value.mean(&p), p)).max_by(|a, b| a.0.total_cmp(&b.0));
            match best {
                Some((mean, shorter)) if mean > top - WORTH * least => point = shorter,
                _ => break,
            }
        }
        if self.value.mean(&point) < least { Point::default_of(point.0.len()) } else { point }
    }

    /// Points of the leader without one setting, of settings of which it is not known whether they are worth keeping.
    fn to_prune(&self, tuning: &Tuning) -> Vec<Point> {
        let least = tuning.options.least_gain_log;
        let doubtful = |point: &Point| {
            let share = |draw: usize| self.value.value(draw, &self.leader) - self.value.value(draw, point);
            let (mean, sd) = (self.value.mean(&self.leader) - self.value.mean(point), self.value.deviation(share));
            let blocks = tuning.blocks.iter().filter(|b| b.iter().any(|(p, _)| p == point)).count();
            (mean - least).abs() < sd && sd > least / 2.0 && blocks < PRUNING_BLOCKS as usize
        };
        let shorter = self.leader.settings().map(|(factor, _)| self.leader.with(factor, 0));
        let may_be = |p: &Point| !p.is_default() && self.is_eligible(tuning, p);
        shorter.filter(may_be).filter(doubtful).collect()
    }
}

fn cost_log(tuning: &Tuning, point: &Point) -> f64 {
    let all: f64 = tuning.space.factors.iter().map(|f| f.change_cost_s).sum();
    let cost: f64 = point.settings().map(|(factor, _)| tuning.space.factors[factor].change_cost_s).sum();
    // Settings that cost the same count, too: of equals the one with fewer.
    COST_WEIGHT_LOG * (cost / (all + 1.0) + point.settings().count() as f64 / point.0.len() as f64)
}

/// Exchanges one level at a time for the best one, until none is better.
fn climb(tuning: &Tuning, start: Point, rate: impl Fn(&Point) -> f64) -> (Point, f64) {
    let mut best = (start.clone(), rate(&start));
    for _ in 0..ROUNDS {
        let before = best.1;
        for (factor, f) in tuning.space.factors.iter().enumerate() {
            let here = best.0.0[factor];
            for level in (0..f.levels).filter(|l| *l != here) {
                let other = best.0.with(factor, level);
                let value = rate(&other);
                if value > best.1 {
                    best = (other, value);
                }
            }
        }
        if best.1 <= before {
            break;
        }
    }
    best
}

/// Blocks of a balanced phase: a number of trials for each level, at most a share of all trials.
fn phase_blocks(tuning: &Tuning, (per_level, share): (f64, f64)) -> u32 {
    let levels: f64 = tuning.space.factors.iter().map(|f| f64::from(f.levels - 1)).sum();
    let trials = (per_level * levels + 2.0).min(share * f64::from(tuning.options.most_trials));
    (trials / (f64::from(tuning.options.points_per_block) + 1.0)).ceil().max(1.0) as u32
}

pub(super) fn next(tuning: &Tuning) -> Next {
    let left = tuning.options.most_trials.saturating_sub(tuning.trials());
    let room = left.saturating_sub(1).min(tuning.options.points_per_block) as usize;
    if room == 0 {
        return Next::Done { reason: Ended::OutOfTrials };
    }
    let mut random = Noise::new(tuning.options.seed.wrapping_add(tuning.blocks.len() as u64));
    let done = tuning.blocks.len() as u32;
    let screening = phase_blocks(tuning, SCREENING);
    let interactions = phase_blocks(tuning, INTERACTIONS);
    let points = if done < screening + interactions {
        balanced(tuning, room, done >= screening, &mut random)
    } else {
        Vec::new()
    };
    if !points.is_empty() {
        let (phase, of) = if done < screening {
            (Phase::Screening, screening - done)
        } else {
            (Phase::Interactions, screening + interactions - done)
        };
        return Next::Measure { points, phase, of: Some(of) };
    }
    race(tuning, room, &mut random)
}

fn balanced(tuning: &Tuning, room: usize, is_second: bool, random: &mut Noise) -> Vec<Point> {
    let belief = (!tuning.blocks.is_empty()).then(|| tuning.belief());
    let none = Failures { draws: vec![Vec::new()], ..Failures::default() };
    let failures = belief.map_or(&none, |b| &b.failures);
    let is_open = |factor: usize, level: u8| {
        let is_bad = |b: &Belief| {
            let alone = Point::default_of(tuning.space.factors.len()).with(factor, level);
            let is_bad = |draw: &usize| b.value.value(*draw, &alone) < 0.0 && b.best[*draw].0[factor] != level;
            (0..DRAWS).filter(is_bad).count() as f64 > SURELY_BAD * DRAWS as f64
        };
        level == 0 || (failures.of_level(factor, level) < 0.5 && !(is_second && belief.is_some_and(is_bad)))
    };
    let open = |(factor, f): (usize, &super::Factor)| (0..f.levels).filter(|l| is_open(factor, *l)).collect();
    let allowed: Vec<Vec<u8>> = tuning.space.factors.iter().enumerate().map(open).collect();
    let mut points = suspects_alone(tuning, failures, room);
    let rest = room - points.len();
    let more = design::balanced(&tuning.space, &allowed, &tuning.blocks, failures, rest, random);
    points.extend(more.into_iter().filter(|p| !points.contains(p)).collect::<Vec<_>>());
    points
}

/// The default with a suspect alone, for those of which it is not known whether they are to blame.
fn suspects_alone(tuning: &Tuning, failures: &Failures, room: usize) -> Vec<Point> {
    let mut doubtful: Vec<(f64, usize)> = (0..failures.suspects.len())
        .filter(|s| (0.1..0.9).contains(&failures.probabilities[*s]))
        .map(|s| (failures.probabilities[s], s))
        .collect();
    doubtful.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let alone = doubtful.into_iter().map(|(_, s)| failures.suspects[s].alone(tuning.space.factors.len()));
    alone.filter(|p| tuning.space.may_hold(p) && !failures.failed.contains(p)).take(room.min(2)).collect()
}

/// The leader, and the best points of draws.
fn race(tuning: &Tuning, room: usize, random: &mut Noise) -> Next {
    let belief = tuning.belief();
    if belief.regret_log <= ENOUGH * tuning.options.least_gain_log {
        let points: Vec<Point> = belief.to_prune(tuning).into_iter().take(room.saturating_sub(1)).collect();
        if points.is_empty() {
            let is_default = belief.pruned(tuning).is_default();
            return Next::Done { reason: if is_default { Ended::NothingGains } else { Ended::Found } };
        }
        let points = std::iter::once(belief.leader.clone()).chain(points).collect();
        return Next::Measure { points, phase: Phase::Pruning, of: None };
    }
    let mut points = suspects_alone(tuning, &belief.failures, room.min(1));
    let add = |point: &Point, points: &mut Vec<Point>| {
        let is_new = !point.is_default() && !points.contains(point) && points.len() < room;
        if is_new && tuning.space.may_hold(point) && !belief.failures.failed.contains(point) {
            points.push(point.clone());
        }
    };
    add(&belief.leader, &mut points);
    let from = (random.uniform() * DRAWS as f64) as usize;
    for draw in 0..DRAWS {
        add(&belief.best[(from + draw) % DRAWS], &mut points);
    }
    if points.is_empty() {
        let is_default = belief.pruned(tuning).is_default();
        return Next::Done { reason: if is_default { Ended::NothingGains } else { Ended::Found } };
    }
    Next::Measure { points, phase: Phase::Racing, of: None }
}
