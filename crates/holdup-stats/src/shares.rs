//! A share over several windows: what was lost in them by what there was in them.

use crate::NoEstimate;
use crate::pieces::count;
use crate::students_t;
use holdup_model::Estimate;

/// What two pieces of one run say of a share.
const MIN_PIECES: usize = 2;

/// The sum of the parts by the sum of the wholes, each `(part, whole)` from one piece (a window, a trial), with a t
/// interval by linearisation (Cochran, Sampling Techniques, 3rd edition, 6.4). Long pieces weigh as much as they are
/// long, and a piece whose part is zero counts. Neither end lies below zero.
///
/// # Errors
/// With fewer than two pieces that have a whole, a number that is not finite or below zero, or no whole at all.
pub fn share_of_sums(pieces: &[(f64, f64)], confidence: f64) -> Result<Estimate, NoEstimate> {
    if pieces.iter().any(|(part, whole)| !(part.is_finite() && whole.is_finite() && *part >= 0.0 && *whole >= 0.0)) {
        return Err(NoEstimate::new("a value is below zero or not a number"));
    }
    // A piece without a whole says nothing, and is no degree of freedom.
    let used: Vec<(f64, f64)> = pieces.iter().copied().filter(|(_, whole)| *whole > 0.0).collect();
    let (parts, wholes) = used.iter().fold((0.0, 0.0), |(p, w), (part, whole)| (p + part, w + whole));
    let value = parts / wholes;
    if !value.is_finite() {
        return Err(NoEstimate::new("there is nothing that it could be a share of"));
    }
    if used.len() < MIN_PIECES {
        return Err(NoEstimate::new("one window gives no interval"));
    }
    let n = used.len() as f64;
    let squares: f64 = used.iter().map(|(part, whole)| (part - value * whole).powi(2)).sum();
    let error = (n / (n - 1.0) * squares).sqrt() / wholes;
    let tail = (1.0 - confidence) / 2.0;
    let t = students_t::quantile(1.0 - tail, n - 1.0)
        .ok_or_else(|| NoEstimate::new("the confidence must lie between 0 and 1"))?;
    let half = t * error;
    if !half.is_finite() {
        return Err(NoEstimate::new("the values are too far apart for arithmetic"));
    }
    let method = format!("ratio of sums over {} windows, t interval", used.len());
    Ok(Estimate { value, low: (value - half).max(0.0), high: value + half, confidence, n: count(used.len()), method })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Noise;

    #[test]
    fn it_is_the_ratio_of_the_sums() {
        let e = share_of_sums(&[(1.0, 10.0), (3.0, 30.0), (0.0, 0.0)], 0.95).expect("two pieces");
        assert!((e.value - 0.1).abs() < 1e-12 && e.n == 2, "{e:?}");
        assert!((e.high - e.low) < 1e-9, "both pieces say the same: {e:?}");
        let zero = share_of_sums(&[(0.0, 5.0), (0.0, 5.0)], 0.95).expect("two pieces");
        assert_eq!((zero.value, zero.low, zero.high), (0.0, 0.0, 0.0));
    }

    #[test]
    fn what_cannot_be_answered_is_said() {
        for pieces in [
            vec![],
            vec![(1.0, 2.0)],
            vec![(1.0, 0.0), (0.0, 0.0)],
            vec![(1.0, 2.0), (-1.0, 2.0)],
            vec![(f64::NAN, 2.0), (1.0, 2.0)],
            vec![(f64::MAX, 1.0), (f64::MAX, 1.0)],
        ] {
            assert!(share_of_sums(&pieces, 0.95).is_err(), "{pieces:?}");
        }
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut noise = Noise::new(7);
        let (mut held, runs) = (0_u32, 2_000_u32);
        for _ in 0..runs {
            let pieces: Vec<(f64, f64)> = (0..10)
                .map(|_| {
                    let whole = 1.0 + 0.3 * noise.uniform();
                    (whole * (0.2 + 0.03 * noise.normal()).max(0.0), whole)
                })
                .collect();
            let e = share_of_sums(&pieces, 0.95).expect("ten pieces");
            held += u32::from(e.low <= 0.2 && 0.2 <= e.high);
        }
        let coverage = f64::from(held) / f64::from(runs);
        assert!((0.93..0.97).contains(&coverage), "{coverage}");
    }
}
