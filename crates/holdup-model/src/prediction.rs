//! What the simulator says of a plan, with what is not known of the machine carried into it.

use crate::metric::Metric;
use crate::published::PublishedRatio;
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

/// A ratio that somebody found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The factor or axis.
    pub factor: String,
    /// Its level, as shown.
    pub level: String,
    /// What the level changed against the first one.
    pub ratio: f64,
    /// How many times as small and as great as in the machine file each cost may be.
    pub widen: f64,
}

impl Wanted {
    /// True if a ratio is the wanted one, or further from 1.
    pub fn is_reached(&self, ratio: f64) -> bool {
        match self.ratio < 1.0 {
            true => ratio <= self.ratio,
            false => ratio >= self.ratio,
        }
    }

    /// How far a ratio is on the way to the one that is wanted.
    pub fn way(&self, ratio: f64) -> f64 {
        match self.ratio < 1.0 {
            true => -ratio,
            false => ratio,
        }
    }
}

/// A ratio that somebody found, and what machines on which it comes out are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The factor or axis.
    pub factor: String,
    /// The level, as shown.
    pub level: String,
    /// The first level, as shown.
    pub baseline: String,
    /// The ratio that was found; below 1 it is reached by less, above 1 by more.
    pub wanted: f64,
    /// How many times as small and as great as in the machine file each parameter was made.
    pub widened: f64,
    /// The ratio on the machine as its file has it.
    pub as_described: f64,
    /// Each parameter alone, all else as the machine file has it; the one that comes nearest first.
    pub alone: Vec<ReachedAlone>,
    /// The ratio over machines drawn from the widened ranges.
    pub drawn: Predicted,
    /// The least and the greatest ratio of these.
    pub extremes: (f64, f64),
    /// How many were drawn.
    pub machines: u32,
    /// How many of them reach the ratio.
    pub reached: u32,
    /// By what those that reach it differ from the others, the most first.
    pub together: Vec<ReachedTogether>,
}

/// How near to a ratio one parameter alone can bring a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReachedAlone {
    /// The parameter's name in the machine file.
    pub parameter: String,
    /// Its value there, ns.
    pub value_ns: u64,
    /// The value at which the ratio came nearest, ns.
    pub nearest_ns: u64,
    /// The ratio there.
    pub nearest: f64,
    /// The value nearest to that of the machine file with which the ratio is reached, ns.
    pub reached_at_ns: Option<u64>,
}

/// What machines that reach a ratio have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReachedTogether {
    /// The parameter's name in the machine file.
    pub parameter: String,
    /// From what it was drawn, ns.
    pub drawn_ns: (u64, u64),
    /// The least, the median and the greatest value of the machines that reach the ratio, ns.
    pub reaching_ns: (u64, u64, u64),
    /// The greatest distance between its distributions among those that reach the ratio and those that do not, 0 to 1.
    pub apart: f64,
}

/// A published ratio beside what is simulated within the ranges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedBeside {
    /// What was published.
    pub published: PublishedRatio,
    /// The first level of each factor that it is of, in the order of its levels; empty where the plan has none of them.
    pub baseline: Vec<String>,
    /// The ratio over the machines that were drawn: more of them make this more exact and not wider. `None` where no two arms
    /// differ by what was published.
    pub range: Option<Predicted>,
}

impl PublishedBeside {
    /// True if the published ratio lies between the 5th and the 95th percentile.
    pub fn is_within(&self) -> bool {
        self.range.is_some_and(|range| (range.low..=range.high).contains(&self.published.value))
    }
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
    /// Published ratios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedBeside>,
    /// Laws beside.
    pub scaling: Vec<ScalingBeside>,
    /// Ratios that somebody found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach: Vec<Reach>,
}
