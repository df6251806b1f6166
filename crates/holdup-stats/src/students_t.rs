//! Student's t distribution: the functions that everything else needs.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

/// Degrees of freedom that are answered for. Data give at least 1 (two pieces).
const DF: std::ops::RangeInclusive<f64> = 1.0..=1e9;

/// The smallest tail that is answered for; no interval needs a smaller one.
const SMALLEST_TAIL: f64 = 1e-12;

fn standard(df: f64) -> Option<StudentsT> {
    DF.contains(&df).then(|| StudentsT::new(0.0, 1.0, df).ok()).flatten()
}

/// The value below which a share `p` of the distribution lies.
///
/// `None` when `df` is not between 1 and 10^9, or `p` is closer to 0 or 1 than 10^-12.
pub fn quantile(p: f64, df: f64) -> Option<f64> {
    let t = standard(df)?;
    let tail = p.min(1.0 - p);
    if !(SMALLEST_TAIL..=0.5).contains(&tail) {
        return None;
    }
    // The library's own inverse does not come back for some arguments (its inverse of the
    // incomplete beta function has no bound on its steps), so the root is found here: a bracket
    // first, then Newton's steps, halving the bracket wherever a step would leave it.
    let (mut low, mut high) = (0.0, 1.0);
    while t.sf(high) > tail {
        low = high;
        high *= 2.0;
        if high > 1e15 {
            return None;
        }
    }
    let mut x = (low + high) / 2.0;
    for _ in 0..200 {
        let excess = t.sf(x) - tail;
        if excess > 0.0 {
            low = x;
        } else {
            high = x;
        }
        let step = x + excess / t.pdf(x);
        let next = if step > low && step < high { step } else { (low + high) / 2.0 };
        let moved = (next - x).abs();
        x = next;
        if moved <= 1e-14 * x {
            break;
        }
    }
    Some(if p < 0.5 { -x } else { x })
}

/// The share of the distribution that lies below `x`; `None` when `df` is not between 1 and 10^9 or `x` is NaN.
pub fn below(x: f64, df: f64) -> Option<f64> {
    let t = standard(df)?;
    if x.is_nan() {
        return None;
    }
    // Farther out than this everything is tail, and squares would overflow.
    if x.abs() > 1e100 {
        return Some(if x > 0.0 { 1.0 } else { 0.0 });
    }
    Some(t.cdf(x).clamp(0.0, 1.0))
}

/// The share that lies farther from zero than `x`, on both sides: the p value of a t test.
pub fn two_sided_p(x: f64, df: f64) -> Option<f64> {
    // The lower tail is computed directly, so that small p values keep their digits.
    Some((2.0 * below(-x.abs(), df)?).min(1.0))
}
