//! What analysis makes of a bundle: estimates, comparisons, findings.

use crate::explanation::Explanation;
use crate::metric::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number with its interval: the one type for every estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Confidence of the interval, such as 0.95.
    pub confidence: f64,
    /// Independent pieces that it rests on (blocks).
    pub n: u32,
    /// How it was made, in a few words.
    pub method: String,
}

/// The answer to "is B different from A".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Verdict {
    /// The interval of the ratio excludes 1.
    Different,
    /// The interval of the ratio lies within the margin.
    Equivalent,
    /// Neither.
    Undecided {
        /// Why, and what it would take.
        reason: String,
        /// Further blocks that would decide it, if that can be said.
        blocks_needed: Option<u32>,
    },
}

/// What a comparison compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Contrast {
    /// A level of a factor against its baseline level.
    Factor {
        /// The factor.
        factor: String,
        /// The baseline level's label.
        baseline: String,
        /// The other level's label.
        level: String,
    },
    /// A value of an axis against its first value.
    Axis {
        /// The axis.
        axis: String,
        /// The first value's label.
        baseline: String,
        /// The other value's label.
        level: String,
    },
    /// The baseline against itself (A/A).
    Same,
    /// The baseline without collectors against the baseline with them.
    Unobserved,
    /// Two arms, or two bundles, that the user named.
    Named {
        /// What the first is called.
        baseline: String,
        /// What the second is called.
        level: String,
    },
}

/// Mean and spread of one side of a comparison, in the metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Geometric mean over the trials that count.
    pub mean: f64,
    /// Coefficient of variation between blocks, as a share; `None` with one block.
    pub cv: Option<f64>,
    /// The trials (`Trial::seq`) behind it.
    pub trials: Vec<u32>,
}

/// Where the noise of single results comes from, as coefficients of variation (0.02 is 2 %).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseSplit {
    /// Between trials of one arm in one block.
    pub trial_cv: f64,
    /// What the trials of a block share; pairing takes it out of ratios.
    pub block_cv: f64,
    /// What the trials of a session share; `None` with one session. Pairing takes it out of ratios.
    pub session_cv: Option<f64>,
    /// By how much the ratio differs from session to session beyond its blocks' noise; `None` with one session.
    pub ratio_session_cv: Option<f64>,
}

/// How the time of sessions for a unit of work changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// It grows, by as much as the throughput falls.
    Lost,
    /// It grows, by more or less than the throughput says: the number of sessions differs.
    More,
    /// It falls.
    Less,
}

/// What one state has in that change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatePoints {
    /// As in the account: `on a CPU`, `Lock:transactionid`.
    pub name: String,
    /// Its part, as a share of the larger of both times; below zero where it changes the other way.
    pub points: f64,
    /// Lower end of its interval; those of all states hold together at 95 %.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The change of the time that sessions spend for a unit of work, by state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimePoints {
    /// Which way it changes.
    pub change: CostChange,
    /// The change, as a share of the larger of both times.
    pub points: f64,
    /// States whose part is beyond its interval and a point at least, largest first.
    pub states: Vec<StatePoints>,
}

/// B against A on one metric, in one cell or pooled over the cells of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is compared.
    pub contrast: Contrast,
    /// The workload's name in the plan.
    pub workload: String,
    /// The levels that both sides share (axes, and other factors where crossed), by name,
    /// as labels. Empty when pooled over all of them.
    pub cell: BTreeMap<String, String>,
    /// True if it is pooled over the cells (geometric mean of the ratios).
    pub pooled: bool,
    /// The metric.
    pub metric: Metric,
    /// True if the metric is the plan's primary one.
    pub primary: bool,
    /// True if it answers the question of the plan: the pooled primary one of each thing that the plan varies. The
    /// numbers of an axis beside a factor are a curve and no headline.
    #[serde(default)]
    pub headline: bool,
    /// A; `None` when pooled or nothing was measured.
    pub baseline: Option<Side>,
    /// B; `None` when pooled or nothing was measured.
    pub level: Option<Side>,
    /// Ratio of B to A; `None` when nothing could be paired.
    pub ratio: Option<Estimate>,
    /// The ratio over all blocks, where the plan asks for one without slow trials; `None` where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ratio: Option<Estimate>,
    /// The equivalence margin as a share.
    pub margin: f64,
    /// The answer.
    pub verdict: Verdict,
    /// p of the difference, corrected over the secondary metrics and cells where that applies.
    pub p_adjusted: Option<f64>,
    /// The smallest effect that A/A pairs show this host can see, as a share; `None` without A/A.
    pub noise_floor: Option<f64>,
    /// Where the noise comes from; `None` when nothing is paired or nothing can be split.
    #[serde(default)]
    pub noise: Option<NoiseSplit>,
    /// Which states of sessions the effect is of; `None` without an account (collector `account`), where it is undecided, and
    /// where no state changes beyond its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_points: Option<TimePoints>,
}

/// Whether a finding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingVerdict {
    /// The evidence speaks for it.
    Supported,
    /// The evidence speaks against it.
    Refuted,
    /// The evidence does not decide it.
    Undecided,
    /// What it needs was not measured.
    Skipped,
}

/// What an analysis says about a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The id of the analysis.
    pub analysis: String,
    /// Whether it holds.
    pub verdict: FindingVerdict,
    /// One plain sentence with its numbers and intervals.
    pub sentence: String,
    /// More sentences.
    pub details: Vec<String>,
    /// The trials (`Trial::seq`) behind it.
    pub trials: Vec<u32>,
    /// True if it belongs among the verdicts at the top (true) or in the notes (false).
    pub headline: bool,
}

/// A quantile of pooled latencies of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantileValue {
    /// Between 0 and 1.
    pub quantile: f64,
    /// The value in ns.
    pub value_ns: f64,
    /// True if fewer than 10 samples lie beyond it.
    pub thin: bool,
}

/// One metric of an arm over its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmMetric {
    /// The metric's id.
    pub metric: String,
    /// Geometric mean over the blocks in the metric's unit (the arithmetic one when a value is zero or less);
    /// there even when an interval cannot be had. `None` when nothing was measured.
    #[serde(default)]
    pub value: Option<f64>,
    /// Estimate of the mean over blocks, in the metric's unit; `None` when there is no interval.
    pub mean: Option<Estimate>,
    /// Why there is no estimate.
    pub absent: Option<String>,
}

/// An evidence number of an arm, averaged over its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmEvidence {
    /// The collector's id.
    pub collector: String,
    /// The item's name.
    pub name: String,
    /// The item's label.
    pub label: Option<String>,
    /// Its unit; rates are per second of window where the item is a count.
    pub unit: String,
    /// Mean over the trials; `None` when absent in all.
    pub mean: Option<f64>,
    /// Why there is none.
    pub absent: Option<String>,
}

/// What is known of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// The arm.
    pub arm: u32,
    /// Trials that count.
    pub trials_done: u32,
    /// Trials that are void.
    pub trials_void: u32,
    /// Its metrics.
    pub metrics: Vec<ArmMetric>,
    /// Quantiles of each histogram over all its trials, by histogram name.
    pub quantiles: BTreeMap<String, Vec<QuantileValue>>,
    /// Its evidence.
    pub evidence: Vec<ArmEvidence>,
}

/// One run in a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryRun {
    /// What the user calls it: the bundle's file.
    pub name: String,
    /// The run's id.
    pub run_id: String,
    /// When it was begun, ns since 1970.
    pub created_unix_ns: i64,
}

/// A change in a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// The first run of the new level, a number into the runs.
    pub run: usize,
    /// The earliest run that it may have been (95 %).
    pub run_low: usize,
    /// The latest run that it may have been (95 %).
    pub run_high: usize,
    /// p of the permutation test that found it.
    pub p: f64,
    /// The level after by the level before; `None` when a value has no logarithm.
    pub ratio: Option<Estimate>,
    /// Facts about the host that differ between the last run before and the first one after, as `fact: old → new`.
    pub environment: Vec<String>,
}

/// One metric of one arm over several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistorySeries {
    /// The workload's name in the plan.
    pub workload: String,
    /// The arm's label.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// The geometric mean of each run; `None` where the run has none.
    pub values: Vec<Option<f64>>,
    /// The changes, in order.
    pub changes: Vec<HistoryChange>,
    /// Why changes were not looked for.
    pub absent: Option<String>,
}

/// Several runs of the same arms, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// What stands above everything else in every rendering: that the times are not those of hardware.
    #[serde(default)]
    pub caution: Option<String>,
    /// The runs in order.
    pub runs: Vec<HistoryRun>,
    /// What was found, most important first.
    pub findings: Vec<Finding>,
    /// The primary metric of every arm that several runs have.
    pub series: Vec<HistorySeries>,
}

/// One quantile of the latency of two arms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShiftPoint {
    /// Between 0 and 1.
    pub quantile: f64,
    /// The baseline's value, ns.
    pub baseline_ns: f64,
    /// The level's value, ns.
    pub level_ns: f64,
    /// The level's by the baseline's.
    pub ratio: f64,
    /// Lower end of the band that holds at all quantiles together; `None` when nothing bounds it.
    pub low: Option<f64>,
    /// Upper end of that band.
    pub high: Option<f64>,
    /// True if a side has fewer than 10 samples beyond.
    pub thin: bool,
}

/// How a whole latency distribution moved: an arm against the baseline arm with the same axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyShift {
    /// The workload's name in the plan.
    pub workload: String,
    /// The name of the histogram.
    pub histogram: String,
    /// The baseline arm.
    pub baseline: u32,
    /// The other arm.
    pub level: u32,
    /// Independent pieces that have both: blocks, or sessions where there are several.
    pub pieces: u32,
    /// The quantiles in ascending order.
    pub points: Vec<ShiftPoint>,
    /// Why there is no band.
    pub no_band: Option<String>,
}

/// All that analysis says about a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// What stands above everything else in every rendering: that the times are not those of hardware.
    #[serde(default)]
    pub caution: Option<String>,
    /// The findings, most important first.
    pub findings: Vec<Finding>,
    /// Every comparison: pooled primary ones first, then cells, then secondary metrics.
    pub comparisons: Vec<Comparison>,
    /// Every arm, in order.
    pub arms: Vec<ArmSummary>,
    /// Every arm with latencies against the baseline with the same axes, in the order of arms.
    #[serde(default)]
    pub shifts: Vec<LatencyShift>,
    /// What held the arms up; `None` where no collector ran that shows it.
    #[serde(default)]
    pub explanation: Option<Explanation>,
}
