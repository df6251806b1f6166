//! What is known of each arm.

use crate::index::Index;
use holdup_model::outcome::{ArmEvidence, ArmMetric, ArmSummary, QuantileValue};
use holdup_model::{BundleData, Histogram, Measured, Trial};
use holdup_stats::{BlockValue, CONFIDENCE, TABLE_QUANTILES, geometric_mean, mean_over_blocks, quantile_table};
use std::collections::BTreeMap;

/// What is known of each arm of a bundle, in order.
pub fn arm_summaries(bundle: &BundleData) -> Vec<ArmSummary> {
    summaries(&Index::new(bundle))
}

pub(crate) fn summaries(index: &Index<'_>) -> Vec<ArmSummary> {
    let mut void: BTreeMap<u32, u32> = BTreeMap::new();
    for trial in index.bundle.trials.iter().filter(|t| !t.is_done()) {
        *void.entry(trial.arm).or_default() += 1;
    }
    index
        .arms()
        .map(|arm| ArmSummary {
            arm: arm.id,
            trials_done: u32::try_from(index.done(arm.id).len()).unwrap_or(u32::MAX),
            trials_void: void.get(&arm.id).copied().unwrap_or(0),
            metrics: index.metrics(&arm.workload).into_iter().map(|(m, _)| metric(index, arm.id, m.id)).collect(),
            quantiles: quantiles(index.done(arm.id)),
            evidence: evidence(index.done(arm.id)),
        })
        .collect()
}

fn metric(index: &Index<'_>, arm: u32, id: String) -> ArmMetric {
    let values: Vec<BlockValue> = index.values(arm, &id).into_iter().map(|(v, _)| v).collect();
    if values.is_empty() {
        let absent = Some(index.why_absent(arm, &id));
        return ArmMetric { metric: id, value: None, mean: None, absent };
    }
    let plain: Vec<f64> = values.iter().map(|v| v.value).collect();
    let arithmetic = plain.iter().sum::<f64>() / plain.len() as f64;
    match mean_over_blocks(&values, CONFIDENCE) {
        Ok(mean) => ArmMetric { metric: id, value: Some(mean.value), mean: Some(mean), absent: None },
        Err(no) => {
            let value = geometric_mean(&plain).unwrap_or(arithmetic);
            ArmMetric { metric: id, value: value.is_finite().then_some(value), mean: None, absent: Some(no.reason) }
        }
    }
}

fn quantiles(trials: &[&Trial]) -> BTreeMap<String, Vec<QuantileValue>> {
    let mut whole: BTreeMap<String, Histogram> = BTreeMap::new();
    for named in trials.iter().flat_map(|t| &t.histograms) {
        whole.entry(named.name.clone()).or_default().add(&named.histogram);
    }
    whole.into_iter().map(|(name, h)| (name, quantile_table(&h, &TABLE_QUANTILES))).collect()
}

/// Evidence of one kind over the trials of an arm.
#[derive(Default)]
struct Gathered {
    values: Vec<f64>,
    absent: Option<String>,
}

/// Means over the trials; counts (unit `1`) are turned into rates by each trial's window.
fn evidence(trials: &[&Trial]) -> Vec<ArmEvidence> {
    let mut all: BTreeMap<(String, String, Option<String>, String), Gathered> = BTreeMap::new();
    for trial in trials {
        let seconds = trial.window.map(|w| w.length_ns as f64 / 1e9).filter(|s| *s > 0.0);
        for collected in &trial.evidence {
            for item in &collected.items {
                let counts = item.unit == "1";
                let unit = if counts { "1/s".to_owned() } else { item.unit.clone() };
                let key = (collected.collector.clone(), item.name.clone(), item.label.clone(), unit);
                let gathered = all.entry(key).or_default();
                match (&item.value, counts, seconds) {
                    (Measured::Value(v), false, _) if v.is_finite() => gathered.values.push(*v),
                    (Measured::Value(v), true, Some(s)) if (v / s).is_finite() => gathered.values.push(v / s),
                    (Measured::Value(_), true, None) => gathered.absent = Some("the window has no length".to_owned()),
                    (Measured::Value(v), _, _) => gathered.absent = Some(format!("not a finite number ({v})")),
                    (Measured::Absent(why), _, _) => gathered.absent = Some(why.clone()),
                }
            }
        }
    }
    all.into_iter()
        .map(|((collector, name, label, unit), gathered)| {
            let n = gathered.values.len();
            let mean = (n > 0).then(|| gathered.values.iter().sum::<f64>() / n as f64);
            let absent = if n > 0 { None } else { gathered.absent };
            ArmEvidence { collector, name, label, unit, mean, absent }
        })
        .collect()
}
