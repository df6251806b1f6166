//! Which order statistics of a sample hold a quantile between them: binomial, without assumptions on the distribution.

use statrs::function::factorial::ln_factorial;
use statrs::function::gamma::ln_gamma;

/// Up to this binomial variance tails are summed; above, the expansion is good to less than a rank.
const LARGEST_SUMMED_VARIANCE: f64 = 1e3;

/// The one-sided tail probability of a standard normal beyond `z`.
pub(crate) fn normal_tail(z: f64) -> f64 {
    statrs::function::erf::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// The ranks (from 1) of the order statistics that enclose the quantile `q` of the distribution that `n`
/// independent samples came from, each end missing it with a probability of at most that of a standard normal
/// beyond `z`. An end that would lie beyond the sample is `None`.
///
/// X₍ₗ₎ lies above the quantile when fewer than l samples lie at or below it, and their number is Bin(n, q) or
/// stochastically larger; so l is the largest rank with P(Bin(n, q) ≤ l − 1) ≤ Φ(−z), and the upper rank is its
/// mirror image (David and Nagaraja, Order Statistics, section 7.1). Ties only make the interval safer.
pub(crate) fn enclosing_ranks(n: u64, q: f64, z: f64) -> (Option<u64>, Option<u64>) {
    let upper = lower_rank(n, 1.0 - q, z).map(|mirrored| n - (mirrored - 1));
    (lower_rank(n, q, z), upper)
}

/// The largest rank l ≥ 1 with P(Bin(n, q) ≤ l − 1) ≤ Φ(−z).
fn lower_rank(n: u64, q: f64, z: f64) -> Option<u64> {
    if !(n > 0 && q > 0.0 && q < 1.0 && z >= 0.0) {
        return None;
    }
    let (mean, variance) = (n as f64 * q, n as f64 * q * (1.0 - q));
    // Cornish and Fisher's expansion with continuity correction.
    let near = mean - z * variance.sqrt() + (z * z - 1.0) * (1.0 - 2.0 * q) / 6.0 - 0.5;
    if variance > LARGEST_SUMMED_VARIANCE {
        // What the expansion leaves out is less than a rank; one rank outward keeps the promise.
        return Some((near - 1.0).floor().max(0.0) as u64 + 1);
    }
    let alpha = normal_tail(z);
    let mut failures = near.floor().clamp(0.0, n as f64) as u64;
    let (mut tail, mut term) = binomial_tail(n, q, failures);
    while tail > alpha {
        failures = failures.checked_sub(1)?;
        (tail, term) = binomial_tail(n, q, failures);
    }
    // The next term follows from the last, so that going up costs no new sum.
    while failures + 1 < n {
        term *= (n - failures) as f64 / (failures + 1) as f64 * q / (1.0 - q);
        tail += term;
        if tail > alpha {
            break;
        }
        failures += 1;
    }
    Some(failures + 1)
}

/// P(Bin(n, q) ≤ k), summed from k downwards, where the terms shrink, and P(Bin(n, q) = k).
fn binomial_tail(n: u64, q: f64, k: u64) -> (f64, f64) {
    let odds = (1.0 - q) / q;
    let first = ln_probability(n, q, k).exp();
    let (mut term, mut sum) = (first, first);
    for j in (1..=k).rev() {
        term *= j as f64 / (n - j + 1) as f64 * odds;
        sum += term;
        if term < sum * 1e-16 {
            break;
        }
    }
    (sum, first)
}

/// ln P(Bin(n, q) = k).
fn ln_probability(n: u64, q: f64, k: u64) -> f64 {
    let ln_choose = if n <= 170 {
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    } else {
        ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0)
    };
    ln_choose + k as f64 * q.ln() + (n - k) as f64 * (-q).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_a_small_sample() {
        // By hand: 2^-10 = 0.00098, 11 * 2^-10 = 0.0107, 56 * 2^-10 = 0.0547 (Φ(−1.96) = 0.025, Φ(−3.12) = 0.0009).
        assert_eq!(enclosing_ranks(10, 0.5, 1.96), (Some(2), Some(9)));
        assert_eq!(enclosing_ranks(10, 0.5, 3.12), (None, None));
        assert_eq!(enclosing_ranks(1, 0.5, 1.96), (None, None));
        assert_eq!(enclosing_ranks(0, 0.5, 1.96), (None, None));
    }

    #[test]
    fn summed_and_expanded_ranks_agree() {
        let cases =
            [(4_100, 0.5), (50_000, 0.5), (12_000, 0.9), (12_000, 0.1), (1_002_000, 0.999), (12_000_000, 0.001)];
        for z in [0.0, 0.6, 1.96, 3.12] {
            let alpha = normal_tail(z);
            for (n, q) in cases {
                let expanded = lower_rank(n, q, z).expect("far inside the sample");
                assert!(binomial_tail(n, q, expanded - 1).0 <= alpha, "{n} {q} {z}: too narrow");
                assert!(binomial_tail(n, q, expanded + 2).0 > alpha, "{n} {q} {z}: three ranks too wide");
            }
        }
    }

    #[test]
    fn an_end_lies_within_its_error_and_no_rank_further() {
        for z in [1.0, 1.96, 3.12] {
            let alpha = normal_tail(z);
            for n in [1, 2, 20, 171, 3_000] {
                for q in [0.001, 0.01, 0.3, 0.5, 0.77, 0.99, 0.999] {
                    let Some(rank) = lower_rank(n, q, z) else {
                        assert!((-q).ln_1p() * n as f64 >= alpha.ln(), "{n} {q} {z} has an end");
                        continue;
                    };
                    let tail = |k| binomial_tail(n, q, k).0;
                    assert!(
                        tail(rank - 1) <= alpha * (1.0 + 1e-12) && (rank == n || tail(rank) > alpha * (1.0 - 1e-12))
                    );
                }
            }
        }
    }
}
