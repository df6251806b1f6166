//! Results that are kept: what a store knows of a run beside its bundle.

use crate::metric::Metric;
use crate::outcome::{Estimate, Finding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRun {
    /// The random name of the run, hexadecimal.
    pub run_id: String,
    /// When it was begun, ns since 1970.
    pub created_unix_ns: i64,
    /// The name of the plan.
    pub plan: String,
    /// The question of the plan.
    pub question: String,
    /// Where the trials ran: `local`, `qemu`, `sim:MACHINE`.
    pub target: String,
    /// What its times are, where they are not those of hardware.
    pub emulated: Option<String>,
    /// The host's name, or the simulated machine's; `None` where the bundle does not have it.
    pub host: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The version of PostgreSQL.
    pub server: Option<String>,
    /// The version of holdup that wrote the bundle.
    pub holdup_version: String,
    /// How the run ended, in a word; `None` when it never did.
    pub ending: Option<String>,
    /// Trials that count.
    pub trials_done: u32,
    /// Trials that do not.
    pub trials_void: u32,
}

/// One metric of an arm over its trials that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptMetric {
    /// The metric, with the plan's direction.
    pub metric: Metric,
    /// True if it answers the question of the plan.
    pub is_primary: bool,
    /// The largest difference that counts as none, as a share.
    pub margin: f64,
    /// Trials that have a value.
    pub trials: u32,
    /// The geometric mean, in the metric's unit (the arithmetic one when a value is zero or less).
    pub mean: f64,
    /// Standard deviation by mean over the trials, as a share; `None` with one trial or a mean of zero.
    pub cv: Option<f64>,
}

/// An arm of a kept run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptArm {
    /// Its number in the bundle, from 0.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// The name of its workload in the plan.
    pub workload: String,
    /// What runs in it, as a number: results of two runs belong to one series only where it is the same. It is made of the workload's
    /// kind and parameters, the settings of the plan, and the length of the window.
    pub design: String,
    /// Why it repeats the baseline: `same` or `unobserved`; `None` for all other arms.
    pub replica: Option<String>,
    /// Its metrics; those without a value are left out.
    pub metrics: Vec<KeptMetric>,
}

/// One trial in the columns of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTrial {
    /// Its place in the order in which trials ran.
    pub trial: u32,
    /// Its arm.
    pub arm: u32,
    /// Its session.
    pub session: u32,
    /// Its block, counted over all sessions.
    pub block: u32,
    /// Why it does not count; `None` when it does.
    pub void_reason: Option<String>,
    /// When its set-up began, ns since 1970.
    pub started_unix_ns: i64,
    /// The length of the window, ns; `None` when it never opened.
    pub window_ns: Option<u64>,
    /// The values in the order of the workload's metrics; `None` where there is none.
    pub values: Vec<Option<f64>>,
}

/// All that a store keeps of a run beside the bundle itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The run.
    pub run: KeptRun,
    /// Its arms.
    pub arms: Vec<KeptArm>,
    /// The facts about the host at its begin that were known.
    pub facts: BTreeMap<String, String>,
}

/// What of the kept runs is asked for. All that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptFilter {
    /// The name of the plan.
    pub plan: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The run's id, or how it begins.
    pub run: Option<String>,
    /// Begun at this time or later, ns since 1970.
    pub since_unix_ns: Option<i64>,
    /// Begun before this time, ns since 1970.
    pub before_unix_ns: Option<i64>,
    /// Only this number of the newest.
    pub last: Option<usize>,
}

impl KeptFilter {
    /// True if a run is asked for, but for `last`.
    pub fn matches(&self, run: &KeptRun) -> bool {
        self.plan.as_ref().is_none_or(|plan| *plan == run.plan)
            && self.host.as_ref().is_none_or(|host| Some(host) == run.host.as_ref())
            && self.run.as_ref().is_none_or(|id| run.run_id.starts_with(id))
            && self.since_unix_ns.is_none_or(|since| run.created_unix_ns >= since)
            && self.before_unix_ns.is_none_or(|before| run.created_unix_ns < before)
    }
}

/// One value of a series: a metric of an arm in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptValue {
    /// The place of the run in the answer.
    pub run: usize,
    /// The arm's label.
    pub arm: String,
    /// The workload's name in the plan.
    pub workload: String,
    /// What runs in the arm, see [`KeptArm::design`].
    pub design: String,
    /// The metric with its mean.
    pub value: KeptMetric,
}

/// What a history is made of: runs, oldest first, with the values of the metrics asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeptSeries {
    /// The runs.
    pub runs: Vec<KeptRun>,
    /// The values, run by run, arms in their order. Replicas of baselines are not among them.
    pub values: Vec<KeptValue>,
}

/// What all values of a series share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeriesKey {
    /// The plan's name.
    pub plan: String,
    /// The workload's name in the plan.
    pub workload: String,
    /// The metric's id.
    pub metric: String,
    /// The arm's label.
    pub arm: String,
    /// The host; `None` where it is not known.
    pub host: Option<String>,
    /// The target with its machine.
    pub target: String,
    /// The kernel, where series are split by it.
    pub kernel: Option<String>,
    /// The version of PostgreSQL, where series are split by it.
    pub server: Option<String>,
    /// What runs in the arm.
    pub design: String,
}

/// Where a series changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptChange {
    /// The first run of the new level, a place in the series.
    pub at: usize,
    /// The earliest place that the data allow (95 %).
    pub at_low: usize,
    /// The latest one.
    pub at_high: usize,
    /// p of the permutation test that found it.
    pub p: f64,
    /// The level after by the level before; `None` when a value has no logarithm.
    pub ratio: Option<Estimate>,
    /// True if the new level is worse; `None` where that is not known.
    pub is_worse: Option<bool>,
    /// What of the environment differs between the runs before and those after, as `fact: old → new`.
    pub environment: Vec<String>,
}

/// A series with its changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedSeries {
    /// What its values share.
    pub key: SeriesKey,
    /// The metric.
    pub metric: Metric,
    /// The largest difference that counts as none, as a share.
    pub margin: f64,
    /// The runs, as places in the history's list, oldest first.
    pub runs: Vec<usize>,
    /// The value of each.
    pub values: Vec<f64>,
    /// Where it changed.
    pub changes: Vec<KeptChange>,
    /// The change for the worse that is not made good: the best level of all before by the level of now, and since which place.
    pub open: Option<OpenRegression>,
    /// Why changes were not looked for.
    pub absent: Option<String>,
}

/// A change for the worse that later changes have not made good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRegression {
    /// The change, a place in the list of the series' changes.
    pub change: usize,
    /// The level of now by the level before it.
    pub ratio: f64,
    /// Runs since then.
    pub runs: usize,
}

/// The history of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptHistory {
    /// What stands above everything else: that times are not those of hardware.
    pub caution: Option<String>,
    /// The runs, oldest first.
    pub runs: Vec<KeptRun>,
    /// What was found, most important first.
    pub findings: Vec<Finding>,
    /// The series.
    pub series: Vec<ChangedSeries>,
}

/// The answer of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAnswer {
    /// It is worse than what the store knows, by more than the margin.
    Regression,
    /// It cannot be said.
    Undecided,
    /// It is not worse by more than the margin.
    NoRegression,
}

/// One metric of one arm at the gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateCheck {
    /// The series that it belongs to.
    pub key: SeriesKey,
    /// The metric.
    pub metric: Metric,
    /// The largest difference that counts as none, as a share.
    pub margin: f64,
    /// The new value; the geometric mean over the new runs.
    pub value: f64,
    /// The level that the store knows; `None` without one.
    pub level: Option<f64>,
    /// Kept runs behind the level: those since the last change.
    pub runs: usize,
    /// The new value by the level, with the interval in which a further run of the same level would lie.
    pub ratio: Option<Estimate>,
    /// Standard deviation between runs of the level, as a share.
    pub run_cv: Option<f64>,
    /// The answer.
    pub answer: GateAnswer,
    /// Why it is undecided.
    pub reason: Option<String>,
    /// What the same gate would have said of the kept runs.
    pub past: GatePast,
}

/// A gate over the runs that are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatePast {
    /// Runs that had enough before them to be judged.
    pub judged: usize,
    /// Of them, those that it would have refused where the history has a change for the worse.
    pub justified: usize,
    /// Of them, those that it would have refused where the history has none: it would have cried wolf.
    pub false_alarms: usize,
    /// Of them, those that it could not have decided.
    pub undecided: usize,
}

/// All that a gate says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What stands above everything else: that times are not those of hardware.
    pub caution: Option<String>,
    /// The plan.
    pub plan: String,
    /// The new runs.
    pub runs: Vec<KeptRun>,
    /// The answer over all checks.
    pub answer: GateAnswer,
    /// It in a sentence.
    pub sentence: String,
    /// Each metric of each arm, the worst first.
    pub checks: Vec<GateCheck>,
    /// All checks together over the kept past.
    pub past: GatePast,
}
