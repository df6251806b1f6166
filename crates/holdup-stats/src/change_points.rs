//! Where a series of runs changes: E-divisive.
//!
//! D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point analysis of
//! multivariate data", Journal of the American Statistical Association 109 (2014): the energy statistic
//! with exponent 1, hierarchical bisection, a permutation test within the segments found so far. Of
//! their (tau, kappa) the second one takes a few values only, which makes a scan O(n log n).
//! Permutations stop early after J. Besag and P. Clifford, "Sequential Monte Carlo p-values",
//! Biometrika 78 (1991).

mod divergence;
mod long;

use crate::pieces::{BlockValue, count, mean, variance};
use crate::{CONFIDENCE, Effect, NoEstimate, students_t};
use divergence::Splits;
use holdup_model::Estimate;
pub use long::change_points_of_long;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Resampled series behind the interval of a place: the fifth ones from both ends bound 95 %.
const RESAMPLES: usize = 199;

/// Ends of the second sample (kappa) that a segment is looked through with: what rose and fell back
/// within it is seen when an end lies near the fall.
const ENDS: usize = 16;

/// A span this small, beside the values, is rounding.
const ROUNDING: f64 = 1e-12;

/// Two Q closer than this share count as equal: the unit of the values must not decide which is larger.
const SAME_Q: f64 = 1e-9;

/// What counts as a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeOptions {
    /// The largest p that is a change, between 0 and 1; also the chance to see any in a series of
    /// independent values without a change.
    pub alpha: f64,
    /// Permutations of a test, enough for `1 / (permutations + 1) <= alpha`.
    pub permutations: u32,
    /// The fewest values of a segment, 2 or more.
    pub min_segment: usize,
    /// Seed of the permutations: the same seed gives the same answer.
    pub seed: u64,
}

impl Default for ChangeOptions {
    /// 5 %, 199 permutations, and segments of five: two or three odd runs in a row are no new level,
    /// and a longer least segment would hide a change from its first runs.
    fn default() -> Self {
        ChangeOptions { alpha: 0.05, permutations: 199, min_segment: 5, seed: 0 }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangePoint {
    /// The first value of the new segment, counted from 0.
    pub index: usize,
    /// The earliest place that the data allow (inclusive, 95 %).
    pub index_low: usize,
    /// The latest place that the data allow (inclusive, 95 %).
    pub index_high: usize,
    /// p of the permutation test that found it.
    pub p: f64,
    /// Mean of the segment before, in the values' unit; geometric when all values of the series are above zero.
    pub before: f64,
    /// Mean of the segment after, likewise.
    pub after: f64,
    /// From before to after.
    pub change: Change,
}

/// The size of a change.
///
/// The place was chosen where the sides differ most, so the size leans a little away from zero,
/// and the interval takes the values of a segment for independent.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Geometric mean after by geometric mean before: all values are above zero.
    Ratio(Estimate),
    /// Mean after minus mean before, in the values' unit: some value is not above zero.
    Difference(Estimate),
    /// No number, with the reason.
    Unknown(NoEstimate),
}

/// Finds the changes of a series, in order of their place. An empty list: none was found.
///
/// Works on logarithms when all values are above zero, so that the unit does not matter. Each step
/// takes the split with the largest Q of all segments (see [`split_divergences`]); its p is the share of
/// permutations, within every segment, whose largest Q is as large. The first p above alpha ends it.
/// At the end each place moves to the best split between its neighbours; p stays that of the test.
///
/// The time is O(permutations · n log n) for each level of the bisection.
///
/// # Errors
/// With a value that is not finite, fewer than two segments' values, or options that decide nothing.
pub fn change_points(values: &[f64], options: ChangeOptions) -> Result<Vec<ChangePoint>, NoEstimate> {
    check(values, options)?;
    let series = Series::of(values);
    let mut found = Bisection::new(&series, options).run();
    found.sort_unstable_by_key(|&(index, _)| index);
    let mut edges: Vec<usize> = found.iter().map(|&(index, _)| index).collect();
    edges.insert(0, 0);
    edges.push(values.len());
    series.settle(&mut edges, options.min_segment);
    Ok(edges.windows(3).zip(&found).map(|(edges, &(_, p))| series.describe(edges, p, options)).collect())
}

/// Q of each split of a whole series: entry i is the split before value i + 2, and each side has at least two.
///
/// With n values x before and m values y after, logarithms when all are above zero:
/// Q = nm/(n+m) · (2·mean |x−y| − mean |x−x'| − mean |y−y'|), means over pairs of different places.
/// Without a change it is about zero on average, for any distribution. In the values' unit unless logarithms.
///
/// # Errors
/// With a value that is not finite, fewer than four values, or values too far apart for arithmetic.
pub fn split_divergences(values: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    check(values, ChangeOptions { min_segment: 2, ..ChangeOptions::default() })?;
    let series = Series::of(values);
    let (mut splits, ranks) = Splits::of(&series.values);
    let mut all = Vec::with_capacity(values.len() - 3);
    splits.each(&ranks, std::iter::once(values.len()), 2, |_, q| all.push(q * series.unit));
    all.reverse();
    if all.iter().all(|q| q.is_finite()) { Ok(all) } else { Err(too_far()) }
}

fn too_far() -> NoEstimate {
    NoEstimate::new("the values are too far apart for arithmetic")
}

fn check(values: &[f64], options: ChangeOptions) -> Result<(), NoEstimate> {
    let no = |reason: &str| Err(NoEstimate::new(reason));
    let ChangeOptions { alpha, permutations, min_segment, .. } = options;
    if !(alpha > 0.0 && alpha < 1.0) {
        return no("alpha must lie between 0 and 1");
    }
    if 1.0 > alpha * (f64::from(permutations) + 1.0) {
        return Err(NoEstimate::new(format!("{permutations} permutations cannot reach a p of {alpha}")));
    }
    if min_segment < 2 {
        return no("a segment needs at least two values, or it has no spread");
    }
    if values.iter().any(|v| v.is_nan()) {
        return no("a value is not a number");
    }
    if values.iter().any(|v| v.is_infinite()) {
        return no("a value is infinite");
    }
    if values.len() / 2 < min_segment {
        let n = values.len();
        return Err(NoEstimate::new(format!("{n} values are too few for two segments of {min_segment}")));
    }
    if u32::try_from(values.len()).is_err() { no("more values than can be counted") } else { Ok(()) }
}

/// Values as they are compared.
struct Series {
    /// Logarithms, or values as shares of the largest.
    values: Vec<f64>,
    /// True if they are logarithms.
    logs: bool,
    /// What one of `values` is in the values' unit; 1 for logarithms.
    unit: f64,
}

impl Series {
    fn of(values: &[f64]) -> Series {
        if values.iter().all(|&v| v > 0.0) {
            return Series { values: values.iter().map(|v| v.ln()).collect(), logs: true, unit: 1.0 };
        }
        // Sums of values near the largest number would overflow.
        let largest = values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let unit = if largest > 0.0 { largest } else { 1.0 };
        Series { values: values.iter().map(|v| v / unit).collect(), logs: false, unit }
    }

    /// Moves each place to the best split between its neighbours: while it was found, changes beyond
    /// them were still part of its sides.
    fn settle(&self, edges: &mut [usize], min_segment: usize) {
        self.settle_within(edges, min_segment, usize::MAX);
    }

    /// The same with at most `most` values on each side.
    fn settle_within(&self, edges: &mut [usize], min_segment: usize, most: usize) {
        for i in 1..edges.len() - 1 {
            let begin = edges[i - 1].max(edges[i].saturating_sub(most));
            let end = edges[i + 1].min(edges[i].saturating_add(most));
            let (mut splits, ranks) = Splits::of(&self.values[begin..end]);
            if let Some((split, _)) = splits.best(&ranks, 1, min_segment) {
                edges[i] = begin + split;
            }
        }
    }

    /// The change at `edges[1]`, between the segments from `edges[0]` and to `edges[2]`.
    fn describe(&self, edges: &[usize], p: f64, options: ChangeOptions) -> ChangePoint {
        let (start, index, end) = (edges[0], edges[1], edges[2]);
        let (before, after) = (&self.values[start..index], &self.values[index..end]);
        let (index_low, index_high) = self.place(start, index, end, options);
        let back = |centre: f64| if self.logs { centre.exp().min(f64::MAX) } else { centre * self.unit };
        ChangePoint {
            index,
            index_low,
            index_high,
            p,
            before: back(mean(before)),
            after: back(mean(after)),
            change: if self.logs { ratio(before, after) } else { difference(before, after, self.unit) },
        }
    }

    /// Where the place lies with 95 %, by bootstrap: both segments are resampled, the split is looked for again.
    ///
    /// The errors are taken as they come and mirrored, whichever reaches farther.
    fn place(&self, start: usize, index: usize, end: usize, options: ChangeOptions) -> (usize, usize) {
        let (mut splits, ranks) = Splits::of(&self.values[start..end]);
        let split = index - start;
        let mut random = random(options.seed.wrapping_add(1), start, end);
        let mut resampled = ranks.clone();
        let mut places: Vec<usize> = (0..RESAMPLES)
            .map(|_| {
                let (before, after) = resampled.split_at_mut(split);
                before.fill_with(|| ranks[below(&mut random, split)]);
                after.fill_with(|| ranks[split + below(&mut random, ranks.len() - split)]);
                splits.best(&resampled, 1, options.min_segment).map_or(split, |(place, _)| place)
            })
            .collect();
        places.sort_unstable();
        let tail = (RESAMPLES + 1) / 40;
        let (low, high) = (places[tail - 1], places[RESAMPLES - tail]);
        let reach_low = split.saturating_sub(low).max(high.saturating_sub(split));
        ((start + 1).max(index.saturating_sub(reach_low)), (end - 1).min(index + reach_low))
    }
}

/// One segment with what was found out about it.
struct Segment {
    start: usize,
    end: usize,
    /// Largest Q with its place in the series.
    best: Option<(usize, f64)>,
    splits: Splits,
    /// Ranks of its values, shuffled further for each permutation.
    ranks: Vec<u32>,
    random: Pcg64Mcg,
    /// Largest Q of each permutation so far. A segment that stays whole keeps them.
    permuted: Vec<f64>,
}

impl Segment {
    fn of(series: &Series, start: usize, end: usize, options: ChangeOptions) -> Segment {
        let values = &series.values[start..end];
        let (mut splits, ranks) = Splits::of(values);
        let size = values.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let constant = splits.span() <= ROUNDING * (if series.logs { 1.0 + size } else { size });
        let best = if constant { None } else { splits.best(&ranks, ENDS, options.min_segment) };
        let best = best.filter(|&(_, q)| q > 0.0).map(|(split, q)| (start + split, q));
        let random = random(options.seed, start, end);
        Segment { start, end, best, splits, ranks, random, permuted: Vec::new() }
    }

    /// The largest Q of a permutation. Without a candidate there may still be one by permutation.
    fn permuted(&mut self, draw: usize, min_segment: usize) -> f64 {
        while self.permuted.len() <= draw {
            for i in (1..self.ranks.len()).rev() {
                self.ranks.swap(i, below(&mut self.random, i + 1));
            }
            let best = self.splits.best(&self.ranks, ENDS, min_segment);
            self.permuted.push(best.map_or(f64::NEG_INFINITY, |(_, q)| q));
        }
        self.permuted[draw]
    }
}

struct Bisection<'a> {
    series: &'a Series,
    options: ChangeOptions,
    segments: Vec<Segment>,
}

impl<'a> Bisection<'a> {
    fn new(series: &'a Series, options: ChangeOptions) -> Self {
        let whole = Segment::of(series, 0, series.values.len(), options);
        Bisection { series, options, segments: vec![whole] }
    }

    /// Places with their p, in the order found.
    fn run(mut self) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        while let Some((at, index, q)) = self.candidate() {
            let p = self.p(q);
            if p > self.options.alpha {
                break;
            }
            found.push((index, p));
            let whole = self.segments.swap_remove(at);
            self.segments.push(Segment::of(self.series, whole.start, index, self.options));
            self.segments.push(Segment::of(self.series, index, whole.end, self.options));
        }
        found
    }

    /// Segment, place and Q of the largest Q of all.
    fn candidate(&self) -> Option<(usize, usize, f64)> {
        let all = self.segments.iter().enumerate();
        let candidates = all.filter_map(|(at, segment)| segment.best.map(|(index, q)| (at, index, q)));
        candidates.max_by(|a, b| a.2.total_cmp(&b.2).then(b.1.cmp(&a.1)))
    }

    /// p of a largest Q: (exceedances + 1) / (permutations + 1).
    ///
    /// As soon as that must end above alpha, no further permutation can change the answer; stopped after
    /// h exceedances in l permutations p is h / l.
    fn p(&mut self, q: f64) -> f64 {
        let ChangeOptions { alpha, permutations, min_segment, .. } = self.options;
        let q = q * (1.0 - SAME_Q);
        let all = f64::from(permutations) + 1.0;
        let mut exceeding = 0.0;
        for draw in 0..permutations {
            let reaches = |segment: &mut Segment| segment.permuted(draw as usize, min_segment) >= q;
            if self.segments.iter_mut().any(reaches) {
                exceeding += 1.0;
                if exceeding + 1.0 > alpha * all * (1.0 + ROUNDING) {
                    // Not below what all permutations would at least have given.
                    return (exceeding / f64::from(draw + 1)).max((exceeding + 1.0) / all).min(1.0);
                }
            }
        }
        (exceeding + 1.0) / all
    }
}

/// Each segment has its own numbers, so that what is found elsewhere does not change them.
fn random(seed: u64, start: usize, end: usize) -> Pcg64Mcg {
    let place = ((start as u64) << 32) ^ end as u64;
    Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// A random number from 0 to below n, each as likely but for n / 2^64.
fn below(random: &mut Pcg64Mcg, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

fn ratio(before: &[f64], after: &[f64]) -> Change {
    let blocks = |logs: &[f64]| -> Vec<BlockValue> {
        (0..).zip(logs).map(|(block, log)| BlockValue { session: 0, block, value: log.exp().min(f64::MAX) }).collect()
    };
    let effect = Effect::unpaired(&blocks(before), &blocks(after));
    match effect.and_then(|effect| Ok((effect.is_constant(), effect.estimate(CONFIDENCE)?))) {
        Ok((true, estimate)) => Change::Ratio(estimate),
        Ok((false, estimate)) => {
            let method = format!("Welch's t on the logs of {} and {} runs", before.len(), after.len());
            Change::Ratio(Estimate { method, ..estimate })
        }
        Err(no) => Change::Unknown(no),
    }
}

/// Welch's t on the values as they are.
fn difference(before: &[f64], after: &[f64], unit: f64) -> Change {
    let (n, m) = (before.len() as f64, after.len() as f64);
    let (v, w) = (variance(before) / n, variance(after) / m);
    let value = mean(after) - mean(before);
    let (half, method) = if v + w > 0.0 {
        let df = (v + w).powi(2) / (v * v / (n - 1.0) + w * w / (m - 1.0));
        let Some(t) = students_t::quantile(0.5 + CONFIDENCE / 2.0, df) else {
            return Change::Unknown(too_far());
        };
        (t * (v + w).sqrt(), format!("Welch's t on {n} and {m} runs"))
    } else {
        (0.0, "each side has one value only".to_owned())
    };
    let (value, low, high) = (value * unit, (value - half) * unit, (value + half) * unit);
    if !(low.is_finite() && high.is_finite() && value.is_finite()) {
        return Change::Unknown(too_far());
    }
    let n = count(before.len().min(after.len()));
    Change::Difference(Estimate { value, low, high, confidence: CONFIDENCE, n, method })
}
