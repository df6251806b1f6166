//! Kept values by what they share.

use holdup_model::Metric;
use holdup_model::kept::{KeptMetric, KeptRun, KeptSeries, KeptValue, SeriesKey};
use std::collections::BTreeMap;

/// What splits series beside host, target, workload and arm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split {
    /// A new kernel begins a new series, instead of being what changed.
    pub kernel: bool,
    /// So does a new version of PostgreSQL.
    pub server: bool,
}

/// One metric of one arm over the runs that have it.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) key: SeriesKey,
    pub(crate) metric: Metric,
    pub(crate) margin: f64,
    /// Places in the list of runs, oldest first.
    pub(crate) runs: Vec<usize>,
    pub(crate) kept: Vec<KeptMetric>,
}

impl Series {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.kept.iter().map(|k| k.mean).collect()
    }
}

/// The key of a value of a run.
pub(crate) fn key(run: &KeptRun, value: &KeptValue, split: Split) -> SeriesKey {
    let emulated = run.emulated.as_ref().map_or_else(String::new, |what| format!(", {what}"));
    SeriesKey {
        plan: run.plan.clone(),
        workload: value.workload.clone(),
        metric: value.value.metric.id.clone(),
        arm: value.arm.clone(),
        host: run.host.clone(),
        target: format!("{}{emulated}", run.target),
        kernel: run.kernel.clone().filter(|_| split.kernel),
        server: run.server.clone().filter(|_| split.server),
        design: value.design.clone(),
    }
}

/// All series, by their keys.
pub(crate) fn series(kept: &KeptSeries, split: Split) -> Vec<Series> {
    let mut all: BTreeMap<SeriesKey, Series> = BTreeMap::new();
    for value in &kept.values {
        let key = key(&kept.runs[value.run], value, split);
        let series = all.entry(key).or_insert_with_key(|key| Series {
            key: key.clone(),
            metric: value.value.metric.clone(),
            margin: value.value.margin,
            runs: Vec::new(),
            kept: Vec::new(),
        });
        // What the newest run says of the metric holds.
        series.metric.clone_from(&value.value.metric);
        series.margin = value.value.margin;
        series.runs.push(value.run);
        series.kept.push(value.value.clone());
    }
    all.into_values().collect()
}
