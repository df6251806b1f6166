#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bisection;
pub mod bootstrap;
pub mod change_points;
pub mod cluster_rates;
pub mod drift;
pub mod effect;
mod error;
pub mod holm;
pub mod littles_law;
pub mod noise;
mod order_statistics;
pub mod pieces;
pub mod quantile_bands;
pub mod quantiles;
pub mod random;
pub mod residual;
pub mod scaling;
pub mod sequential;
pub mod shares;
pub mod spread;
pub mod steadiness;
pub mod students_t;
pub mod tail;
pub mod trimmed;
pub mod tuning;
pub mod verdict;

pub use bisection::Bisection;
pub use bootstrap::ratio_bootstrap;
pub use change_points::{Change, ChangeOptions, ChangePoint, change_points, change_points_of_long, split_divergences};
pub use cluster_rates::{Cluster, RateBound, bunching, cluster_rate, rate_bound, rate_unpaired};
pub use drift::{Drift, DriftPoint, drift, slope};
pub use effect::{Effect, geometric_mean, mean_estimate, mean_over_blocks, ratio_paired, ratio_unpaired};
pub use holdup_model::{Direction, Estimate, Histogram, SparseHistogram, Verdict};
pub use holm::holm;
pub use littles_law::{LITTLES_LAW_TOLERANCE, LittlesLaw, littles_law};
pub use noise::{NoiseFloor, noise_floor};
pub use pieces::{BlockPair, BlockValue};
pub use quantile_bands::{QuantileShift, quantile_shift, quantile_shift_over_blocks};
pub use quantiles::{CURVE_QUANTILES, MIN_SAMPLES_BEYOND, TABLE_QUANTILES, is_thin, quantile_table};
pub use sequential::Looks;
pub use shares::share_of_sums;
pub use spread::{Spread, spread};
pub use steadiness::{UNSTEADY_P, Unsteady, unsteady};
pub use trimmed::{ArmValue, SlowTrials, Trimmed, fisher_exact, p_of_larger, slow_trials, trim};
pub use tuning::Tuning;
pub use verdict::{ALPHA, MIN_BLOCKS, Power, Question, decide, judge, judge_corrected, judge_question};

use std::fmt;

/// Confidence of every interval that is shown.
pub const CONFIDENCE: f64 = 0.95;

/// Why there is no number. A reason, never a made-up number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoEstimate {
    /// Why, in a few words, lower case, without a full stop.
    pub reason: String,
}

impl NoEstimate {
    /// A reason.
    pub fn new(reason: impl Into<String>) -> Self {
        NoEstimate { reason: reason.into() }
    }
}

impl fmt::Display for NoEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for NoEstimate {}
