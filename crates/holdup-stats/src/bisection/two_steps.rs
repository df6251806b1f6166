//! Whether two steps fit the trials better than one.
//!
//! The search takes one step for granted. Here the trials that it took are held against a step in each of two gaps: the
//! likelihood is that of `posterior`, a regression on two steps in the place of one (normal-inverse-gamma; Gelman and others,
//! "Bayesian Data Analysis", section 14.8), summed over the same beliefs about builds, sessions and drift. A ramp shows as
//! several steps, too. What lies within one gap looks like one step.

use super::posterior::{Belief, Model, Point, Sums, Weighted, beliefs};
use super::{Observation, Options};

/// The probability of two steps, of what has one or two.
const PRIOR: f64 = 0.2;

/// The posterior probability at which two are said to be likely.
const LIKELY: f64 = 0.9;

/// The share of the posterior of one of the steps that its range holds.
const RANGE: f64 = 0.9;

/// A level has trials of this weight at least, so that an outlier is none.
const LEAST_TRIALS: f64 = 2.5;

/// Variances of a step over that of a trial, with their prior.
const VARIANCES: [(f64, f64); 2] = [(4.0, 0.6), (40.0, 0.4)];

/// Two steps, and where each of them is.
#[derive(Debug, Clone, PartialEq)]
pub struct TwoSteps {
    /// The posterior probability that there are two.
    pub probability: f64,
    /// Of each step, in order: the last measured candidate before it and the first one behind it; 90 %.
    pub ranges: [(usize, usize); 2],
}

/// Two steps, where they are likely.
pub(super) fn likely(
    observations: &[Observation],
    n: usize,
    prior_up_to: &[f64],
    options: &Options,
) -> Option<TwoSteps> {
    let weighted = Weighted::new(observations, n, options, |points, trials| best(points, trials, options))?;
    let points = &weighted.points[0];
    let gaps = points.len().checked_sub(1).filter(|gaps| *gaps >= 2)?;
    let masses = weighted.masses(prior_up_to);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for (belief, share) in beliefs(options) {
        let fit = Fit::new(&weighted.points[belief.session], belief, weighted.trials, options);
        for a in 0..gaps {
            one.push((1.0 - PRIOR + PRIOR * masses[a]).ln() + (share * masses[a]).ln() + fit.one(a));
            for b in a + 1..gaps {
                two.push(((a, b), (PRIOR * share * 2.0 * masses[a] * masses[b]).ln() + fit.two(a, b)));
            }
        }
    }
    let most = one.iter().copied().chain(two.iter().map(|(_, log)| *log)).fold(f64::MIN, f64::max);
    let of_one: f64 = one.iter().map(|log| (log - most).exp()).sum();
    let mut of_gaps = [vec![0.0; gaps], vec![0.0; gaps]];
    for ((a, b), log) in &two {
        of_gaps[0][*a] += (log - most).exp();
        of_gaps[1][*b] += (log - most).exp();
    }
    let of_two: f64 = of_gaps[0].iter().sum();
    let probability = of_two / (of_one + of_two);
    // Not a number where the values are too far apart.
    if probability.is_nan() || probability < LIKELY {
        return None;
    }
    let range = |of: &[f64]| {
        let (from, to) = narrowest(of, RANGE * of_two);
        (points[from].candidate, points[to + 1].candidate)
    };
    Some(TwoSteps { probability, ranges: [range(&of_gaps[0]), range(&of_gaps[1])] })
}

/// After which measured candidates the two steps come that fit best, with some trials in each part.
fn best(points: &[Point], trials: usize, options: &Options) -> Option<[usize; 2]> {
    let fit = Fit::new(points, Belief::default(), trials, options);
    let last = points.len() - 1;
    let has_some = |from: usize, to: usize| points[from..=to].iter().map(|p| p.trials).sum::<f64>() >= LEAST_TRIALS;
    let mut best: Option<(f64, [usize; 2])> = None;
    for a in (0..last).filter(|a| has_some(0, *a)) {
        for b in (a + 1..last).filter(|b| has_some(a + 1, *b) && has_some(b + 1, last)) {
            let log = fit.two(a, b);
            if best.is_none_or(|(most, _)| log > most) {
                best = Some((log, [points[a].candidate, points[b].candidate]));
            }
        }
    }
    best.map(|(_, steps)| steps)
}

/// The first and the last of the fewest neighbours that hold this much.
fn narrowest(of: &[f64], wanted: f64) -> (usize, usize) {
    for length in 1..of.len() {
        let sums = of.windows(length).map(|w| w.iter().sum::<f64>()).enumerate();
        let best = sums.max_by(|x, y| x.1.total_cmp(&y.1));
        if let Some((from, _)) = best.filter(|(_, sum)| *sum >= wanted) {
            return (from, from + length - 1);
        }
    }
    (0, of.len() - 1)
}

/// Trials under one belief, for regressions on steps.
struct Fit {
    /// For each gap: the weight behind it, and its products with values and times, around the means.
    behind: Vec<[f64; 3]>,
    all_w: f64,
    ridge: f64,
    ty: f64,
    yy: f64,
    prior_rate: f64,
    shape: f64,
    log_shared: f64,
}

impl Fit {
    fn new(points: &[Point], belief: Belief, trials: usize, options: &Options) -> Fit {
        let model = Model::new(points, trials, options, belief);
        let all = model.sums();
        let [yy, tt, ty] = all.around_means();
        let (mean, time) = (all.y / all.w, all.t / all.w);
        let mut so_far = Sums::default();
        let behind = points[..points.len() - 1].iter().map(|point| {
            model.add(&mut so_far, point);
            let w = all.w - so_far.w;
            [w, all.y - so_far.y - w * mean, all.t - so_far.t - w * time]
        });
        let behind = behind.collect();
        let ridge = if belief.drift > 0.0 { 1.0 / (tt + 1.0 / belief.drift) } else { 0.0 };
        Fit {
            behind,
            all_w: all.w,
            ridge,
            ty,
            yy: yy - ty * ty * ridge,
            prior_rate: model.prior_rate(),
            shape: model.shape(),
            log_shared: model.log_shared(),
        }
    }

    /// The product of two steps, of which the first comes first.
    fn product(&self, first: usize, second: usize) -> f64 {
        let ([before, _, t], [after, _, u]) = (self.behind[first], self.behind[second]);
        after - before * after / self.all_w - t * u * self.ridge
    }

    /// The product of a step and the values.
    fn with_values(&self, gap: usize) -> f64 {
        let [_, y, t] = self.behind[gap];
        y - t * self.ty * self.ridge
    }

    fn log(&self, determinant: f64, explained: f64) -> f64 {
        let rate = self.prior_rate + (self.yy - explained).max(0.0) / 2.0;
        self.log_shared - 0.5 * determinant.ln() - self.shape * rate.ln()
    }

    /// The log likelihood of one step.
    fn one(&self, gap: usize) -> f64 {
        let (product, y) = (self.product(gap, gap), self.with_values(gap));
        let of = |(k, share): (f64, f64)| (share.ln(), self.log(1.0 + k * product, y * y / (product + 1.0 / k)));
        log_sum(VARIANCES.map(of))
    }

    /// The log likelihood of two.
    fn two(&self, a: usize, b: usize) -> f64 {
        let (aa, bb, ab) = (self.product(a, a), self.product(b, b), self.product(a, b));
        let (ya, yb) = (self.with_values(a), self.with_values(b));
        let of = |(k, share): (f64, f64)| {
            let of = |(l, share_too): (f64, f64)| {
                let (m, n) = (aa + 1.0 / k, bb + 1.0 / l);
                let determinant = (m * n - ab * ab).max(f64::MIN_POSITIVE);
                let explained = (n * ya * ya - 2.0 * ab * ya * yb + m * yb * yb) / determinant;
                ((share * share_too).ln(), self.log(k * l * determinant, explained))
            };
            (0.0, log_sum(VARIANCES.map(of)))
        };
        log_sum(VARIANCES.map(of))
    }
}

/// The logarithm of the sum of what has these logarithms of weight and value.
fn log_sum(logs: [(f64, f64); VARIANCES.len()]) -> f64 {
    let all = logs.map(|(weight, value)| weight + value);
    let most = all.iter().copied().fold(f64::MIN, f64::max);
    most + all.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}
