//! From counts to measurements.

use holdup_model::{Direction, Histogram, Measurement, Metric};

/// One row of a workload's table of metrics: id, unit, direction, summary.
pub type Row = (&'static str, &'static str, Direction, &'static str);

/// A percentile needs so many samples beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

/// A table as the catalogue wants it.
pub fn table(rows: &[Row]) -> Vec<Metric> {
    rows.iter()
        .map(|(id, unit, better, summary)| Metric {
            id: (*id).to_owned(),
            unit: (*unit).to_owned(),
            better: *better,
            summary: (*summary).to_owned(),
        })
        .collect()
}

/// A percentile of durations. `unit_ns` is the unit's length: 1 for ns, 1000 for us. Absent with fewer than 10 samples
/// beyond it.
pub fn percentile(id: &str, histogram: &Histogram, quantile: f64, unit_ns: f64) -> Measurement {
    let beyond = histogram.samples_beyond(quantile);
    match histogram.quantile_ns(quantile) {
        // Half a sample's tolerance, because 1 - 0.999 is a little less than a thousandth.
        Some(ns) if beyond > SAMPLES_BEYOND - 0.5 => Measurement::new(id, ns as f64 / unit_ns),
        _ => Measurement::absent(id, format!("{} samples, {beyond:.1} beyond it; 10 are needed", histogram.count())),
    }
}

/// A rate, absent where no time has passed.
pub fn per_second(id: &str, count: u64, length_ns: u64) -> Measurement {
    if length_ns == 0 {
        return Measurement::absent(id, "the window had no length");
    }
    Measurement::new(id, count as f64 * 1e9 / length_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Measured;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let check = |samples: u64, quantile, expect: Option<f64>| {
            let mut h = Histogram::new();
            h.record_n_ns(2_000, samples);
            assert_eq!(percentile("x_us", &h, quantile, 1_000.0).value.value(), expect, "{samples} samples");
        };
        check(20, 0.5, Some(2.0));
        check(19, 0.5, None);
        check(1_000, 0.99, Some(2.0));
        check(940, 0.99, None);
        check(10_000, 0.999, Some(2.0));
        check(0, 0.5, None);
    }

    #[test]
    fn a_rate_without_time_is_absent() {
        assert_eq!(per_second("x_per_s", 10, 2_000_000_000).value, Measured::Value(5.0));
        assert!(matches!(per_second("x_per_s", 10, 0).value, Measured::Absent(_)));
    }
}
