//! Rates of events whose work comes in clusters, of two sides that nothing pairs: retransmissions per segment over the
//! connections of two captures.
//!
//! A side's rate is the sum of the events by the sum of the work, so that a large cluster counts as much as it is large.
//! Its error on the log scale comes from how each cluster pulls at it: with `x` a cluster's share of the events and `p` its
//! share of the work, the pull is `x - p` (the linearised ratio estimator; Cochran, Sampling Techniques, 3rd edition, 6.4).
//! Clusters differ in size by orders of magnitude, and a large one pulls the rate towards itself, so that its pull looks
//! smaller than it is. Squares are therefore divided by `1 - p` and summed, which is free of bias where the variance of a
//! cluster's events grows with its work (CR2; R. M. Bell and D. F. McCaffrey, Survey Methodology 28, 2002), and what is
//! left of the bias and the degrees of freedom (Satterthwaite) are computed for the fitted model
//! `variance of x = f p + t p²`: `f` is how far events come in bunches, `t` how far the rates of clusters differ.

use crate::effect::Effect;
use crate::pieces::count;
use crate::{ALPHA, NoEstimate};
use holdup_model::Estimate;

/// Events and work of one cluster: a connection, a span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// How many events; zero is a count.
    pub events: f64,
    /// Over how much work: segments, bytes. Zero where events are counted by what this cluster did not do.
    pub work: f64,
}

/// One side's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Side {
    /// Logarithm of the events per work.
    log_rate: f64,
    /// Its variance and degrees of freedom.
    variance: f64,
    df: f64,
    /// Clusters that have work or events.
    clusters: usize,
    events: f64,
}

/// The ratio of B's rate to A's, and what each side's clusters say of its error; see the top of this file. The degrees of
/// freedom of the two sides go together as Welch's do.
///
/// # Errors
/// With fewer than two clusters on a side, a count or work below zero or not finite, a side without work, one that has no
/// event at all ([`rate_bound`] is for those), or one cluster that did all of the work.
pub fn rate_unpaired(a: &[Cluster], b: &[Cluster]) -> Result<Effect, NoEstimate> {
    let (a, b) = (Side::of(a).map_err(|e| e.of("A"))?, Side::of(b).map_err(|e| e.of("B"))?);
    let variance = a.variance + b.variance;
    let df = variance.powi(2) / (a.variance.powi(2) / a.df + b.variance.powi(2) / b.df);
    let method = format!("ratio of sums, t on what each of {} and {} clusters pulls", a.clusters, b.clusters);
    Effect::from_error(b.log_rate - a.log_rate, variance.sqrt(), df, count(a.clusters.min(b.clusters)), method)
}

/// Events per work of one side, with its interval.
pub fn cluster_rate(clusters: &[Cluster], confidence: f64) -> Result<Estimate, NoEstimate> {
    let side = Side::of(clusters).map_err(|e| e.0)?;
    let method = format!("ratio of sums, t on what each of {} clusters pulls", side.clusters);
    Effect::from_error(side.log_rate, side.variance.sqrt(), side.df, count(side.clusters), method)?.estimate(confidence)
}

/// How much wider the error of a rate is than that of events that come one by one: the variance by that of a Poisson count.
/// It is the number of events that come together, as far as the rate's error is concerned; at least 1, and 1 where clusters
/// do not show it.
pub fn bunching(clusters: &[Cluster]) -> f64 {
    Side::of(clusters).map_or(1.0, |side| (side.variance * side.events).max(1.0))
}

/// What one side without any event says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateBound {
    /// The ratio of the rate of the side that has events to that of the side without is at least this, at 95 %.
    pub at_least: f64,
    /// p of "the two rates are the same", two-sided.
    pub p_difference: f64,
    /// With 95 %, the side without events has at most this number of them for each unit of work: the rule of three, widened by
    /// the other side's [`bunching`].
    pub rate_at_most: f64,
}

/// Bounds where one side has no event: `with` are the clusters of the side that has some, `work` is the other side's.
///
/// Given how many bunches of events there are on both sides together, that all of them fall on one side has a probability
/// that depends on the ratio of the rates alone (the conditional test of two Poisson rates; J. Przyborowski and H. Wilenski,
/// Biometrika 31, 1940). How many events make a bunch is taken from the side that has some.
///
/// # Errors
/// When that side has no event either, or one of the two no work.
pub fn rate_bound(with: &[Cluster], work: f64) -> Result<RateBound, NoEstimate> {
    let (events, own) = sums(with).map_err(|e| e.0)?;
    if events <= 0.0 {
        return Err(NoEstimate::new("neither side has an event"));
    }
    if !(work > 0.0 && work.is_finite()) {
        return Err(NoEstimate::new("there is no work to count by"));
    }
    let bunch = match Side::of(with) {
        Ok(side) => (side.variance * side.events).max(1.0),
        // A single cluster: all of its events may be one bunch.
        Err(_) => events,
    };
    let bunches = events / bunch;
    let all_here = ALPHA.powf(1.0 / bunches);
    Ok(RateBound {
        at_least: work / own * all_here / (1.0 - all_here),
        p_difference: (2.0 * (own / (own + work)).powf(bunches)).min(1.0),
        rate_at_most: -ALPHA.ln() * bunch / work,
    })
}

/// Why a side has no error; a separate type, so that the side can be named.
struct NoSide(NoEstimate);

impl NoSide {
    fn new(reason: &str) -> Self {
        NoSide(NoEstimate::new(reason))
    }

    fn of(self, side: &str) -> NoEstimate {
        NoEstimate::new(format!("{side} has {}", self.0.reason))
    }
}

/// All events and all work.
fn sums(clusters: &[Cluster]) -> Result<(f64, f64), NoSide> {
    let is_sound = |x: f64| x.is_finite() && x >= 0.0;
    if clusters.iter().any(|c| !(is_sound(c.events) && is_sound(c.work))) {
        return Err(NoSide::new("a count that is below zero or not a number"));
    }
    let (events, work) = clusters.iter().fold((0.0, 0.0), |(e, w), c| (e + c.events, w + c.work));
    if !(work > 0.0 && work.is_finite() && events.is_finite()) {
        return Err(NoSide::new("no work to count by"));
    }
    Ok((events, work))
}

/// A cluster as shares: of the events, and of the work.
#[derive(Clone, Copy)]
struct Shares {
    x: f64,
    p: f64,
}

impl Side {
    fn of(clusters: &[Cluster]) -> Result<Side, NoSide> {
        let (events, work) = sums(clusters)?;
        if events <= 0.0 {
            return Err(NoSide::new("no event at all, and a rate of zero has no ratio"));
        }
        let shares: Vec<Shares> = clusters
            .iter()
            .filter(|c| c.work > 0.0 || c.events > 0.0)
            .map(|c| Shares { x: c.events / events, p: c.work / work })
            .collect();
        if shares.len() < 2 {
            return Err(NoSide::new("one cluster only, and an interval needs at least two"));
        }
        if shares.iter().any(|s| s.p > 1.0 - 1e-9) {
            return Err(NoSide::new("one cluster that did all of the work"));
        }
        let (variance, df) = error(&shares);
        Ok(Side { log_rate: (events / work).ln(), variance, df, clusters: shares.len(), events })
    }
}

/// Variance of the log rate and its degrees of freedom. The sums are taken in as few passes as can be: a capture has a hundred
/// thousand clusters, and dozens of rates.
fn error(shares: &[Shares]) -> (f64, f64) {
    let p2: f64 = shares.iter().map(|s| s.p * s.p).sum();
    let even = 1.0 / shares.len() as f64;
    // `seen_of_t` is what the sum of squares, `adjusted`, is on average where rates differ between clusters: less than the
    // variance, which is p2. In a second sum, `small`, small clusters weigh more: it separates the two parts of the model.
    let (mut adjusted, mut seen_of_t) = (0.0, 0.0);
    let (mut small, mut small_of_f, mut small_of_t) = (0.0, 0.0, 0.0);
    for Shares { x, p } in shares.iter().copied() {
        let pull = (x - p).powi(2);
        let differing = p * p * (1.0 - 2.0 * p + p2);
        let (large_weight, small_weight) = (1.0 / (1.0 - p), 1.0 / (p + even));
        adjusted += large_weight * pull;
        seen_of_t += differing * large_weight;
        small += small_weight * pull;
        small_of_f += p * (1.0 - p) * small_weight;
        small_of_t += differing * small_weight;
    }
    let determinant = small_of_t - seen_of_t * small_of_f;
    let (f, t) = match determinant.abs() > 1e-12 {
        true => {
            let t = ((small - adjusted * small_of_f) / determinant).clamp(0.0, adjusted / seen_of_t);
            ((adjusted - t * seen_of_t).max(0.0), t)
        }
        // Clusters of one size: the two parts cannot be separated, and need not be.
        false => (0.0, adjusted / seen_of_t),
    };
    let variance = f + t * p2;
    let gaussian = satterthwaite(shares, |p| f * p + t * p * p);
    // The number of bunches is itself a count: its relative variance is `f`, for which `2 / f` degrees of freedom stand.
    (variance, 1.0 / (1.0 / gaussian + f / 2.0))
}

/// Degrees of freedom of the adjusted sum of squares, for a variance of each cluster's share of the events:
/// 2 mean² / variance of the quadratic form that it is, with all products of two clusters, in one pass.
fn satterthwaite(shares: &[Shares], variance: impl Fn(f64) -> f64) -> f64 {
    let weight = |p: f64| 1.0 / (1.0 - p);
    let s: f64 = shares.iter().map(|c| c.p * c.p * weight(c.p)).sum();
    let (mut trace, mut own, mut minus) = (0.0, 0.0, 0.0);
    let mut moments = [0.0_f64; 3];
    for p in shares.iter().map(|c| c.p) {
        let (v, d) = (variance(p), p * weight(p));
        let diagonal = weight(p) - 2.0 * d + s;
        trace += diagonal * v;
        own += (diagonal * v).powi(2);
        minus += ((s - 2.0 * d) * v).powi(2);
        moments = [moments[0] + v, moments[1] + d * v, moments[2] + d * d * v];
    }
    let [v0, v1, v2] = moments;
    let pairs = s * s * v0 * v0 + 2.0 * v2 * v0 + 2.0 * v1 * v1 - 4.0 * s * v1 * v0;
    let squares = own + pairs - minus;
    (trace * trace / squares).clamp(1.0, (shares.len() - 1) as f64)
}
