//! Metrics: what a workload measures, with unit and direction.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More is better, such as throughput.
    Higher,
    /// Less is better, such as latency.
    Lower,
}

/// A metric as a workload or a plan defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its id, with the unit last where it has one (`latency_p99_us`).
    pub id: String,
    /// Its unit, as printed in a table's head (`1/s`, `us`).
    pub unit: String,
    /// Which way is better.
    pub better: Direction,
    /// One line.
    pub summary: String,
}

/// A number that was measured, or the reason why there is none.
/// Absent is not zero, all the way to the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// The number.
    Value(f64),
    /// Why there is none.
    Absent(String),
}

impl Measured {
    /// The number, if there is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Measured::Value(v) => Some(*v),
            Measured::Absent(_) => None,
        }
    }
}

/// One metric of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The metric's id.
    pub metric: String,
    /// What was measured.
    pub value: Measured,
}

/// Samples that a percentile needs beyond it.
const SAMPLES_BEYOND: f64 = 10.0;

impl Measurement {
    /// A measured number. A number that is not finite becomes absent.
    pub fn new(metric: impl Into<String>, value: f64) -> Self {
        let value = if value.is_finite() {
            Measured::Value(value)
        } else {
            Measured::Absent(format!("not a finite number ({value})"))
        };
        Measurement { metric: metric.into(), value }
    }

    /// A metric that could not be measured.
    pub fn absent(metric: impl Into<String>, reason: impl Into<String>) -> Self {
        Measurement { metric: metric.into(), value: Measured::Absent(reason.into()) }
    }

    /// A percentile of durations. `unit_ns` is the unit's length: 1 for ns, 1000 for us. Absent with fewer than 10
    /// samples beyond it.
    pub fn percentile(metric: &str, histogram: &Histogram, quantile: f64, unit_ns: f64) -> Self {
        let value = histogram.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / unit_ns);
        Self::percentile_of(metric, value, quantile, histogram.count() as f64)
    }

    /// A percentile that was made of this number of samples, absent where fewer than ten of them lie beyond it.
    pub fn percentile_of(metric: &str, value: f64, quantile: f64, samples: f64) -> Self {
        let beyond = samples * (1.0 - quantile);
        // 1 - 0.999 is a little less than a thousandth.
        if beyond + 1e-6 >= SAMPLES_BEYOND {
            return Measurement::new(metric, value);
        }
        // Cut and not rounded: what is too few never reads as 10.
        let beyond = (beyond * 10.0).floor() / 10.0;
        Measurement::absent(metric, format!("{samples} samples, {beyond:.1} beyond it; 10 are needed"))
    }

    /// A rate, absent where no time has passed.
    pub fn per_second(metric: &str, count: u64, length_ns: u64) -> Self {
        match length_ns {
            0 => Measurement::absent(metric, "the window had no length"),
            ns => Measurement::new(metric, count as f64 * 1e9 / ns as f64),
        }
    }

    /// A number per operation, absent where there was none.
    pub fn per_operation(metric: &str, count: u64, operations: u64) -> Self {
        match operations {
            0 => Measurement::absent(metric, "no operation was completed in the window"),
            n => Measurement::new(metric, count as f64 / n as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let check = |samples: u64, quantile, expect: Option<f64>| {
            let mut h = Histogram::new();
            h.record_n_ns(2_000, samples);
            assert_eq!(
                Measurement::percentile("x_us", &h, quantile, 1_000.0).value.value(),
                expect,
                "{samples} samples"
            );
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
        assert_eq!(Measurement::per_second("x_per_s", 10, 2_000_000_000).value, Measured::Value(5.0));
        assert!(matches!(Measurement::per_second("x_per_s", 10, 0).value, Measured::Absent(_)));
    }
}
