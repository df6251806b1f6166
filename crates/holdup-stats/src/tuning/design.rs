//! Blocks in which levels, and pairs of levels, are balanced.

use super::failures::Failures;
use super::{Point, Seen, Space};
use crate::random::Noise;
use std::collections::BTreeSet;

/// Random points that each point of a block is the best of.
const TRIES: usize = 12;

/// What a level counts beside a pair of levels: main effects are wanted first.
const LEVEL_WEIGHT: f64 = 3.0;

/// How often levels and pairs of levels were measured, those of the default included.
struct Counts<'a> {
    allowed: &'a [Vec<u8>],
    first: Vec<usize>,
    all: usize,
    levels: Vec<f64>,
    pairs: Vec<f64>,
}

impl Counts<'_> {
    fn new(allowed: &[Vec<u8>]) -> Counts<'_> {
        let mut first = Vec::new();
        let mut all = 0;
        for levels in allowed {
            first.push(all);
            all += usize::from(levels.last().copied().unwrap_or(0)) + 1;
        }
        Counts { allowed, first, all, levels: vec![0.0; all], pairs: vec![0.0; all * all] }
    }

    fn is_known(&self, point: &Point) -> bool {
        point.0.iter().zip(self.allowed).all(|(level, allowed)| allowed.contains(level))
    }

    fn add(&mut self, point: &Point) {
        if !self.is_known(point) {
            return;
        }
        for (f, l) in point.0.iter().enumerate() {
            let a = self.first[f] + usize::from(*l);
            self.levels[a] += 1.0;
            for (g, m) in point.0.iter().enumerate() {
                self.pairs[a * self.all + self.first[g] + usize::from(*m)] += 1.0;
            }
        }
    }

    /// How common a level of a factor and its pairs with the rest of a point are, each over its share in balance.
    fn commonness(&self, point: &Point, factor: usize) -> f64 {
        let size = |f: usize| self.allowed[f].len() as f64;
        let a = self.first[factor] + usize::from(point.0[factor]);
        let mut sum = LEVEL_WEIGHT * self.levels[a] * size(factor);
        for (g, m) in point.0.iter().enumerate() {
            if g != factor {
                let b = self.first[g] + usize::from(*m);
                sum += self.pairs[a * self.all + b] * size(factor) * size(g);
            }
        }
        sum
    }

    fn all_commonness(&self, point: &Point) -> f64 {
        (0..point.0.len()).map(|f| self.commonness(point, f)).sum()
    }
}

/// `count` points of the levels that are allowed, none of which failed or does not go together.
pub(super) fn balanced(
    space: &Space,
    allowed: &[Vec<u8>],
    blocks: &[Vec<(Point, Seen)>],
    failures: &Failures,
    count: usize,
    random: &mut Noise,
) -> Vec<Point> {
    let mut counts = Counts::new(allowed);
    for (point, seen) in blocks.iter().flatten() {
        if seen.value_log.is_some() {
            counts.add(point);
        }
    }
    let mut chosen = BTreeSet::new();
    let mut out: Vec<Point> = Vec::new();
    let is_fit = |point: &Point| {
        !point.is_default()
            && space.may_hold(point)
            && !failures.failed.contains(point)
            && failures.probability(point) < 0.5
    };
    counts.add(&Point::default_of(space.factors.len()));
    while out.len() < count {
        let mirrored = (out.len() % 2 == 1).then(|| mirror(allowed, &out[out.len() - 1]));
        let usable = mirrored.filter(|point| is_fit(point) && !chosen.contains(point));
        let next = usable.or_else(|| rarest(&counts, random, |point| is_fit(point) && !chosen.contains(point)));
        let Some(next) = next else { break };
        counts.add(&next);
        chosen.insert(next.clone());
        out.push(next);
    }
    out
}

/// Each level exchanged for the one as far from the other end: with two levels, the other one. Main effects are then
/// clear of effects of pairs (fold-over).
fn mirror(allowed: &[Vec<u8>], point: &Point) -> Point {
    let other = |(level, allowed): (&u8, &Vec<u8>)| {
        let at = allowed.iter().position(|l| l == level).unwrap_or(0);
        allowed[allowed.len() - 1 - at]
    };
    Point(point.0.iter().zip(allowed).map(other).collect())
}

fn rarest(counts: &Counts<'_>, random: &mut Noise, is_fit: impl Fn(&Point) -> bool) -> Option<Point> {
    let mut best: Option<(f64, Point)> = None;
    for _ in 0..TRIES {
        let any = |levels: &Vec<u8>| levels[(random.uniform() * levels.len() as f64) as usize];
        let mut point = Point(counts.allowed.iter().map(any).collect());
        // Two rounds of exchanging one level for a rarer one.
        for factor in (0..point.0.len()).chain(0..point.0.len()) {
            let rated = counts.allowed[factor].iter().map(|level| {
                let other = point.with(factor, *level);
                (counts.commonness(&other, factor) + 1e-3 * random.uniform(), other)
            });
            if let Some((_, other)) = rated.min_by(|a, b| a.0.total_cmp(&b.0)) {
                point = other;
            }
        }
        let rating = counts.all_commonness(&point);
        if is_fit(&point) && best.as_ref().is_none_or(|(least, _)| rating < *least) {
            best = Some((rating, point));
        }
    }
    best.map(|(_, point)| point)
}
