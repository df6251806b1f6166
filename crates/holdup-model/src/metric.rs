//! Metrics: what a workload measures, with unit and direction.

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
}
