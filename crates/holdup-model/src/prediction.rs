//! What the simulator says of a plan, with what is not known of the machine carried into it.

use crate::metric::Metric;
use serde::{Deserialize, Serialize};

/// A number with the range that the machine's parameters leave it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The median over the draws.
    pub median: f64,
    /// The 5th percentile.
    pub low: f64,
    /// The 95th percentile.
    pub high: f64,
}

/// An arm of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedArm {
    /// Its label.
    pub label: String,
    /// The workload's metric, named by `workload` of the prediction.
    pub value: Predicted,
}

/// What a level changes against the first one of its factor or axis, over all cells that differ in nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedRatio {
    /// The factor or axis.
    pub factor: String,
    /// The level, as shown.
    pub level: String,
    /// The first level, as shown.
    pub baseline: String,
    /// The geometric mean of the cells' ratios.
    pub ratio: Predicted,
    /// What it hangs on, the most first.
    pub hangs_on: Vec<HangsOn>,
}

/// How a ratio moves when one parameter of the machine goes from one end of its range to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HangsOn {
    /// The parameter's name in the machine file.
    pub parameter: String,
    /// Where its value comes from.
    pub source: String,
    /// The ends of its range, ns.
    pub range_ns: (u64, u64),
    /// The ratio at the lower end, all else as the machine file has it.
    pub at_low: f64,
    /// The ratio at the upper end.
    pub at_high: f64,
}

/// The Universal Scalability Law fitted to the arms along an axis of numbers, beside what was simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalingBeside {
    /// The axis.
    pub axis: String,
    /// The other levels of its arms, as shown; empty when there are none.
    pub at: String,
    /// Load, what was simulated (median) and what the law says.
    pub points: Vec<(f64, f64, f64)>,
    /// The largest difference of the law from the simulation, as a share of the simulation.
    pub worst: f64,
    /// Why there is no fit.
    pub absent: Option<String>,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The plan's name.
    pub plan: String,
    /// The machine's name and what it is.
    pub machine: String,
    /// Its CPUs.
    pub cpus: u32,
    /// The workload.
    pub workload: String,
    /// Its primary metric.
    pub metric: Metric,
    /// How many machines were drawn from the ranges.
    pub draws: u32,
    /// How many of the machine's parameters are measured, published and assumed.
    pub known: (u32, u32, u32),
    /// What the simulation leaves out.
    pub leaves_out: String,
    /// Every arm.
    pub arms: Vec<PredictedArm>,
    /// Every comparison.
    pub ratios: Vec<PredictedRatio>,
    /// Laws beside.
    pub scaling: Vec<ScalingBeside>,
}
