//! The rules by which others call two sets of runs different, made from their descriptions.

use holdup_stats::students_t;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// Welch's t test at 5 %.
pub fn welch(a: &[f64], b: &[f64]) -> bool {
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let (va, vb) = (variance(a) / na, variance(b) / nb);
    let df = (va + vb).powi(2) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
    students_t::two_sided_p((mean(a) - mean(b)) / (va + vb).sqrt(), df).is_some_and(|p| p <= 0.05)
}

/// The Mann–Whitney U test at 5 %, two-sided and exact, for sides of one size without ties.
pub struct MannWhitney {
    /// The largest U that is significant; `None` when not even 0 is.
    critical: Option<usize>,
}

impl MannWhitney {
    /// For sides of `n` values: counts the orders of each U (the recurrence of Mann and Whitney, 1947).
    pub fn new(n: usize) -> Self {
        // ways[u] for i of A and j of B, built up over i; the counts fit a double's exponent.
        let mut ways = vec![vec![1.0_f64]; n + 1];
        for i in 1..=n {
            let mut row: Vec<Vec<f64>> = vec![vec![1.0]];
            for j in 1..=n {
                // The largest value is A's (it beats all j of B) or B's.
                let (from_a, from_b) = (&ways[j], &row[j - 1]);
                let mut counts = vec![0.0; i * j + 1];
                for (u, count) in from_a.iter().enumerate() {
                    counts[u + j] += count;
                }
                for (u, count) in from_b.iter().enumerate() {
                    counts[u] += count;
                }
                row.push(counts);
            }
            ways = row;
        }
        let counts = &ways[n];
        let all: f64 = counts.iter().sum();
        let mut sum = 0.0;
        let within = counts.iter().take_while(|count| {
            sum += **count;
            2.0 * sum / all <= 0.05
        });
        MannWhitney { critical: within.count().checked_sub(1) }
    }

    /// True if two sides differ.
    pub fn differs(&self, a: &[f64], b: &[f64]) -> bool {
        let above: usize = a.iter().map(|x| b.iter().filter(|y| x > *y).count()).sum();
        let u = above.min(a.len() * b.len() - above);
        self.critical.is_some_and(|critical| u <= critical)
    }
}

/// mmtests' rule for a metric of which more is better, since its commit 373a305b: harmonic means whose intervals
/// of 1.96 standard deviations (not standard errors) do not touch.
pub fn mmtests(a: &[f64], b: &[f64]) -> bool {
    let side = |values: &[f64]| {
        let inverses: Vec<f64> = values.iter().map(|v| 1.0 / v).collect();
        let harmonic = 1.0 / mean(&inverses);
        let squares: f64 = inverses.iter().map(|i| (i - 1.0 / harmonic).powi(2)).sum();
        (harmonic, (squares * harmonic.powi(4) / values.len() as f64).sqrt())
    };
    let ((a, a_sd), (b, b_sd)) = (side(a), side(b));
    (a - b).abs() > 1.959_964 * (a_sd + b_sd)
}

/// lkp's rule for three runs and more: the ranges do not overlap, and the gap between them is more than half of the
/// difference of the medians.
pub fn lkp(a: &[f64], b: &[f64]) -> bool {
    let sorted = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let (a, b) = (sorted(a), sorted(b));
    let (low, high) = if a[0] <= b[0] { (&a, &b) } else { (&b, &a) };
    let gap = high[0] - low[low.len() - 1];
    let median = |sorted: &[f64]| {
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
    };
    gap > 0.0 && gap > (median(high) - median(low)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mann_whitney_has_the_published_critical_values() {
        // Two-sided 5 %, equal sides: the table of Mann and Whitney as in any textbook.
        for (n, critical) in
            [(3, None), (4, Some(0)), (5, Some(2)), (6, Some(5)), (8, Some(13)), (10, Some(23)), (20, Some(127))]
        {
            assert_eq!(MannWhitney::new(n).critical, critical, "n {n}");
        }
    }

    #[test]
    fn the_rules_of_others_lose_power_with_more_runs() {
        // The defect that they are shown for: spread does not shrink with the number of runs.
        let side = |n: usize, level: f64| -> Vec<f64> {
            (0..n).map(|i| level * (1.0 + 0.02 * ((i as f64 + 0.5) / n as f64 * 4.0 - 2.0))).collect()
        };
        assert!(lkp(&[100.0, 100.5, 101.0], &[105.0, 105.5, 106.0]));
        for n in [3, 10, 30] {
            assert!(!mmtests(&side(n, 100.0), &side(n, 104.0)) && !lkp(&side(n, 100.0), &side(n, 104.0)), "n {n}");
        }
        assert!(welch(&side(30, 100.0), &side(30, 104.0)));
    }
}
