//! The error of an effect: how far an estimate on the log scale may lie from the truth.

use crate::students_t;

/// How the error of an effect is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Error {
    /// A t distribution.
    T(T),
    /// Two t distributions, weighted by how well the blocks bear out that pairing them helps.
    Blend(Blend),
    /// All pieces are the same: only a sign (paired) or a permutation (unpaired) test remains.
    /// Its smallest one-sided p value.
    Constant { one_sided_p: f64 },
}

/// Standard error and degrees of freedom on the log scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct T {
    pub(crate) se: f64,
    pub(crate) df: f64,
}

/// Pairs of pieces, seen as pairs and seen as two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Blend {
    /// From the differences within pairs.
    pub(crate) paired: T,
    /// Welch's, from the two sides.
    pub(crate) apart: T,
    /// Posterior probability that what the two of a pair share is nothing.
    pub(crate) apart_weight: f64,
    /// What p values are multiplied by, so that choosing between two errors by the data costs
    /// no false alarms; found by calibration.
    pub(crate) price: f64,
}

/// With fewer pieces than this a blend is paid for by the width of its own tails.
const PRICED_FROM: usize = 7;

/// See [`Blend::price`]: without it 5.3 % of A/A comparisons of 10 to 20 blocks are called
/// different, with it 5.0 %.
const PRICE: f64 = 1.06;

/// Steps of the integral over the correlation within pairs.
const STEPS: u32 = 64;

impl T {
    fn beyond(self, distance: f64) -> f64 {
        students_t::below(-distance / self.se, self.df).unwrap_or(1.0)
    }

    fn is_sound(self) -> bool {
        self.se.is_finite() && self.se > 0.0 && self.df.is_finite() && self.df > 0.0
    }
}

impl Blend {
    /// From the variances of the two sides and of the differences of `n` pairs, each of a single piece.
    pub(crate) fn of(n: usize, a: f64, b: f64, difference: f64) -> Self {
        let (count, df) = (n as f64, (n - 1) as f64);
        // Welch–Satterthwaite with sides of one size.
        let apart_df = df * (a + b).powi(2) / (a * a + b * b);
        Blend {
            paired: T { se: (difference / count).sqrt(), df },
            apart: T { se: ((a + b) / count).sqrt(), df: apart_df },
            apart_weight: weight_of_nothing_shared((2.0 * (a + b) - difference) / difference, df),
            price: if n >= PRICED_FROM { PRICE } else { 1.0 },
        }
    }
}

/// The probability, before the data speak, that the two of a pair share nothing. With 40 % the power stays within
/// 2 points of Welch's test where nothing is shared, and the coverage within 93–97 % where much is, from five
/// pieces on; found by calibration.
const PRIOR_OF_NOTHING_SHARED: f64 = 0.4;

/// The posterior probability that the two of a pair share nothing, against a share that is anything
/// from none to all of their variance (uniform correlation).
///
/// `f` is the mean square between pairs by that within them. With a correlation ρ within pairs it is
/// distributed as (1 + ρ)/(1 − ρ) times Fisher's F with `df` and `df` degrees of freedom.
fn weight_of_nothing_shared(f: f64, df: f64) -> f64 {
    let f = f.clamp(1e-12, 1e12);
    // Fisher's density but for its constant, which both sides share.
    let log_density = |x: f64| (df / 2.0 - 1.0) * x.ln() - df * x.ln_1p();
    let nothing = log_density(f);
    let something: f64 = (0..STEPS)
        .map(|i| {
            let rho = (f64::from(i) + 0.5) / f64::from(STEPS);
            let stretch = (1.0 + rho) / (1.0 - rho);
            (log_density(f / stretch) - nothing).exp() / stretch
        })
        .sum::<f64>()
        / f64::from(STEPS);
    let odds = PRIOR_OF_NOTHING_SHARED / (1.0 - PRIOR_OF_NOTHING_SHARED);
    odds / (odds + something)
}

impl Error {
    /// The probability that the estimate lies more than `distance` above the truth (or below it:
    /// both sides are alike). Above one half for a distance below zero.
    pub(crate) fn beyond(self, distance: f64) -> f64 {
        match self {
            Error::T(t) => t.beyond(distance),
            Error::Blend(blend) => {
                let share = |d: f64| {
                    blend.apart_weight * blend.apart.beyond(d) + (1.0 - blend.apart_weight) * blend.paired.beyond(d)
                };
                if distance >= 0.0 {
                    (blend.price * share(distance)).min(0.5)
                } else {
                    1.0 - (blend.price * share(-distance)).min(0.5)
                }
            }
            Error::Constant { one_sided_p } => {
                if distance > 0.0 {
                    one_sided_p
                } else {
                    1.0
                }
            }
        }
    }

    /// The distance beyond which a tail of this size lies, on one side; `None` when there is none.
    pub(crate) fn distance(self, tail: f64) -> Option<f64> {
        match self {
            Error::T(t) => Some(students_t::quantile(1.0 - tail, t.df)? * t.se),
            Error::Blend(blend) => {
                // The root lies between those of the two alone, at the price that both pay.
                let tail = tail / blend.price;
                let ends = [blend.paired, blend.apart]
                    .map(|t| students_t::quantile(1.0 - tail, t.df).map(|quantile| quantile * t.se));
                let (mut low, mut high) = match ends {
                    [Some(p), Some(a)] => (p.min(a), p.max(a)),
                    _ => return None,
                };
                let excess = |distance: f64| (self.beyond(distance) / (tail * blend.price)).ln();
                let (mut at_low, mut at_high) = (excess(low), excess(high));
                // One of the two may carry all of the weight: then the root is that end.
                if at_low <= 0.0 {
                    return Some(low);
                }
                // Secants on the log of the tail, which is nearly straight here; every third step halves the bracket,
                // because at its far end the tail may be zero.
                for step in 0..200 {
                    if at_high >= 0.0 || high - low <= 1e-14 * high {
                        break;
                    }
                    let secant = (low * at_high - high * at_low) / (at_high - at_low);
                    let is_inside = secant > low && secant < high && step % 3 < 2;
                    let middle = if is_inside { secant } else { low + (high - low) / 2.0 };
                    let at_middle = excess(middle);
                    if at_middle.abs() < 1e-13 {
                        return Some(middle);
                    }
                    if at_middle > 0.0 {
                        (low, at_low) = (middle, at_middle);
                    } else {
                        (high, at_high) = (middle, at_middle);
                    }
                }
                Some(high)
            }
            Error::Constant { one_sided_p } => (one_sided_p <= tail).then_some(0.0),
        }
    }

    /// The resulting standard error, a blend's by its weights; zero when constant.
    pub(crate) fn standard_error(self) -> f64 {
        match self {
            Error::T(t) => t.se,
            Error::Blend(b) => {
                (b.apart_weight * b.apart.se.powi(2) + (1.0 - b.apart_weight) * b.paired.se.powi(2)).sqrt()
            }
            Error::Constant { .. } => 0.0,
        }
    }

    /// Degrees of freedom for each piece beyond the first: 1 paired, up to 2 for two sides.
    pub(crate) fn df_per_piece(self, pieces: u32) -> f64 {
        let each = f64::from(pieces.saturating_sub(1).max(1));
        match self {
            Error::T(t) => t.df / each,
            Error::Blend(b) => (b.apart_weight * b.apart.df + (1.0 - b.apart_weight) * b.paired.df) / each,
            Error::Constant { .. } => 1.0,
        }
    }

    pub(crate) fn is_sound(self) -> bool {
        match self {
            Error::T(t) => t.is_sound(),
            Error::Blend(b) => b.paired.is_sound() && b.apart.is_sound() && b.apart_weight.is_finite(),
            Error::Constant { one_sided_p } => one_sided_p.is_finite(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_a_tail_has_that_tail_beyond_it() {
        // From pairs that share nothing to pairs that share everything: the weight goes from 1 to below 10^-100.
        for n in [5_usize, 6, 7, 12, 40, 300] {
            for shared in [0.0, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4, 1e8] {
                for own in [0.5, 1.0, 2.0] {
                    let error = Error::Blend(Blend::of(n, own + shared, 1.0 + shared, own + 1.0));
                    for tail in [0.2, 0.05, 0.025, 0.005, 1e-4, 1e-9] {
                        let distance = error.distance(tail).expect("a distance");
                        let found = error.beyond(distance);
                        assert!(
                            (found / tail - 1.0).abs() < 1e-9,
                            "n {n} shared {shared} own {own} tail {tail}: {found}"
                        );
                    }
                }
            }
        }
    }
}
