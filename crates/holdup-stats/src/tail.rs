//! What lies beyond the percentiles: a generalised Pareto distribution for the largest values.
//!
//! The values beyond a threshold `u` minus `u` follow, for high enough thresholds and almost any distribution, a
//! generalised Pareto distribution with scale `s` and shape `x` (Pickands 1975). It is fitted by probability-weighted
//! moments (J. R. M. Hosking and J. R. Wallis, Technometrics 29, 1987, section 3.2): with the excesses ascending,
//! `a0` their mean and `a1` the mean of each times the share of those at or above it,
//!
//! `x = 2 - a0 / (a0 - 2 a1)` and `s = 2 a0 a1 / (a0 - 2 a1)`.
//!
//! The level that a share `p` of all values exceeds is then `u + s / x * ((beyond / p)^x - 1)`, with `beyond` the share
//! of the values above `u`. The moments exist for `x < 1` and are of use for `x < 0.5`.

use std::fmt;

/// The share of the values that the tail is made of, where that is enough of them.
const SHARE: f64 = 0.01;
/// The fewest values of a tail.
const FEWEST: u64 = 100;
/// Tails with a heavier shape have no variance: a few values decide everything.
const HEAVIEST: f64 = 0.5;

/// A fitted tail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// The threshold, in the unit of the values.
    pub threshold: f64,
    /// The share of the values beyond the threshold.
    pub beyond: f64,
    /// Scale, in the unit of the values.
    pub scale: f64,
    /// Shape: 0 for an exponential tail, less for one with an end, more for a heavy one.
    pub shape: f64,
}

/// Why there is no tail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoTail {
    /// There are too few values.
    TooFew {
        /// How many there are.
        values: u64,
    },
    /// All values of the tail are the same, or not finite.
    Degenerate,
    /// The shape is above one half.
    TooHeavy {
        /// The shape.
        shape: f64,
    },
}

impl fmt::Display for NoTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTail::TooFew { values } => {
                write!(f, "{values} values, {} are needed to fit a tail", FEWEST * 10)
            }
            NoTail::Degenerate => write!(f, "the values of the tail do not differ"),
            NoTail::TooHeavy { shape } => write!(
                f,
                "the tail is too heavy to say what lies beyond it (shape {shape:.2}): a few wake-ups decide; take a longer duration"
            ),
        }
    }
}

impl Tail {
    /// Fits the largest hundredth, or the largest hundred where that is more, of values given as (value, how often),
    /// ascending.
    ///
    /// # Errors
    /// With fewer than 1000 values, when those of the tail do not differ, or when it is too heavy.
    pub fn fit(values: &[(f64, u64)]) -> Result<Tail, NoTail> {
        let all: u64 = values.iter().map(|(_, n)| n).sum();
        if all < FEWEST * 10 {
            return Err(NoTail::TooFew { values: all });
        }
        let wanted = ((all as f64 * SHARE) as u64).max(FEWEST);
        let mut beyond = 0;
        let mut first = values.len();
        while first > 0 && beyond < wanted {
            first -= 1;
            beyond += values[first].1;
        }
        let (tail, below) = (&values[first..], &values[..first]);
        // Where all values are in the tail the threshold lies at its least.
        let threshold = below.last().or(tail.first()).map_or(0.0, |v| v.0);
        let (mut a0, mut a1, mut left) = (0.0, 0.0, beyond as f64);
        for (value, n) in tail {
            let (excess, n) = (value - threshold, *n as f64);
            // Plotting positions (j - 0.35) / n; equal values share the middle one of theirs.
            let at_or_above = (left - n / 2.0 + 0.35 - 0.5) / beyond as f64;
            a0 += excess * n;
            a1 += excess * n * at_or_above;
            left -= n;
        }
        let (a0, a1) = (a0 / beyond as f64, a1 / beyond as f64);
        let below_zero = a0 - 2.0 * a1;
        if !(below_zero.is_finite() && below_zero > 0.0 && a0 > 0.0) {
            return Err(NoTail::Degenerate);
        }
        let shape = 2.0 - a0 / below_zero;
        let scale = 2.0 * a0 * a1 / below_zero;
        if shape > HEAVIEST {
            return Err(NoTail::TooHeavy { shape });
        }
        Ok(Tail { threshold, beyond: beyond as f64 / all as f64, scale, shape })
    }

    /// The level that a share of all values exceeds; for shares up to `beyond`.
    pub fn level(&self, share: f64) -> f64 {
        let times = self.beyond / share;
        let growth = if self.shape.abs() < 1e-9 { times.ln() } else { (times.powf(self.shape) - 1.0) / self.shape };
        self.threshold + self.scale * growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Noise as Random;

    /// Values of a distribution with this inverse of its survival function, ascending.
    fn sample(n: usize, seed: u64, inverse: impl Fn(f64) -> f64) -> Vec<(f64, u64)> {
        let mut random = Random::new(seed);
        let mut values: Vec<f64> = (0..n).map(|_| inverse(1.0 - random.uniform())).collect();
        values.sort_by(f64::total_cmp);
        values.into_iter().map(|v| (v, 1)).collect()
    }

    /// The middle of what 40 samples of 20,000 values give for the level that 1e-5 exceed, over the true one.
    fn found(inverse: impl Fn(f64) -> f64) -> f64 {
        let truth = inverse(1e-5);
        let level = |seed| Tail::fit(&sample(20_000, seed, &inverse)).map(|tail| tail.level(1e-5) / truth);
        let mut ratios: Vec<f64> = (0..40).filter_map(|seed| level(seed).ok()).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }

    #[test]
    fn levels_beyond_the_sample_are_found_for_known_distributions() {
        let check = |name: &str, ratio: f64| assert!((0.85..1.15).contains(&ratio), "{name}: {ratio}");
        check("exponential", found(|p: f64| -p.ln()));
        check("uniform", found(|p: f64| 100.0 - p));
        check("Pareto with shape 0.2", found(|p: f64| p.powf(-0.2)));
    }

    #[test]
    fn what_cannot_be_fitted_is_said() {
        let constant = Tail::fit(&[(5.0, 10_000)]);
        assert_eq!(constant, Err(NoTail::Degenerate));
        assert_eq!(Tail::fit(&[(1.0, 400), (2.0, 599)]), Err(NoTail::TooFew { values: 999 }));
        assert_eq!(Tail::fit(&[]), Err(NoTail::TooFew { values: 0 }));
        let heavy = Tail::fit(&sample(5_000, 1, |p: f64| p.powf(-1.5)));
        assert!(matches!(heavy, Err(NoTail::TooHeavy { .. })), "{heavy:?}");
        assert_eq!(Tail::fit(&[(1.0, 1_000), (f64::NAN, 200)]), Err(NoTail::Degenerate));
    }

    #[test]
    fn equal_values_are_as_good_as_their_count_says() {
        let one_by_one: Vec<(f64, u64)> = (0..2_000u32).map(|i| (f64::from(i / 4), 1)).collect();
        let together: Vec<(f64, u64)> = (0..500u32).map(|i| (f64::from(i), 4)).collect();
        let (a, b) = (Tail::fit(&one_by_one).expect("fits"), Tail::fit(&together).expect("fits"));
        let (a, b) = (a.level(1e-5), b.level(1e-5));
        assert!((a / b - 1.0).abs() < 0.02, "{a} and {b}");
    }
}
