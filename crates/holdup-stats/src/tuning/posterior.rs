//! Draws from the posterior of sparse effects.
//!
//! Each coefficient is zero with a probability that is learnt for its kind, else normal with one of a few variances:
//! small effects, large ones, cliffs. Noise has an inverse gamma prior as weak as two trials.

use super::model::{Sums, Term, Terms};
use crate::random::Noise;

/// Standard deviations that an effect may have, with their shares among effects that are not zero.
const SCALES: [(f64, f64); 3] = [(0.04, 0.5), (0.12, 0.4), (0.7, 0.1)];

/// The prior of the noise of one trial.
const EXPECTED_NOISE: f64 = 0.03;

/// Sweeps before the first draw, and between draws.
const BURN_IN: usize = 80;
const THINNING: usize = 3;

/// Draws that are kept.
pub(super) const DRAWS: usize = 96;

/// Coefficients that are not zero, by their term.
pub(super) type Sparse = Vec<(usize, f64)>;

/// What the sampler gives.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    pub(super) draws: Vec<Sparse>,
    /// Mean of each coefficient: of its expectation given all others, over all sweeps, which is steadier than a mean of draws.
    pub(super) mean: Vec<f64>,
    /// Standard deviation of a trial.
    pub(super) sigma: f64,
}

/// Beta priors of the share of coefficients that are not zero.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Level,
    Pair,
    Own,
}

const SHARES: [(f64, f64); 3] = [(1.0, 3.0), (1.0, 30.0), (0.5, 20.0)];

fn kind(term: &Term) -> Kind {
    match term {
        Term::Level(..) | Term::Ramp(..) => Kind::Level,
        Term::Pair(..) => Kind::Pair,
        Term::Own(_) => Kind::Own,
    }
}

struct Sampler<'a> {
    sums: &'a Sums,
    kinds: Vec<Kind>,
    beta: Vec<f64>,
    /// The expectation of each coefficient when it was last drawn.
    expected: Vec<f64>,
    /// Terms by what is left of the value.
    left: Vec<f64>,
    shares: [f64; 3],
    variance: f64,
    random: Noise,
}

/// Draws; of terms that no trial has, from their prior.
pub(super) fn draw(terms: &Terms, sums: &Sums, seed: u64) -> Draws {
    let p = terms.all.len();
    let variance = (sums.yy / sums.df.max(1.0)).clamp(1e-8, 1.0);
    let mut sampler = Sampler {
        sums,
        kinds: terms.all.iter().map(kind).collect(),
        beta: vec![0.0; p],
        expected: vec![0.0; p],
        left: sums.xy.clone(),
        shares: SHARES.map(|(a, b)| a / (a + b)),
        variance,
        random: Noise::new(seed),
    };
    let mut out = Draws { draws: Vec::with_capacity(DRAWS), mean: vec![0.0; p], sigma: 0.0 };
    for sweep in 1..=BURN_IN + DRAWS * THINNING {
        sampler.sweep();
        if sweep <= BURN_IN {
            continue;
        }
        let sweeps = (DRAWS * THINNING) as f64;
        for (mean, expected) in out.mean.iter_mut().zip(&sampler.expected) {
            *mean += expected / sweeps;
        }
        if (sweep - BURN_IN).is_multiple_of(THINNING) {
            out.sigma += sampler.variance.sqrt() / DRAWS as f64;
            out.draws.push(sampler.beta.iter().copied().enumerate().filter(|(_, b)| *b != 0.0).collect());
        }
    }
    out
}

impl Sampler<'_> {
    fn sweep(&mut self) {
        for term in 0..self.beta.len() {
            self.step(term);
        }
        let mut counts = [(0.0, 0.0); 3];
        for (kind, beta) in self.kinds.iter().zip(&self.beta) {
            let count = &mut counts[*kind as usize];
            if *beta == 0.0 { count.1 += 1.0 } else { count.0 += 1.0 }
        }
        for ((share, (a, b)), (present, absent)) in self.shares.iter_mut().zip(SHARES).zip(counts) {
            *share = beta(&mut self.random, a + present, b + absent).clamp(1e-4, 0.9);
        }
        let fitted: f64 =
            self.beta.iter().zip(self.sums.xy.iter().zip(&self.left)).map(|(b, (x, l))| b * (x + l)).sum();
        let rss = (self.sums.yy - fitted).max(0.0);
        let shape = 1.0 + self.sums.df / 2.0;
        let rate = EXPECTED_NOISE * EXPECTED_NOISE + rss / 2.0;
        self.variance = (rate / gamma(&mut self.random, shape)).max(1e-10);
    }

    /// Draws one coefficient given all others.
    fn step(&mut self, term: usize) {
        let p = self.beta.len();
        let old = self.beta[term];
        let information = self.sums.gram[term * p + term].max(0.0);
        let projected = (self.left[term] + information * old) / self.variance;
        let information = information / self.variance;
        let share = self.shares[self.kinds[term] as usize];
        let mut logs = [(1.0 - share).ln(), 0.0, 0.0, 0.0];
        let mut precisions = [f64::INFINITY; 4];
        for (slab, (scale, weight)) in SCALES.into_iter().enumerate() {
            let precision = information + 1.0 / (scale * scale);
            precisions[slab + 1] = precision;
            logs[slab + 1] = (share * weight).ln() - 0.5 * (scale * scale * precision).ln()
                + 0.5 * projected * projected / precision;
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = logs.map(|log| (log - most).exp());
        let total: f64 = weights.iter().sum();
        self.expected[term] =
            weights.iter().zip(precisions).map(|(w, precision)| w / total * projected / precision).sum();
        let mut at = self.random.uniform() * total;
        let mut component = 0;
        while component < 3 && at > weights[component] {
            at -= weights[component];
            component += 1;
        }
        let precision = precisions[component];
        let new = if component == 0 { 0.0 } else { projected / precision + self.random.normal() / precision.sqrt() };
        if new != old {
            self.beta[term] = new;
            let moved = new - old;
            let row = &self.sums.gram[term * p..(term + 1) * p];
            for (left, g) in self.left.iter_mut().zip(row) {
                *left -= moved * g;
            }
        }
    }
}

/// Gamma with a scale of one (Marsaglia and Tsang, ACM Transactions on Mathematical Software 26, 2000).
fn gamma(random: &mut Noise, shape: f64) -> f64 {
    if shape < 1.0 {
        return gamma(random, shape + 1.0) * random.uniform().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && random.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

fn beta(random: &mut Noise, a: f64, b: f64) -> f64 {
    let (x, y) = (gamma(random, a), gamma(random, b));
    x / (x + y)
}
