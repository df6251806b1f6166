//! Quantiles of latency histograms.

use holdup_model::Histogram;
use holdup_model::outcome::QuantileValue;

/// The quantiles of a table.
pub const TABLE_QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Fewer samples than this beyond a quantile mark it as thin.
pub const MIN_SAMPLES_BEYOND: f64 = 10.0;

/// The quantiles of a curve: 1 % to 99 %, and 99.9 %.
pub const CURVE_QUANTILES: [f64; 100] = {
    let mut all = [0.999; 100];
    let mut i = 0;
    while i < 99 {
        all[i] = (i + 1) as f64 / 100.0;
        i += 1;
    }
    all
};

/// True if fewer than 10 samples are expected beyond a quantile. Low quantiles have their thin
/// side below them, so the smaller side counts.
pub fn is_thin(histogram: &Histogram, quantile: f64) -> bool {
    // 100 samples at 0.9 come to 9.999999999999998 beyond; the slack keeps them at ten.
    let slack = 1e-6;
    histogram.samples_beyond(quantile.max(1.0 - quantile)) < MIN_SAMPLES_BEYOND - slack
}

/// The values at some quantiles; empty when the histogram is. HDR buckets hold a value to within 0.1 %.
pub fn quantile_table(histogram: &Histogram, quantiles: &[f64]) -> Vec<QuantileValue> {
    let value = |&quantile: &f64| {
        let value_ns = histogram.quantile_ns(quantile)? as f64;
        Some(QuantileValue { quantile, value_ns, thin: is_thin(histogram, quantile) })
    };
    quantiles.iter().filter(|q| q.is_finite()).filter_map(value).collect()
}
