//! Two that do the same, in alternating order, so that what else the machine does falls on both.

/// Pairs (peer, ours), in alternating order, after one of each that does not count.
pub(crate) fn interleaved(
    pairs: usize,
    peer: &mut dyn FnMut() -> f64,
    ours: &mut dyn FnMut() -> f64,
) -> Vec<(f64, f64)> {
    peer();
    ours();
    let pair = |i: usize| {
        if i.is_multiple_of(2) {
            let first = peer();
            (first, ours())
        } else {
            let first = ours();
            (peer(), first)
        }
    };
    (0..pairs).map(pair).collect()
}

/// Medians, their ratio, and the middle one of the pairs' ratios with a distribution-free 95 % interval (order
/// statistics, binomial), in words.
pub(crate) fn in_words(peer_name: &str, unit: &str, runs: &[(f64, f64)]) -> String {
    let sorted = |pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (peer, ours, ratios) = (sorted(|r| r.0), sorted(|r| r.1), sorted(|r| r.1 / r.0));
    let middle = |values: &[f64]| values[values.len() / 2];
    let (low, high) = median_interval(ratios.len());
    format!(
        "{} pairs, {peer_name} {:.3} {unit}, holdup {:.3} {unit} (medians), ratio of medians {:.4}, median of ratios \
         {:.4} [{:.4}, {:.4}]",
        runs.len(),
        middle(&peer),
        middle(&ours),
        middle(&ours) / middle(&peer),
        middle(&ratios),
        ratios[low],
        ratios[high],
    )
}

/// The places, from 0, of the order statistics that enclose the median with at least 95 %.
fn median_interval(n: usize) -> (usize, usize) {
    let mut below = 0.0;
    let mut place = 0;
    let mut term = 0.5f64.powi(n as i32);
    loop {
        below += term;
        if below > 0.025 || place + 1 > n / 2 {
            break;
        }
        place += 1;
        term *= (n - place + 1) as f64 / place as f64;
    }
    let low = place.saturating_sub(1);
    (low, n - 1 - low)
}
