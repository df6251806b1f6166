//! What to measure next: the most expected information on the culprit for its cost.
//!
//! The information that a trial of candidate `k` gives on the hypotheses `h` (culprit in a gap, or
//! no step) is `H(Y) − Σ p_h H(Y | h)` (Lindley, "On a measure of the information provided by an experiment",
//! 1956). `Y | h` is taken as normal, with the mean and variance of the predictive
//! distribution; `H(Y)` of the mixture is summed over a fixed grid. Candidates of one gap differ only
//! in the share `f` of the gap's mass that lies up to them, and the mixture is linear in `f`, so the
//! densities are computed once for each gap.

use super::Bisection;
use super::posterior::{Gap, Level, Posterior};
use std::f64::consts::{E, LN_2, TAU};

/// Numbers of trials in a row that are weighed against the price of a build and a boot.
const BATCHES: [u32; 5] = [1, 2, 4, 8, 16];

/// Hypotheses below this probability play no part in the choice.
const LEAST_PROBABILITY: f64 = 1e-5;

/// Means farther apart than this many σ are separated by one trial; a wider distance is reduced to it.
const FARTHEST: f64 = 12.0;

/// Gaps with more candidates than this are evaluated in this number of steps of `f`, with straight lines between.
const TABLE: usize = 32;

/// The best next trials.
#[derive(Debug, Clone, Copy)]
pub(super) struct Best {
    pub(super) candidate: usize,
    pub(super) trials: u32,
    pub(super) bits: f64,
    rate: f64,
}

/// A normal density with its weight in a mixture.
#[derive(Debug, Clone, Copy)]
struct Part {
    weight: f64,
    mean: f64,
    variance: f64,
}

impl Part {
    fn entropy(&self) -> f64 {
        0.5 * (TAU * E * self.variance).ln()
    }

    fn density(&self, y: f64) -> f64 {
        let d = y - self.mean;
        (-0.5 * d * d / self.variance).exp() / (TAU * self.variance).sqrt()
    }
}

/// What a trial may give, at a place in front of all gaps, and what changes from gap to gap.
struct Densities {
    /// The distance of two places of the grid.
    width: f64,
    /// The part of no step, on the grid, with its entropy.
    none: Curve,
    /// Each gap's own part for a trial before its culprit, and for one after it.
    before: Vec<Curve>,
    after: Vec<Curve>,
}

/// Weighted densities on the grid, with their weighted entropy.
#[derive(Debug, Clone, Default)]
struct Curve {
    density: Vec<f64>,
    entropy: f64,
}

impl Curve {
    fn add(&mut self, other: &Curve, sign: f64) {
        self.density.iter_mut().zip(&other.density).for_each(|(a, b)| *a += sign * b);
        self.entropy += sign * other.entropy;
    }

    /// The information when `own` stands for `f` of what lies between `low` and `high`.
    fn bits(&self, low: &Curve, high: &Curve, f: f64, width: f64) -> f64 {
        let mut entropy = 0.0;
        for ((fixed, low), high) in self.density.iter().zip(&low.density).zip(&high.density) {
            let density = fixed + low + f * (high - low);
            if density > 1e-300 {
                entropy -= density * density.ln();
            }
        }
        let conditional = self.entropy + low.entropy + f * (high.entropy - low.entropy);
        ((entropy * width - conditional) / LN_2).max(0.0)
    }
}

impl Densities {
    /// `none` and the pairs of before and after, one for each gap.
    fn new(none: Part, gaps: &[[Part; 2]]) -> Densities {
        let mut parts: Vec<Part> = std::iter::once(none).chain(gaps.iter().flatten().copied()).collect();
        let counts = |p: &&mut Part| p.weight >= LEAST_PROBABILITY;
        draw_together(&mut parts.iter_mut().filter(counts).collect::<Vec<_>>());
        let seen = || parts.iter().filter(|p| p.weight >= LEAST_PROBABILITY);
        let low = seen().map(|p| p.mean - 4.0 * p.variance.sqrt()).fold(f64::INFINITY, f64::min);
        let high = seen().map(|p| p.mean + 4.0 * p.variance.sqrt()).fold(f64::NEG_INFINITY, f64::max);
        let narrowest = seen().map(|p| p.variance).fold(f64::INFINITY, f64::min).sqrt();
        let cells = ((high - low) / (0.8 * narrowest)).ceil().clamp(8.0, 200.0);
        let width = (high - low) / cells;
        let grid: Vec<f64> = (0..=cells as usize).map(|i| low + i as f64 * width).collect();
        let curve = |part: &Part| {
            if part.weight < LEAST_PROBABILITY {
                return Curve { density: vec![0.0; grid.len()], entropy: 0.0 };
            }
            let density = grid.iter().map(|y| part.weight * part.density(*y)).collect();
            Curve { density, entropy: part.weight * part.entropy() }
        };
        let mut curves = parts.iter().map(curve);
        let none = curves.next().unwrap_or_default();
        let (mut before, mut after) = (Vec::with_capacity(gaps.len()), Vec::with_capacity(gaps.len()));
        while let (Some(b), Some(a)) = (curves.next(), curves.next()) {
            before.push(b);
            after.push(a);
        }
        Densities { width, none, before, after }
    }

    /// The mixture in front of the first gap, less that gap's own part.
    fn first(&self) -> Curve {
        let mut fixed = self.none.clone();
        self.before.iter().skip(1).for_each(|curve| fixed.add(curve, 1.0));
        fixed
    }
}

/// Shortens distances between means that no grid needs to resolve.
fn draw_together(parts: &mut [&mut Part]) {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|&i, &j| parts[i].mean.total_cmp(&parts[j].mean));
    let mut cut = 0.0;
    for pair in 1..order.len() {
        let (left, right) = (*parts[order[pair - 1]], *parts[order[pair]]);
        let farthest = FARTHEST * left.variance.max(right.variance).sqrt();
        // The left mean is already moved; the right one not yet.
        let distance = right.mean - cut - left.mean;
        cut += (distance - farthest).max(0.0);
        parts[order[pair]].mean -= cut;
    }
}

/// The candidate and number of trials with the most information for the cost; `None` when nothing can be measured.
pub(super) fn best(search: &Bisection, belief: &Posterior) -> Option<Best> {
    let mut best: Option<Best> = None;
    let has_fixed_costs = match &search.costs {
        super::Costs::Same(cost) => cost.build_s + cost.boot_s > 0.0,
        super::Costs::Each(costs) => costs.iter().any(|cost| cost.build_s + cost.boot_s > 0.0),
    };
    let batches = if has_fixed_costs { &BATCHES[..] } else { &BATCHES[..1] };
    for &trials in batches {
        let densities = Densities::new(
            part(belief.no_step, &belief.level, belief.noise, belief.ratio + belief.session_ratio, trials),
            &belief.gaps.iter().map(|gap| pair(gap, belief.ratio + belief.session_ratio, trials)).collect::<Vec<_>>(),
        );
        let mut fixed = densities.first();
        for gap in 0..belief.gaps.len() {
            if gap > 0 {
                fixed.add(&densities.after[gap - 1], 1.0);
                fixed.add(&densities.before[gap], -1.0);
            }
            let (low, high) = (&densities.before[gap], &densities.after[gap]);
            let bits = |f: f64| fixed.bits(low, high, f, densities.width);
            look_at_point(&mut best, search, belief, gap, trials, bits(0.0));
            look_into_gap(&mut best, search, &belief.gaps[gap], trials, bits);
            if gap + 1 == belief.gaps.len() {
                look_at_point(&mut best, search, belief, gap + 1, trials, bits(1.0));
            }
        }
    }
    best
}

fn take(best: &mut Option<Best>, search: &Bisection, candidate: usize, trials: u32, bits: f64) {
    let rate = bits / search.cost_s(candidate, trials);
    if best.is_none_or(|b| rate > b.rate) {
        *best = Some(Best { candidate, trials, bits, rate });
    }
}

/// A candidate that was measured; `bits` is the information of a new build in its place.
fn look_at_point(
    best: &mut Option<Best>,
    search: &Bisection,
    belief: &Posterior,
    index: usize,
    trials: u32,
    bits: f64,
) {
    let candidate = belief.points[index].candidate;
    if search.skipped[candidate] {
        return;
    }
    let bits = if belief.ratio > 0.0 { bits_at_point(belief, index, trials) } else { bits };
    take(best, search, candidate, trials, bits);
}

fn look_into_gap(best: &mut Option<Best>, search: &Bisection, gap: &Gap, trials: u32, bits: impl Fn(f64) -> f64) {
    let up_to = &search.prior_up_to;
    let mass = up_to[gap.to] - up_to[gap.from];
    let inside = gap.from + 1..gap.to;
    let costs = inside.clone().filter(|&c| !search.skipped[c]).map(|c| search.cost_s(c, trials));
    let Some(cheapest) = costs.reduce(f64::min) else {
        return;
    };
    // Information is concave in f, so lines through known points bound it from above.
    let (zero, half, one) = (bits(0.0), bits(0.5), bits(1.0));
    let bound = half + (half - zero).max(half - one).max(0.0);
    if best.is_some_and(|b| bound / cheapest <= b.rate) {
        return;
    }
    let table: Option<Vec<f64>> =
        (inside.len() > TABLE).then(|| (0..=TABLE).map(|i| bits(i as f64 / TABLE as f64)).collect());
    for candidate in inside.filter(|&c| !search.skipped[c]) {
        let f = if mass > 0.0 { (up_to[candidate] - up_to[gap.from]) / mass } else { 0.0 };
        let bits = match &table {
            Some(table) => {
                let place = f.clamp(0.0, 1.0) * TABLE as f64;
                let cell = (place as usize).min(TABLE - 1);
                table[cell] + (place - cell as f64) * (table[cell + 1] - table[cell])
            }
            None => bits(f),
        };
        take(best, search, candidate, trials, bits);
    }
}

/// The mean of some trials of one build of a candidate.
fn part(weight: f64, level: &Level, noise: f64, ratio: f64, trials: u32) -> Part {
    Part { weight, mean: level.mean, variance: level.variance + noise * (ratio + 1.0 / f64::from(trials)) }
}

/// The parts of a gap for a trial before its culprit and for one after it.
fn pair(gap: &Gap, ratio: f64, trials: u32) -> [Part; 2] {
    let weight = gap.probability + gap.wrong;
    [&gap.before, &gap.after].map(|level| part(weight, level, gap.noise, ratio, trials))
}

/// Where builds differ, what is known of this build already predicts a part of its result.
fn bits_at_point(belief: &Posterior, index: usize, trials: u32) -> f64 {
    let point = &belief.points[index];
    let prior_ratio = belief.ratio;
    let known = point.trials * prior_ratio / (1.0 + point.trials * prior_ratio);
    let ratio = prior_ratio / (1.0 + point.trials * prior_ratio) + belief.session_ratio;
    let seen = |weight: f64, level: &Level, noise: f64| {
        let mean = (1.0 - known) * level.mean + known * point.mean;
        part(weight, &Level { mean, variance: (1.0 - known).powi(2) * level.variance }, noise, ratio, trials)
    };
    let of_gap = |gap: &Gap| {
        let weight = gap.probability + gap.wrong;
        [&gap.before, &gap.after].map(|level| seen(weight, level, gap.noise))
    };
    let gaps: Vec<[Part; 2]> = belief.gaps.iter().map(of_gap).collect();
    let densities = Densities::new(seen(belief.no_step, &belief.level, belief.noise), &gaps);
    let mut all = densities.none.clone();
    for (i, (before, after)) in densities.before.iter().zip(&densities.after).enumerate() {
        all.add(if i < index { after } else { before }, 1.0);
    }
    let nothing = Curve { density: vec![0.0; all.density.len()], entropy: 0.0 };
    all.bits(&nothing, &nothing, 0.0, densities.width)
}
