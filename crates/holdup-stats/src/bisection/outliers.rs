//! How much a trial counts that is far from what is believed.

use super::Options;
use super::posterior::SHAPE;
use crate::pieces;

/// Less weight for what is far from all levels: the limit over the distance, squared.
///
/// The distance is the one to the nearest level, so a weight says nothing about the side of a step on which
/// a trial belongs. Levels and spread are medians, which outliers do not move.
pub(super) fn outlier_weights(values: &[(usize, f64)], steps: &[usize], limit: f64, options: &Options) -> Vec<f64> {
    let median = |values| pieces::median(values).unwrap_or(0.0);
    let part_of = |c: usize| steps.iter().filter(|step| c > **step).count();
    let level = |part| median(values.iter().filter(|(c, _)| part_of(*c) == part).map(|(_, y)| *y).collect());
    let levels: Vec<f64> = (0..=steps.len()).map(level).collect();
    let absolute = median(values.iter().map(|(c, y)| (y - levels[part_of(*c)]).abs()).collect());
    // The median of absolute residuals of normal noise is 0.6745 σ. Few trials are mixed with the
    // guess, because a median of few is small by chance often enough.
    let n = values.len() as f64;
    let spread = ((absolute / 0.6745).powi(2) * n + 2.0 * SHAPE * options.expected_cv.powi(2)) / (n + 2.0 * SHAPE);
    let reach = limit * (spread * (1.0 + options.build_variance_ratio.unwrap_or(0.0))).sqrt();
    let weight = |y: f64| {
        let nearest = levels.iter().map(|level| (y - level).abs()).fold(f64::INFINITY, f64::min);
        if nearest <= reach { 1.0 } else { (reach / nearest).powi(2) }
    };
    values.iter().map(|(_, y)| weight(*y)).collect()
}
