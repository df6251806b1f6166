//! What the trials so far say about the culprit.
//!
//! All candidates between two neighbouring measured ones split the trials in the same way, so the
//! likelihood is computed once for each gap. With `W`, `ȳ` and `S` the weight, mean and sum of
//! squares on either side of a gap, `d = ȳ_after − ȳ_before`, `V = 1/W_before + 1/W_after`, a flat
//! prior on μ, `σ² ~ InvGamma(a, b)` and `δ | σ² ~ N(0, kσ²)`, the marginal likelihood is, up to a
//! factor that all hypotheses share,
//!
//! `√(V / (V + k)) · (b + (S + d² / (V + k)) / 2)^−(a + (N − 1) / 2)`
//!
//! and `k = 0` is the hypothesis of no step (normal-inverse-gamma; Gelman and others, "Bayesian
//! Data Analysis", section 3.3). It is averaged over several `k`, because how many σ a step has is not
//! known, and multiplied by the share of δ in the wanted direction and beyond the smallest step,
//! after over before the data, which is how a truncated prior comes into it exactly.
//!
//! How much builds differ and whether the host drifts is learnt too: the sum goes over several ratios `r` of the variance of
//! builds to that of trials, and over a straight line in time with a normal prior or none. Trials of a candidate weigh
//! `n/(1 + rn)` together; the line is projected out of values and steps alike (ridge regression). Each pair brings the factor
//! `Π(1 + rn)^−½ · W^−½ · (1 + κT)^−½` with the squares `T` of the times, which all hypotheses of the pair share.

use super::outliers::outlier_weights;
use super::{Direction, Observation, Options};
use crate::students_t;
use statrs::function::erf::erfc;
use std::collections::BTreeMap;

/// Variances of the step over the one of a trial, with their prior: steps of about 1, 2, 6 and 30 σ. Small
/// steps are the ones that trials are spent on, so they are given most; a large one needs no help.
const STEP_VARIANCES: [(f64, f64); 4] = [(1.0, 0.3), (4.0, 0.45), (40.0, 0.2), (1000.0, 0.05)];

/// The shape of the prior of σ²: two degrees of freedom, the weight of two trials.
pub(super) const SHAPE: f64 = 1.0;

/// The share of a step's prior that lies in the direction not looked for.
const WRONG_SHARE: f64 = 0.1;

/// Variances between builds over those of trials, with their prior.
const BUILD_RATIOS: [(f64, f64); 4] = [(0.0, 0.6), (0.3, 0.15), (1.5, 0.15), (6.0, 0.1)];

/// Variances between sessions of one build over those of trials, with their prior.
const SESSION_RATIOS: [(f64, f64); 2] = [(0.0, 0.7), (1.0, 0.3)];

/// Variances of a drift from the first trial to the last, over those of trials, with their prior.
const DRIFTS: [(f64, f64); 2] = [(0.0, 0.8), (10.0, 0.2)];

/// How often the weights of outliers are set anew.
const WEIGHT_ROUNDS: usize = 3;

/// Trials of one candidate in sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) candidate: usize,
    /// Sum of the weights of its trials; less where those of a session are alike.
    pub(super) trials: f64,
    pub(super) mean: f64,
    /// Mean of their times, from −½ for the first trial of all to ½ for the last.
    time: f64,
    /// Around both means: squares of values, of times, and their products.
    squares: f64,
    squares_of_time: f64,
    products: f64,
    /// What its sessions add to the logarithm of the determinant.
    log_sessions: f64,
}

/// A level as it is believed: where a noiseless trial would lie.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// The culprits `from + 1 ..= to` between two neighbouring measured candidates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: usize,
    pub(super) to: usize,
    /// That the culprit is in here and its step goes the wanted way.
    pub(super) probability: f64,
    /// That a step the other way is in here.
    pub(super) wrong: f64,
    pub(super) before: Level,
    pub(super) after: Level,
    /// The variance of a trial of one build if the culprit is in here.
    pub(super) noise: f64,
}

/// Where the trials stand, and what they say.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    pub(super) points: Vec<Point>,
    pub(super) gaps: Vec<Gap>,
    pub(super) no_step: f64,
    pub(super) level: Level,
    pub(super) noise: f64,
    /// The variance between builds over that of trials: its mean, so that while it is not known other candidates are worth
    /// more than the same one again.
    pub(super) ratio: f64,
    /// The same between sessions of one build.
    pub(super) session_ratio: f64,
}

impl Posterior {
    /// `None` before both ends are measured.
    pub(super) fn of(
        observations: &[Observation],
        n: usize,
        prior_up_to: &[f64],
        options: &Options,
    ) -> Option<Posterior> {
        let weighted = Weighted::new(observations, n, options, |points, trials| {
            let ratio = options.build_variance_ratio.unwrap_or(0.0);
            Model::new(points, trials, options, Belief { ratio, ..Belief::default() }).likeliest_gap(prior_up_to)
        })?;
        mixture(&weighted, prior_up_to, options)
    }

    pub(super) fn wrong_direction(&self) -> f64 {
        self.gaps.iter().map(|gap| gap.wrong).sum()
    }

    /// The probability of each culprit of a gap.
    pub(super) fn within(&self, gap: &Gap, prior_up_to: &[f64]) -> Vec<f64> {
        let mass = prior_up_to[gap.to] - prior_up_to[gap.from];
        let share = |c: usize| if mass > 0.0 { (prior_up_to[c] - prior_up_to[c - 1]) / mass } else { 0.0 };
        (gap.from + 1..=gap.to).map(|c| gap.probability * share(c)).collect()
    }

    /// The probability of each candidate.
    pub(super) fn of_candidates(&self, prior_up_to: &[f64]) -> Vec<f64> {
        let mut all = vec![0.0];
        for gap in &self.gaps {
            all.extend(self.within(gap, prior_up_to));
        }
        all
    }

    /// The step if the culprit lies within `from + 1 ..= to`, as a ratio.
    pub(super) fn step_ratio(&self, from: usize, to: usize) -> f64 {
        let inside = self.gaps.iter().filter(|gap| gap.from >= from && gap.to <= to);
        let (mut sum, mut total) = (0.0, 0.0);
        for gap in inside {
            let p = gap.probability + gap.wrong;
            sum += p * (gap.after.mean - gap.before.mean);
            total += p;
        }
        if total > 0.0 { (sum / total).exp() } else { 1.0 }
    }
}

/// Trials with less weight for outliers.
pub(super) struct Weighted {
    /// By candidate, for each of [`SESSION_RATIOS`].
    pub(super) points: [Vec<Point>; SESSION_RATIOS.len()],
    pub(super) trials: usize,
}

impl Weighted {
    /// `steps` says after which measured candidates the steps come, as far as that can be said. `None` where it says nothing,
    /// and before both ends are measured.
    pub(super) fn new<const STEPS: usize>(
        observations: &[Observation],
        n: usize,
        options: &Options,
        steps: impl Fn(&[Point], usize) -> Option<[usize; STEPS]>,
    ) -> Option<Weighted> {
        let has = |end: usize| observations.iter().any(|o| o.candidate == end);
        if !(has(0) && has(n - 1)) {
            return None;
        }
        // Means are taken from one of the values on, so that squares keep their digits.
        let origin = observations[0].log_value;
        let values: Vec<(usize, f64)> = observations.iter().map(|o| (o.candidate, o.log_value - origin)).collect();
        let sessions: Vec<usize> = observations.iter().map(|o| o.session).collect();
        let trials = values.len();
        let mut weights = vec![1.0; trials];
        if let Some(limit) = options.outlier_limit {
            for _ in 0..WEIGHT_ROUNDS {
                let points = points(&values, &sessions, &weights, 0.0);
                weights = outlier_weights(&values, &steps(&points, trials)?, limit, options);
            }
        }
        let points = SESSION_RATIOS.map(|(ratio, _)| points(&values, &sessions, &weights, ratio));
        Some(Weighted { points, trials })
    }

    /// The prior probability of each gap, if there is a step.
    pub(super) fn masses(&self, prior_up_to: &[f64]) -> Vec<f64> {
        self.points[0].windows(2).map(|pair| prior_up_to[pair[1].candidate] - prior_up_to[pair[0].candidate]).collect()
    }
}

/// What is believed of builds, sessions and drift.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Belief {
    /// Variance between builds over that of trials.
    ratio: f64,
    /// Variance of the drift over that of trials.
    pub(super) drift: f64,
    /// Which of [`SESSION_RATIOS`].
    pub(super) session: usize,
}

/// All beliefs, with their prior.
pub(super) fn beliefs(options: &Options) -> Vec<(Belief, f64)> {
    let ratios = options.build_variance_ratio.map_or(BUILD_RATIOS.to_vec(), |ratio| vec![(ratio, 1.0)]);
    let drifts = if options.may_drift { &DRIFTS[..] } else { &[(0.0, 1.0)] };
    // Where the ratio of builds is known, sessions are taken to be alike.
    let known = if options.build_variance_ratio.is_some() { 1 } else { SESSION_RATIOS.len() };
    let mut all = Vec::new();
    for (ratio, p) in ratios {
        for (drift, q) in drifts {
            for (session, (_, r)) in SESSION_RATIOS.iter().take(known).enumerate() {
                all.push((Belief { ratio, drift: *drift, session }, p * q * r));
            }
        }
    }
    all
}

/// Trials summed for each session, and these for each candidate.
fn points(values: &[(usize, f64)], sessions: &[usize], weights: &[f64], ratio: f64) -> Vec<Point> {
    let mut of_session: BTreeMap<(usize, usize), Sums> = BTreeMap::new();
    let last = (values.len() - 1).max(1) as f64;
    for (i, ((candidate, y), weight)) in values.iter().zip(weights).enumerate() {
        of_session.entry((*candidate, sessions[i])).or_default().add(*weight, *y, i as f64 / last - 0.5, [0.0; 3]);
    }
    let mut of_candidate: BTreeMap<usize, (Sums, f64)> = BTreeMap::new();
    for ((candidate, _), all) in of_session {
        let (sums, log) = of_candidate.entry(candidate).or_default();
        sums.add(1.0 / (ratio + 1.0 / all.w), all.y / all.w, all.t / all.w, all.around_means());
        *log += (1.0 + ratio * all.w).ln();
    }
    let point = |(candidate, (all, log_sessions)): (usize, (Sums, f64))| {
        let [squares, squares_of_time, products] = all.around_means();
        Point {
            candidate,
            trials: all.w,
            mean: all.y / all.w,
            time: all.t / all.w,
            squares,
            squares_of_time,
            products,
            log_sessions,
        }
    };
    of_candidate.into_iter().map(point).collect()
}

/// The posterior over gaps, summed over what is believed of builds and drift.
fn mixture(weighted: &Weighted, prior_up_to: &[f64], options: &Options) -> Option<Posterior> {
    let masses = weighted.masses(prior_up_to);
    let parts: Vec<Part<'_>> = beliefs(options)
        .into_iter()
        .map(|(belief, prior)| {
            let model = Model::new(&weighted.points[belief.session], weighted.trials, options, belief);
            let splits = model.splits();
            let log = prior.ln() + model.log_shared();
            let steps = model.step_logs(&splits, &masses);
            let no_step =
                options.no_step_prior.ln() + splits.first().map_or(f64::MIN, |s| model.log_likelihood(s, 0.0));
            Part { model, session_ratio: SESSION_RATIOS[belief.session].0, splits, log, steps, no_step }
        })
        .collect();
    let most = parts.iter().map(Part::most).fold(f64::MIN, f64::max);
    let total: f64 = parts.iter().map(|part| part.sum(most)).sum();
    if !(most.is_finite() && most > f64::MIN && total.is_finite()) {
        return None;
    }
    let steady = parts.iter().filter(|part| part.model.drift == 0.0);
    let likeliest = steady.max_by(|a, b| a.sum(most).total_cmp(&b.sum(most)))?;
    let first = likeliest.splits.first()?;
    let gap = |(at, pair): (usize, &[Point])| {
        let sum = |read: fn(&Tails) -> f64| {
            let of =
                parts.iter().flat_map(|part| part.steps[at].iter().map(move |t| (read(t) + part.log - most).exp()));
            of.sum::<f64>() / total
        };
        let (up, down) = (sum(|t| t.up), sum(|t| t.down));
        let (probability, wrong) = match options.direction {
            Direction::Any => (up + down, 0.0),
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        let (before, after, noise) = likeliest.model.levels(&likeliest.splits[at], &likeliest.steps[at]);
        Gap { from: pair[0].candidate, to: pair[1].candidate, probability, wrong, before, after, noise }
    };
    let gaps = likeliest.model.points.windows(2).enumerate().map(gap).collect();
    let no_step = parts.iter().map(|part| (part.no_step + part.log - most).exp()).sum::<f64>() / total;
    let noise = likeliest.model.rate(first, 0.0) / (likeliest.model.shape() - 1.0);
    let all = first.before + first.after;
    let mean = first.mean_before + first.after / all * first.difference;
    let level = Level { mean, variance: noise / all };
    let mean_of =
        |read: fn(&Part<'_>) -> f64| parts.iter().map(|part| read(part) * part.sum(most)).sum::<f64>() / total;
    let (ratio, session_ratio) = (mean_of(|part| part.model.ratio), mean_of(|part| part.session_ratio));
    Some(Posterior { gaps, no_step, level, noise, ratio, session_ratio, points: likeliest.model.points.to_vec() })
}

/// What one belief of builds and drift says.
struct Part<'a> {
    model: Model<'a>,
    session_ratio: f64,
    splits: Vec<Split>,
    /// Its own weight.
    log: f64,
    steps: Vec<[Tails; STEP_VARIANCES.len()]>,
    no_step: f64,
}

impl Part<'_> {
    fn most(&self) -> f64 {
        self.log + self.steps.iter().flatten().fold(self.no_step, |most, t| most.max(t.up).max(t.down))
    }

    fn sum(&self, most: f64) -> f64 {
        let weight = |log: f64| (log + self.log - most).exp();
        weight(self.no_step) + self.steps.iter().flatten().map(|t| weight(t.up) + weight(t.down)).sum::<f64>()
    }
}

/// Sums on both sides of a gap.
#[derive(Debug, Clone, Copy)]
struct Split {
    before: f64,
    after: f64,
    mean_before: f64,
    /// Of the two means, with the drift taken off.
    difference: f64,
    /// Variance of the difference, in σ².
    variance: f64,
    /// Sum of squares around the two means.
    squares: f64,
}

/// Logarithms of the weights of steps up and down.
#[derive(Debug, Clone, Copy)]
struct Tails {
    up: f64,
    down: f64,
}

/// Sums over the weights of points: of one, values, times, their squares and products.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) w: f64,
    pub(super) y: f64,
    pub(super) t: f64,
    yy: f64,
    tt: f64,
    ty: f64,
}

impl Sums {
    /// Adds a mean of values at a mean time, with the squares of values and of times, and their products, around both.
    fn add(&mut self, w: f64, mean: f64, time: f64, around: [f64; 3]) {
        self.w += w;
        self.y += w * mean;
        self.t += w * time;
        self.yy += w * mean * mean + around[0];
        self.tt += w * time * time + around[1];
        self.ty += w * time * mean + around[2];
    }

    pub(super) fn around_means(&self) -> [f64; 3] {
        let (mean, time) = (self.y / self.w, self.t / self.w);
        [(self.yy - self.y * mean).max(0.0), (self.tt - self.t * time).max(0.0), self.ty - self.t * mean]
    }
}

pub(super) struct Model<'a> {
    points: &'a [Point],
    trials: usize,
    options: &'a Options,
    /// Variance between builds over that of trials.
    ratio: f64,
    /// Variance of the drift over that of trials.
    drift: f64,
}

impl<'a> Model<'a> {
    pub(super) fn new(points: &'a [Point], trials: usize, options: &'a Options, belief: Belief) -> Self {
        Model { points, trials, options, ratio: belief.ratio, drift: belief.drift }
    }

    fn weight(&self, point: &Point) -> f64 {
        1.0 / (self.ratio + 1.0 / point.trials)
    }

    pub(super) fn add(&self, sums: &mut Sums, p: &Point) {
        sums.add(self.weight(p), p.mean, p.time, [p.squares, p.squares_of_time, p.products]);
    }

    pub(super) fn sums(&self) -> Sums {
        let mut all = Sums::default();
        self.points.iter().for_each(|p| self.add(&mut all, p));
        all
    }

    /// The factor of the likelihood that all hypotheses share, as a logarithm.
    pub(super) fn log_shared(&self) -> f64 {
        let all = self.sums();
        let [_, squares_of_time, _] = all.around_means();
        let of_builds: f64 = self.points.iter().map(|p| (1.0 + self.ratio * p.trials).ln() + p.log_sessions).sum();
        -0.5 * (of_builds + all.w.ln() + (1.0 + self.drift * squares_of_time).ln())
    }

    pub(super) fn shape(&self) -> f64 {
        SHAPE + (self.trials - 1) as f64 / 2.0
    }

    pub(super) fn prior_rate(&self) -> f64 {
        SHAPE * self.options.expected_cv.powi(2)
    }

    /// Rate of σ² after the data.
    fn rate(&self, split: &Split, k: f64) -> f64 {
        self.prior_rate() + (split.squares + split.difference.powi(2) / (split.variance + k)) / 2.0
    }

    fn log_likelihood(&self, split: &Split, k: f64) -> f64 {
        let v = split.variance;
        0.5 * (v / (v + k)).ln() - self.shape() * self.rate(split, k).ln()
    }

    /// One split for each gap.
    fn splits(&self) -> Vec<Split> {
        let all = self.sums();
        let (mean, time) = (all.y / all.w, all.t / all.w);
        // Around the means, so that what the line takes off is taken off the step too.
        let [yy, tt, ty] = all.around_means();
        let ridge = if self.drift > 0.0 { 1.0 / (tt + 1.0 / self.drift) } else { 0.0 };
        let mut so_far = Sums::default();
        let mut splits = Vec::with_capacity(self.points.len() - 1);
        for p in &self.points[..self.points.len() - 1] {
            self.add(&mut so_far, p);
            let (before, after) = (so_far.w, all.w - so_far.w);
            let step_y = (all.y - so_far.y) - after * mean;
            let step_t = (all.t - so_far.t) - after * time;
            let step_step = before * after / all.w - step_t * step_t * ridge;
            let product = step_y - step_t * ty * ridge;
            splits.push(Split {
                before,
                after,
                mean_before: so_far.y / before,
                difference: product / step_step,
                variance: 1.0 / step_step,
                squares: (yy - ty * ty * ridge - product * product / step_step).max(0.0),
            });
        }
        splits
    }

    /// The measured candidate after which the step most likely comes; the smallest step plays no part.
    fn likeliest_gap(&self, prior_up_to: &[f64]) -> Option<[usize; 1]> {
        let mut best: Option<(f64, usize)> = None;
        for (split, pair) in self.splits().iter().zip(self.points.windows(2)) {
            let mass = prior_up_to[pair[1].candidate] - prior_up_to[pair[0].candidate];
            let score = mass.ln() + self.log_likelihood(split, STEP_VARIANCES[2].0);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, pair[0].candidate));
            }
        }
        best.map(|(_, candidate)| [candidate])
    }

    /// The shares of a step δ ~ t that lie above and below zero, beyond the smallest step.
    fn tails(&self, mean: f64, scale: f64, shape: f64) -> (f64, f64) {
        let least = self.options.min_step.ln_1p();
        let beyond = |mean: f64| below((mean - least) / scale, 2.0 * shape);
        (beyond(mean), beyond(-mean))
    }

    /// Logarithms of the weights of steps up and steps down, for each gap and each variance of the step.
    fn step_logs(&self, splits: &[Split], masses: &[f64]) -> Vec<[Tails; STEP_VARIANCES.len()]> {
        let share_up = match self.options.direction {
            Direction::Any => 0.5,
            Direction::Up => 1.0 - WRONG_SHARE,
            Direction::Down => WRONG_SHARE,
        };
        let prior_tail = STEP_VARIANCES.map(|(k, _)| self.tails(0.0, (k * self.prior_rate() / SHAPE).sqrt(), SHAPE).0);
        let base = |split: &Split, mass: f64| {
            STEP_VARIANCES.map(|(k, share)| {
                ((1.0 - self.options.no_step_prior) * share * mass).ln() + self.log_likelihood(split, k)
            })
        };
        let bases: Vec<_> = splits.iter().zip(masses).map(|(split, mass)| base(split, *mass)).collect();
        let most = bases.iter().flatten().copied().fold(f64::MIN, f64::max);
        let tails = |split: &Split, base: f64, i: usize| {
            // Their weight is nothing beside the largest; the distribution function is what takes the time here.
            if base.is_nan() || base < most - 35.0 {
                return Tails { up: f64::MIN, down: f64::MIN };
            }
            let (k, v) = (STEP_VARIANCES[i].0, split.variance);
            let scale = (self.rate(split, k) / self.shape() * v * k / (v + k)).sqrt();
            let (up, down) = self.tails(split.difference * k / (v + k), scale, self.shape());
            let log = |share: f64, tail: f64| finite_or_never(base + (share * tail / prior_tail[i]).ln());
            Tails { up: log(share_up, up), down: log(1.0 - share_up, down) }
        };
        let of_gap =
            |(split, base): (&Split, &[f64; STEP_VARIANCES.len()])| std::array::from_fn(|i| tails(split, base[i], i));
        splits.iter().zip(&bases).map(of_gap).collect()
    }

    /// The levels before and after, and the noise, if the culprit is in this gap: means over the
    /// variances and the directions of the step.
    fn levels(&self, split: &Split, logs: &[Tails]) -> (Level, Level, f64) {
        let most = logs.iter().fold(f64::MIN, |m, t| m.max(t.up).max(t.down));
        let least = self.options.min_step.ln_1p();
        let (all, v) = (split.before + split.after, split.variance);
        let (mut total, mut noise) = (0.0, 0.0);
        let mut sums = [(0.0, 0.0, 0.0); 2];
        for ((k, _), tails) in STEP_VARIANCES.into_iter().zip(logs) {
            let sigma2 = self.rate(split, k) / (self.shape() - 1.0);
            let step = split.difference * k / (v + k);
            let spread = (sigma2 * v * k / (v + k)).sqrt();
            let (up, up_variance) = beyond(step, spread, least);
            let (down, down_variance) = beyond(-step, spread, least);
            for (log, step, variance) in [(tails.up, up, up_variance), (tails.down, -down, down_variance)] {
                let p = (log - most).exp();
                // The mean of μ given δ is the weighted mean of all trials with δ taken off the later ones.
                let before = split.mean_before + split.after / all * (split.difference - step);
                let sides = [(before, split.after / all), (before + step, split.before / all)];
                for (sum, (mean, share)) in sums.iter_mut().zip(sides) {
                    let variance = sigma2 / all + share * share * variance;
                    *sum = (sum.0 + p * mean, sum.1 + p * mean * mean, sum.2 + p * variance);
                }
                noise += p * sigma2;
                total += p;
            }
        }
        let level = |(m, mm, var): (f64, f64, f64)| {
            let mean = m / total;
            Level { mean, variance: var / total + (mm / total - mean * mean).max(0.0) }
        };
        let [before, after] = sums.map(level);
        (before, after, noise / total)
    }
}

/// Degrees of freedom from which on the normal distribution is near enough to Student's t.
const NEARLY_NORMAL: f64 = 40.0;

/// The share of Student's t that lies below `x`. With many degrees of freedom by the normal distribution (Abramowitz and
/// Stegun, 26.7.8): a search asks for it thousands of times in each step.
fn below(x: f64, df: f64) -> f64 {
    if df < NEARLY_NORMAL {
        return students_t::below(x, df).unwrap_or(0.0);
    }
    let z = x * (1.0 - 0.25 / df) / (1.0 + x * x / (2.0 * df)).sqrt();
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// Mean and variance of a normal distribution cut off below `least`.
fn beyond(mean: f64, spread: f64, least: f64) -> (f64, f64) {
    let a = (least - mean) / spread;
    if a > 8.0 {
        return (least + spread / a, (spread / a).powi(2));
    }
    let tail = 0.5 * erfc(a / std::f64::consts::SQRT_2);
    let hazard = (-0.5 * a * a).exp() / (std::f64::consts::TAU.sqrt() * tail);
    (mean + spread * hazard, spread * spread * (1.0 + a * hazard - hazard * hazard).max(1e-3))
}

/// A weight that cannot be computed counts as none, so that it cannot spoil the others.
fn finite_or_never(log: f64) -> f64 {
    if log.is_finite() { log } else { f64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_many_degrees_of_freedom_the_normal_distribution_stands_for_t() {
        for df in [NEARLY_NORMAL, 60.0, 400.0] {
            for x in [-6.0, -4.0, -3.0, -2.0, -0.5, 0.0, 0.3, 1.7, 3.0, 5.0] {
                let (exact, near) = (students_t::below(x, df).unwrap(), below(x, df));
                // Far out it is the difference that is small, and not the ratio; such a tail decides nothing.
                let is_near = (near - exact).abs() < 1e-4 && (x < -3.0 || (near / exact - 1.0).abs() < 0.03);
                assert!(is_near, "{x}, {df}: {near}, {exact}");
            }
        }
    }
}
