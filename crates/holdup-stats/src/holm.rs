//! Holm's correction for many comparisons.

/// Holm's step-down correction: p values that may each be held against 5 %, with at most a 5 %
/// chance of any false alarm in the whole family. In the order of the input.
///
/// A p that is NaN stays out of the family and comes back as 1; others are clamped to 0..1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| !p[i].is_nan()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let family = order.len();
    let mut adjusted = vec![1.0; p.len()];
    let mut floor = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        let scaled = p[i].clamp(0.0, 1.0) * (family - rank) as f64;
        floor = floor.max(scaled.min(1.0));
        adjusted[i] = floor;
    }
    adjusted
}
