//! Whether something moved while the run went on.

use crate::pieces::{log, mean};
use crate::{NoEstimate, students_t};
use std::collections::BTreeMap;

/// Fewer values than this say nothing about drift.
const MIN_POINTS: usize = 8;

/// One value of a run; the slice that holds them is in the order run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftPoint {
    /// The arm, whose mean is taken out.
    pub arm: u32,
    /// The value.
    pub value: f64,
}

/// What moved over the order of a run, arms taken out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Values that it rests on.
    pub n: u32,
    /// Rank correlation (Spearman) of the residual with the place in the order, −1 to 1.
    pub rank_correlation: f64,
    /// p of that correlation (t approximation).
    pub p: f64,
    /// Change from the first to the last trial by the least-squares line, as a share:
    /// −0.08 means that values fell by 8 %.
    pub change: f64,
    /// Correlation of each residual with the one before, −1 to 1.
    pub autocorrelation: f64,
    /// p of that correlation against independent noise, two-sided (normal approximation).
    pub autocorrelation_p: f64,
}

/// Looks for drift in values in the order run.
///
/// # Errors
/// With fewer than 8 values beyond one for each arm, values without logarithm, or no spread at all.
pub fn drift(points: &[DriftPoint]) -> Result<Drift, NoEstimate> {
    let mut arms: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut logs = Vec::with_capacity(points.len());
    for point in points {
        let value = log(point.value)?;
        arms.entry(point.arm).or_default().push(value);
        logs.push(value);
    }
    let n = points.len();
    if n < MIN_POINTS + arms.len() {
        return Err(NoEstimate::new(format!("{n} trials of {} arms are too few to see drift", arms.len())));
    }
    let means: BTreeMap<u32, f64> = arms.iter().map(|(arm, values)| (*arm, mean(values))).collect();
    let residuals: Vec<f64> = points.iter().zip(&logs).map(|(p, l)| l - means[&p.arm]).collect();
    let places: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let scale = residuals.iter().fold(0.0_f64, |m, r| m.max(r.abs()));
    if !(scale.is_finite() && scale > 1e-12) {
        return Err(NoEstimate::new("the values of each arm are all the same"));
    }
    let rho = correlation(&ranks(&residuals), &places);
    // Taking the arms' means out costs one degree of freedom for each of them.
    let df = (n - arms.len() - 1) as f64;
    let t = rho * (df / (1.0 - rho * rho).max(f64::EPSILON)).sqrt();
    let slope = slope(&places, &residuals);
    let (autocorrelation, autocorrelation_p) = lag_one(&residuals);
    let change = (slope * (n - 1) as f64).exp_m1();
    if !change.is_finite() {
        return Err(NoEstimate::new("the values are too far apart for arithmetic"));
    }
    Ok(Drift {
        n: crate::pieces::count(n),
        rank_correlation: rho,
        p: students_t::two_sided_p(t, df).unwrap_or(1.0),
        change,
        autocorrelation,
        autocorrelation_p,
    })
}

/// Ranks from 1, ties sharing their mean rank.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let same = order[start..].iter().take_while(|&&i| values[i] == values[order[start]]).count();
        let shared = start as f64 + (same as f64 + 1.0) / 2.0;
        for &i in &order[start..start + same] {
            ranks[i] = shared;
        }
        start += same;
    }
    ranks
}

/// Pearson's correlation; zero when one side has no spread.
pub(crate) fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (mean(x), mean(y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(y) {
        xx += (a - mx) * (a - mx);
        yy += (b - my) * (b - my);
        xy += (a - mx) * (b - my);
    }
    let scale = (xx * yy).sqrt();
    if scale > 0.0 { (xy / scale).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Slope of the least-squares line through the points (x, y); 0 where all x are the same.
pub fn slope(x: &[f64], y: &[f64]) -> f64 {
    let (mx, my) = (mean(x), mean(y));
    let xx: f64 = x.iter().map(|a| (a - mx) * (a - mx)).sum();
    let xy: f64 = x.iter().zip(y).map(|(a, b)| (a - mx) * (b - my)).sum();
    if xx > 0.0 { xy / xx } else { 0.0 }
}

/// Lag-1 autocorrelation with its p: independent noise gives about N(−1/n, 1/n).
pub(crate) fn lag_one(residuals: &[f64]) -> (f64, f64) {
    let n = residuals.len() as f64;
    let centre = mean(residuals);
    let total: f64 = residuals.iter().map(|r| (r - centre).powi(2)).sum();
    let lagged: f64 = residuals.windows(2).map(|w| (w[0] - centre) * (w[1] - centre)).sum();
    let r = if total > 0.0 { (lagged / total).clamp(-1.0, 1.0) } else { 0.0 };
    let z = (r + 1.0 / n) * n.sqrt();
    (r, statrs::function::erf::erfc(z.abs() / std::f64::consts::SQRT_2))
}
