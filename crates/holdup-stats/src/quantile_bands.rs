//! The shift of a whole latency distribution, with bands that hold at all quantiles together.
//!
//! The quantile shift function (Doksum 1974; Doksum and Sievers 1976) as a ratio: B's quantile by A's, over
//! [`CURVE_QUANTILES`]. Two bands answer two questions. [`quantile_shift`] knows sampling error only and needs
//! samples that are independent of each other, which latencies of one trial hardly ever are;
//! [`quantile_shift_over_blocks`] takes the error from how much the shift differs from block to block.

use crate::order_statistics::enclosing_ranks;
use crate::pieces::{mean, variance};
use crate::quantiles::{CURVE_QUANTILES, is_thin};
use crate::{CONFIDENCE, NoEstimate, students_t};
use holdup_model::Histogram;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Below this many blocks their spread says too little to bound a hundred quantiles together.
pub const MIN_BLOCKS_OF_SHIFT: usize = 4;

/// Draws behind the critical value over blocks.
pub const SHIFT_DRAWS: u32 = 999;

/// Pointwise critical value, in standard errors, at which the band of [`quantile_shift`] holds everywhere.
///
/// The errors of all quantiles of one sample follow a Brownian bridge over the quantile. Its largest absolute value
/// over [`CURVE_QUANTILES`], each divided by √(q(1 − q)), stays below 3.0776 with a probability of 95 % (numerical
/// integration of the Markov chain that the bridge is on this grid). The ratio's error is the sum of A's and B's,
/// and where the two distributions differ in shape their shares change along the curve, which decorrelates it:
/// 3.09 to 3.12 for one to three changes of the side that dominates (200,000 simulated pairs of bridges).
const BRIDGE_CRITICAL: f64 = 3.12;

/// More redrawn blocks than this only cost time; fewer than there are make the band a little wider, never narrower.
const MOST_REDRAWN: usize = 32;

/// At this many standard errors to both sides, the mean of two order statistics is as far from the one between as
/// a sample quantile is from the truth on average, where the quantile function bends (0.76 against 0.80 of the bend);
/// where it curves smoothly, farther (1.13 against 0.5).
const BEND_REACH: f64 = 1.5;

const GRID: usize = CURVE_QUANTILES.len();

/// One quantile of two histograms, or of an arm pair over blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileShift {
    /// Between 0 and 1.
    pub quantile: f64,
    /// A's value, ns; over blocks, the geometric mean of the blocks' values.
    pub a_ns: f64,
    /// B's value, ns; over blocks, the geometric mean of the blocks' values.
    pub b_ns: f64,
    /// B's value by A's; over blocks, the geometric mean of the blocks' ratios. Values below 1 ns are counted as
    /// 1 ns, so A's is never zero.
    pub ratio: f64,
    /// Lower end of the ratio's band, above zero; `None` when the samples do not bound it.
    pub low: Option<f64>,
    /// Upper end of the ratio's band; `None` when the samples do not bound it.
    pub high: Option<f64>,
    /// True if either side (over blocks: of any block) has fewer than 10 samples beyond.
    pub thin: bool,
}

/// The natural logarithms of the ends between which a value (ns) lies; no upper end for clipped values.
#[derive(Debug, Clone, Copy)]
struct Reach {
    low: f64,
    high: Option<f64>,
}

/// A bucket that holds something.
struct Step {
    low_ns: u64,
    high_ns: u64,
    /// Samples in it or below.
    up_to: u64,
}

/// The buckets of a histogram in ascending order, each with how many samples lie in it or below.
struct Ladder {
    steps: Vec<Step>,
    count: u64,
    /// True if the last bucket holds values of which only a lower end is known.
    clipped: bool,
}

impl Ladder {
    /// `None` when the histogram is empty.
    fn of(histogram: &Histogram) -> Option<Ladder> {
        let mut count = 0_u64;
        let step = |(low_ns, high_ns, samples): (u64, u64, u64)| {
            count = count.saturating_add(samples);
            Step { low_ns: low_ns.max(1), high_ns: high_ns.max(1), up_to: count }
        };
        let steps: Vec<Step> = histogram.buckets().map(step).collect();
        (!steps.is_empty()).then(|| Ladder { steps, count, clipped: histogram.clipped() > 0 })
    }

    /// The place of the bucket that holds the order statistic of a rank (from 1).
    fn place(&self, rank: u64) -> usize {
        self.steps.partition_point(|step| step.up_to < rank).min(self.steps.len() - 1)
    }

    fn at_rank(&self, rank: u64) -> Reach {
        let place = self.place(rank);
        let open = self.clipped && place + 1 == self.steps.len();
        let step = &self.steps[place];
        Reach { low: (step.low_ns as f64).ln(), high: (!open).then(|| (step.high_ns as f64).ln()) }
    }

    /// The rank that stands for a quantile, by the rule of [`Histogram::quantile_ns`].
    fn rank_of(&self, quantile: f64) -> u64 {
        ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count)
    }

    /// How far a sample quantile of `n` samples is above the true one on average (log scale), by the bend of the
    /// quantile function there; `None` where the sample does not reach far enough.
    fn bias(&self, quantile: f64) -> Option<f64> {
        let (low, high) = enclosing_ranks(self.count, quantile, BEND_REACH);
        let middle = |rank| {
            let reach = self.at_rank(rank);
            (reach.low + reach.high.unwrap_or(reach.low)) / 2.0
        };
        Some((middle(low?) + middle(high?)) / 2.0 - middle(self.rank_of(quantile)))
    }

    /// The value at a quantile as every other table shows it: the highest of its bucket.
    fn value_ns(&self, quantile: f64) -> f64 {
        self.steps[self.place(self.rank_of(quantile))].high_ns as f64
    }
}

/// Directions in which the errors of the two sides are looked at together: from all of it on one side to all of it
/// on the other, in steps of 90° / 8. Between two of them at most 0.5 % of the reach is missed, which the critical
/// value has to spare.
const DIRECTIONS: usize = 9;

/// One quantile of one sample: the farthest places it may have (logarithms of ns), for each direction.
struct Side {
    /// Lower ends, from the one at the full critical value to the one at zero.
    low: [Option<f64>; DIRECTIONS],
    /// Upper ends, in the same order.
    high: [Option<f64>; DIRECTIONS],
}

impl Side {
    fn of(ladder: &Ladder, quantile: f64) -> Side {
        let rank = ladder.rank_of(quantile);
        let ranks: [(Option<u64>, Option<u64>); DIRECTIONS] = std::array::from_fn(|i| {
            let angle = std::f64::consts::FRAC_PI_2 * i as f64 / (DIRECTIONS - 1) as f64;
            enclosing_ranks(ladder.count, quantile, (BRIDGE_CRITICAL * angle.cos()).max(0.0))
        });
        Side {
            low: ranks.map(|(low, _)| low.map(|l| ladder.at_rank(l.min(rank)).low)),
            high: ranks.map(|(_, high)| high.and_then(|u| ladder.at_rank(u.max(rank)).high)),
        }
    }
}

/// The shift of B against A at [`CURVE_QUANTILES`], with a simultaneous 95 % band from sampling error alone; empty
/// when either histogram is.
///
/// The band holds at all quantiles together only when all samples are independent of each other. Samples of one trial
/// share its placement, frequency and neighbours; then this band is far too narrow, and
/// [`quantile_shift_over_blocks`] is the one to show.
///
/// Each side's quantile lies between two order statistics (binomial, exact for any distribution). The ratio's lower
/// end is the least B_low(3.12 sin φ) / A_high(3.12 cos φ) over φ from 0° to 90°, where X_low(z) and X_high(z) are the
/// order statistics at the level of z standard errors, and the upper end its mirror image: the errors of two
/// independent sides are seldom both large. Where the quantile functions are smooth this amounts to adding the two
/// errors in squares (Zou and Donner 2008); where they jump or bend, as between two modes of a latency, that rule
/// misses the truth and this one does not. Order statistics are known to within a histogram bucket, and the
/// bucket's far end is taken. An end is `None` where an order statistic lies beyond the sample or among values
/// clipped at one hour.
pub fn quantile_shift(a: &Histogram, b: &Histogram) -> Vec<QuantileShift> {
    let (Some(ladder_a), Some(ladder_b)) = (Ladder::of(a), Ladder::of(b)) else { return Vec::new() };
    let shift = |&quantile: &f64| {
        let (side_a, side_b) = (Side::of(&ladder_a, quantile), Side::of(&ladder_b, quantile));
        let (a_ns, b_ns) = (ladder_a.value_ns(quantile), ladder_b.value_ns(quantile));
        let ratio = b_ns / a_ns.max(1.0);
        QuantileShift {
            quantile,
            a_ns,
            b_ns,
            ratio,
            low: lower_end(&side_b, &side_a).map(|l| l.exp().min(ratio)),
            high: lower_end(&side_a, &side_b).map(|l| (-l).exp().max(ratio)),
            thin: is_thin(a, quantile) || is_thin(b, quantile),
        }
    };
    CURVE_QUANTILES.iter().map(shift).collect()
}

/// The lower end of ln(upper / lower), where `upper` may be smaller and `lower` larger than seen.
fn lower_end(upper: &Side, lower: &Side) -> Option<f64> {
    let mut least = f64::INFINITY;
    for (low, high) in upper.low.iter().zip(lower.high.iter().rev()) {
        least = least.min((*low)? - (*high)?);
    }
    Some(least)
}

/// The shift of B against A at [`CURVE_QUANTILES`] over blocks, with a simultaneous 95 % band from the spread of the
/// blocks; see [`quantile_shift_over_blocks_from`], which this calls with [`SHIFT_DRAWS`] draws.
///
/// # Errors
/// With fewer than four blocks, or a block without samples of A or B.
pub fn quantile_shift_over_blocks(
    blocks: &[(Histogram, Histogram)],
    seed: u64,
) -> Result<Vec<QuantileShift>, NoEstimate> {
    quantile_shift_over_blocks_from(blocks, seed, SHIFT_DRAWS)
}

/// One quantile over the blocks.
struct Spread {
    /// Mean logarithms of A's and B's values, and of the ratio's smallest and largest value within the buckets,
    /// moved outward by what a sample quantile is off on average.
    a: f64,
    b: f64,
    low: f64,
    high: f64,
    /// Standard error of the mean log ratio.
    se: f64,
    /// Residual of each block by the standard deviation; zeros without spread.
    residuals: Vec<f64>,
    /// True if a block's value was clipped or is too near the end of its samples, so that the mean has no ends.
    open: bool,
}

/// As [`quantile_shift_over_blocks`], with a number of draws (at least 99 are made).
///
/// For each quantile the log ratios of the blocks (A and B of the same block) have a mean and a standard error; the
/// band is mean ± c · standard error, widened by what the histogram buckets leave open. c is the 95 % point of the
/// largest |t| over all quantiles. It is found by redrawing: as many normal blocks as there are, with the residuals'
/// own covariance (each redrawn block is Σ gₖ rₖ / √(J − 1), gₖ standard normal), t at each quantile with the
/// redrawn blocks' own standard deviation, the largest kept. So every single quantile has exactly a t distribution
/// with J − 1 degrees of freedom, also for few blocks, where multiplying each residual by one normal number falls far
/// short. Because J residuals show J − 1 directions at most, a share 1/J of each redrawn block is the normalised
/// Brownian bridge that independent sampling error would be (shrinkage of the correlation). c is never less than the
/// pointwise t. Beyond 32 blocks 32 are redrawn, which makes c a little larger.
///
/// A block's sample quantile is biased where the quantile function bends, and more blocks do not take that away: the
/// band is moved outward by an estimate of it, on the side where the truth then lies. There are no ends at quantiles
/// for which a block has fewer than about three samples beyond. Where blocks differ by less than the buckets are
/// wide, the spread is taken as that of rounding, w²/12. Blocks count as independent, also those of one session.
pub fn quantile_shift_over_blocks_from(
    blocks: &[(Histogram, Histogram)],
    seed: u64,
    draws: u32,
) -> Result<Vec<QuantileShift>, NoEstimate> {
    if blocks.len() < MIN_BLOCKS_OF_SHIFT {
        return Err(NoEstimate::new(format!("{} blocks are too few for a band, which needs four", blocks.len())));
    }
    let mut ladders = Vec::with_capacity(blocks.len());
    for (a, b) in blocks {
        let (Some(a), Some(b)) = (Ladder::of(a), Ladder::of(b)) else {
            return Err(NoEstimate::new("a block has no samples of one side"));
        };
        ladders.push((a, b));
    }
    let spreads: Vec<Spread> = CURVE_QUANTILES.iter().map(|&quantile| spread(&ladders, quantile)).collect();
    let critical = critical_value(&spreads, seed, draws)?;
    let shift = |(&quantile, spread): (&f64, &Spread)| {
        let ratio = (spread.b - spread.a).exp();
        let (low, high) = (spread.low - critical * spread.se, spread.high + critical * spread.se);
        QuantileShift {
            quantile,
            a_ns: spread.a.exp(),
            b_ns: spread.b.exp(),
            ratio,
            low: end(low, spread.open).map(|l| l.min(ratio)),
            high: end(high, spread.open).map(|h| h.max(ratio)),
            thin: blocks.iter().any(|(a, b)| is_thin(a, quantile) || is_thin(b, quantile)),
        }
    };
    Ok(CURVE_QUANTILES.iter().zip(&spreads).map(shift).collect())
}

/// An end that is a number, of a band that has ends.
fn end(log: f64, open: bool) -> Option<f64> {
    let end = log.exp();
    (!open && end > 0.0 && end.is_finite()).then_some(end)
}

fn spread(ladders: &[(Ladder, Ladder)], quantile: f64) -> Spread {
    let blocks = ladders.len() as f64;
    let (mut a_sum, mut b_sum, mut low, mut high, mut rounding, mut bias) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    let mut ratios = Vec::with_capacity(ladders.len());
    let mut open = false;
    for (a, b) in ladders {
        match (a.bias(quantile), b.bias(quantile)) {
            (Some(of_a), Some(of_b)) => bias += of_b - of_a,
            _ => open = true,
        }
        let (a, b) = (a.at_rank(a.rank_of(quantile)), b.at_rank(b.rank_of(quantile)));
        open |= a.high.is_none() || b.high.is_none();
        let (a_high, b_high) = (a.high.unwrap_or(a.low), b.high.unwrap_or(b.low));
        a_sum += a_high;
        b_sum += b_high;
        low += b.low - a_high;
        high += b_high - a.low;
        rounding += (width(a.low, a_high).powi(2) + width(b.low, b_high).powi(2)) / 12.0;
        ratios.push(b_high - a_high);
    }
    let centre = mean(&ratios);
    let scatter = variance(&ratios);
    let has_spread = scatter.sqrt() > 1e-12;
    let residuals = ratios.iter().map(|r| if has_spread { (r - centre) / scatter.sqrt() } else { 0.0 }).collect();
    Spread {
        a: a_sum / blocks,
        b: b_sum / blocks,
        low: (low - bias.max(0.0)) / blocks,
        high: (high - bias.min(0.0)) / blocks,
        se: (scatter.max(rounding / blocks) / blocks).sqrt(),
        residuals,
        open,
    }
}

/// The width of a bucket on the log scale. Whole ns stand for a ns each.
fn width(low: f64, high: f64) -> f64 {
    ((high.exp() + 1.0) / low.exp()).ln().max(0.0)
}

/// The 95 % point of the largest |t| over the quantiles, at least the pointwise t.
fn critical_value(spreads: &[Spread], seed: u64, draws: u32) -> Result<f64, NoEstimate> {
    let blocks = spreads.first().map_or(0, |s| s.residuals.len());
    let pointwise = students_t::quantile((1.0 + CONFIDENCE) / 2.0, blocks as f64 - 1.0)
        .ok_or_else(|| NoEstimate::new("too many blocks for a t distribution"))?;
    let shrink = 1.0 / blocks as f64;
    // Row by row, so that the inner loop runs along the grid.
    let scale = ((1.0 - shrink) / (blocks as f64 - 1.0)).sqrt();
    let rows: Vec<[f64; GRID]> =
        (0..blocks).map(|block| std::array::from_fn(|i| spreads[i].residuals[block] * scale)).collect();
    let steps: [(f64, f64); GRID] = std::array::from_fn(|i| bridge_step(i, shrink));
    let mut normals = Normals::new(seed);
    let draws = draws.max(99) as usize;
    let mut largest: Vec<f64> = (0..draws).map(|_| largest_t(&rows, &steps, &mut normals)).collect();
    largest.sort_by(f64::total_cmp);
    // With 999 draws the 950th: a new one exceeds it with a probability of exactly 5 %.
    let index = (CONFIDENCE * (draws + 1) as f64).ceil() as usize;
    Ok(largest[index.clamp(1, draws) - 1].max(pointwise))
}

/// How the normalised Brownian bridge continues from one quantile of the grid to the next: factor of the one before,
/// and of a fresh normal number. The first is scaled to the share of the bridge, and the others follow.
fn bridge_step(index: usize, share: f64) -> (f64, f64) {
    if index == 0 {
        return (0.0, share.sqrt());
    }
    let (before, here) = (CURVE_QUANTILES[index - 1], CURVE_QUANTILES[index]);
    let correlation = (before * (1.0 - here) / (here * (1.0 - before))).sqrt();
    (correlation, ((1.0 - correlation * correlation) * share).sqrt())
}

/// The largest |t| over the grid of one set of redrawn blocks whose true mean is zero.
fn largest_t(rows: &[[f64; GRID]], steps: &[(f64, f64); GRID], normals: &mut Normals) -> f64 {
    let redrawn = rows.len().min(MOST_REDRAWN);
    let (mut sum, mut squares) = ([0.0; GRID], [0.0; GRID]);
    for _ in 0..redrawn {
        let mut block = [0.0; GRID];
        let mut bridge = 0.0;
        for (value, (keep, fresh)) in block.iter_mut().zip(steps) {
            bridge = keep * bridge + fresh * normals.next();
            *value = bridge;
        }
        for row in rows {
            let g = normals.next();
            for (value, residual) in block.iter_mut().zip(row) {
                *value += g * residual;
            }
        }
        for ((sum, square), value) in sum.iter_mut().zip(&mut squares).zip(&block) {
            *sum += value;
            *square += value * value;
        }
    }
    let n = redrawn as f64;
    let t_squared = |(sum, squares): (&f64, &f64)| {
        let variance = (squares - sum * sum / n) / (n - 1.0);
        if variance > 0.0 { sum * sum / n / variance } else { 0.0 }
    };
    sum.iter().zip(&squares).map(t_squared).fold(0.0, f64::max).sqrt()
}

/// Standard normal numbers, two at a time (the polar method of Marsaglia and Bray).
struct Normals {
    random: Pcg64Mcg,
    spare: Option<f64>,
}

impl Normals {
    fn new(seed: u64) -> Self {
        Normals { random: Pcg64Mcg::seed_from_u64(seed), spare: None }
    }

    /// Uniform in (−1, 1).
    fn symmetric(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 52) as f64 - 1.0
    }

    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.symmetric(), self.symmetric());
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_stays_below_its_critical_value_in_nineteen_of_twenty() {
        let steps: [(f64, f64); GRID] = std::array::from_fn(|i| bridge_step(i, 1.0));
        let mut normals = Normals::new(7);
        let mut stays_below = |limit: f64| {
            let mut bridge = 0.0_f64;
            let mut largest = 0.0_f64;
            for (keep, fresh) in &steps {
                bridge = keep * bridge + fresh * normals.next();
                largest = largest.max(bridge.abs());
            }
            largest <= limit
        };
        let draws = 20_000;
        let below = (0..draws).filter(|_| stays_below(3.0776)).count() as f64 / f64::from(draws);
        // The standard error of the share is 0.15 points.
        assert!((below - 0.95).abs() < 0.005, "{below}");
    }

    #[test]
    fn one_quantile_alone_has_the_t_distribution() {
        // The same residuals everywhere and no bridge: one t with three degrees of freedom, of 3.182 at 95 %.
        let rows = [-1.5, -0.5, 0.5, 1.5].map(|r: f64| [r / 5.0_f64.sqrt(); GRID]);
        let mut normals = Normals::new(8);
        let beyond = (0..20_000).filter(|_| largest_t(&rows, &[(0.0, 0.0); GRID], &mut normals) > 3.182).count();
        assert!((beyond as f64 / 20_000.0 - 0.05).abs() < 0.005, "{beyond}");
    }
}
