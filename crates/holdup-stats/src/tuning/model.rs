//! What the logarithm of a metric is made of, and the sums that a fit needs.

use super::{Point, Space};
use std::collections::BTreeMap;

/// The most pairs with a term; where there are more, those of the levels that do most alone.
const MOST_PAIRS: usize = 1_000;

/// A point that was measured in this many blocks has its own term: what levels and pairs leave.
const OWN_TERM_BLOCKS: u32 = 3;

/// The most points with a term of their own; those measured in most blocks.
const MOST_POINTS: usize = 40;

/// Residuals beyond this many standard deviations lose weight.
const OUTLIER_LIMIT: f64 = 3.5;

/// That spread is at least this share of the fit's: with values that are nearly all the same it would be none.
const LEAST_SPREAD: f64 = 0.2;

const NONE: u32 = u32::MAX;

/// A term of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Term {
    /// One level of a factor.
    Level(usize, u8),
    /// A straight line over the levels of an ordered factor, 0 at the first and 1 at the last of them.
    Ramp(usize, u8),
    /// Two levels together.
    Pair((usize, u8), (usize, u8)),
    /// One point, by its index.
    Own(usize),
}

/// The terms of a fit. Those of levels come first.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) all: Vec<Term>,
    /// Index of the first level's term, for each factor.
    first: Vec<usize>,
    ramps: Vec<Option<usize>>,
    /// Term of a pair of level terms, [`NONE`] where there is none.
    pairs: Vec<u32>,
    levels: usize,
    points: BTreeMap<Point, usize>,
}

impl Terms {
    /// All levels; pairs of the level terms in `ranked`, best first, as far as they are not too many; the points
    /// that were measured often.
    pub(super) fn new(space: &Space, ranked: &[usize], measured: &BTreeMap<&Point, u32>) -> Terms {
        let mut all = Vec::new();
        let mut first = Vec::new();
        for (factor, f) in space.factors.iter().enumerate() {
            first.push(all.len());
            all.extend((1..f.levels).map(|level| Term::Level(factor, level)));
        }
        let levels = all.len();
        let ramps = (0..space.factors.len())
            .map(|factor| {
                let f = &space.factors[factor];
                (f.is_ordered && f.levels > 2).then(|| {
                    all.push(Term::Ramp(factor, f.levels));
                    all.len() - 1
                })
            })
            .collect();
        let mut terms =
            Terms { all, first, ramps, pairs: vec![NONE; levels * levels], levels, points: BTreeMap::new() };
        terms.add_pairs(ranked);
        let mut often: Vec<(&Point, u32)> =
            measured.iter().map(|(p, n)| (*p, *n)).filter(|(p, n)| *n >= OWN_TERM_BLOCKS && !p.is_default()).collect();
        often.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        for (index, (point, _)) in often.into_iter().take(MOST_POINTS).enumerate() {
            terms.points.insert(point.clone(), terms.all.len());
            terms.all.push(Term::Own(index));
        }
        terms
    }

    fn add_pairs(&mut self, ranked: &[usize]) {
        let mut count = 0;
        for (at, &b) in ranked.iter().enumerate() {
            for &a in &ranked[..at] {
                let (Term::Level(f, l), Term::Level(g, m)) = (self.all[a.min(b)], self.all[a.max(b)]) else { continue };
                if f == g {
                    continue;
                }
                if count == MOST_PAIRS {
                    return;
                }
                count += 1;
                let index = u32::try_from(self.all.len()).unwrap_or(NONE);
                self.pairs[a * self.levels + b] = index;
                self.pairs[b * self.levels + a] = index;
                self.all.push(Term::Pair((f, l), (g, m)));
            }
        }
    }

    /// How many terms are of levels.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// True if every pair of levels has a term.
    pub(super) fn has_room_for_all_pairs(&self) -> bool {
        self.levels * self.levels.saturating_sub(1) / 2 <= MOST_PAIRS
    }

    /// The points with a term of their own, by its index.
    pub(super) fn own_points(&self) -> Vec<Point> {
        let mut points: Vec<(usize, &Point)> = self.points.iter().map(|(p, term)| (*term, p)).collect();
        points.sort();
        points.into_iter().map(|(_, p)| p.clone()).collect()
    }

    /// The terms that are not zero at a point, with their values.
    pub(super) fn at(&self, point: &Point, out: &mut Vec<(usize, f64)>) {
        out.clear();
        for (factor, level) in point.settings() {
            out.push((self.first[factor] + usize::from(level) - 1, 1.0));
        }
        let settings = out.len();
        for b in 1..settings {
            for a in 0..b {
                let pair = self.pairs[out[a].0 * self.levels + out[b].0];
                if pair != NONE {
                    out.push((pair as usize, 1.0));
                }
            }
        }
        for (factor, level) in point.settings() {
            if let Some(ramp) = self.ramps[factor]
                && let Term::Ramp(_, levels) = self.all[ramp]
            {
                out.push((ramp, f64::from(level) / f64::from(levels - 1)));
            }
        }
        if let Some(own) = self.points.get(point) {
            out.push((*own, 1.0));
        }
    }

    /// The value of a point under coefficients of all terms.
    pub(super) fn value(&self, coefficients: &[f64], point: &Point, buffer: &mut Vec<(usize, f64)>) -> f64 {
        self.at(point, buffer);
        buffer.iter().map(|(term, x)| coefficients[*term] * x).sum()
    }
}

/// Values with their points and weights, by block.
pub(super) type Rows<'a> = Vec<Vec<(&'a Point, f64, f64)>>;

/// Gives values that are far off what a fit says a smaller weight, and says whether there are any.
///
/// The spread is that of the middle of what is left, since wild values are in `sigma` themselves.
pub(super) fn weigh_down_outliers(terms: &Terms, rows: &mut Rows<'_>, mean: &[f64], sigma: f64) -> bool {
    let mut buffer = Vec::new();
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let mut distances = Vec::new();
    for block in rows.iter() {
        let left: Vec<f64> = block.iter().map(|(point, y, _)| y - terms.value(mean, point, &mut buffer)).collect();
        // The median: what a block shares is not known, and a mean would follow the outlier.
        let level = median(&mut left.clone());
        distances.push(left.into_iter().map(|l| (l - level).abs()).collect::<Vec<f64>>());
    }
    // The median distance of a normal distribution is 0.674 standard deviations.
    let spread = median(&mut distances.concat()) / 0.674;
    let spread = spread.clamp(LEAST_SPREAD * sigma, sigma.max(1e-9));
    let mut has_any = false;
    for ((_, _, weight), distance) in rows.iter_mut().flatten().zip(distances.concat()) {
        let z = distance / spread;
        if z > OUTLIER_LIMIT {
            *weight = (OUTLIER_LIMIT / z).powi(2);
            has_any = true;
        }
    }
    has_any
}

/// Sums of squares and products, with the level of each block taken out.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// Terms by terms.
    pub(super) gram: Vec<f64>,
    /// Terms by the value.
    pub(super) xy: Vec<f64>,
    /// The value's squares.
    pub(super) yy: f64,
    /// Values less blocks.
    pub(super) df: f64,
}

impl Sums {
    /// From blocks of points and values; values that lie far off have a smaller weight.
    pub(super) fn of(terms: &Terms, blocks: &Rows<'_>) -> Sums {
        let p = terms.all.len();
        let mut sums = Sums { gram: vec![0.0; p * p], xy: vec![0.0; p], yy: 0.0, df: 0.0 };
        let mut row = Vec::new();
        let mut mean = vec![0.0; p];
        for block in blocks.iter().filter(|b| b.len() > 1) {
            let total: f64 = block.iter().map(|(_, _, w)| w).sum();
            let level = block.iter().map(|(_, y, w)| y * w).sum::<f64>() / total;
            let mut touched: Vec<usize> = Vec::new();
            for (point, y, weight) in block {
                terms.at(point, &mut row);
                let y = y - level;
                for &(i, x) in &row {
                    for &(j, z) in &row {
                        sums.gram[i * p + j] += weight * x * z;
                    }
                    sums.xy[i] += weight * x * y;
                    if mean[i] == 0.0 {
                        touched.push(i);
                    }
                    mean[i] += weight * x / total;
                }
                sums.yy += weight * y * y;
            }
            for &i in &touched {
                for &j in &touched {
                    sums.gram[i * p + j] -= total * mean[i] * mean[j];
                }
            }
            touched.iter().for_each(|i| mean[*i] = 0.0);
            sums.df += block.len() as f64 - 1.0;
        }
        sums
    }
}
