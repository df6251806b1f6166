//! What is known of each arm.

use crate::index::Index;
use holdup_model::outcome::{ArmEvidence, ArmMetric, ArmSummary, QuantileValue};
use holdup_model::{Collected, Histogram, Measured, Trial};
use holdup_stats::{BlockValue, CONFIDENCE, TABLE_QUANTILES, geometric_mean, mean_over_blocks, quantile_table};
use std::collections::BTreeMap;

/// What is known of each arm of a bundle, in order.
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

/// In how many trials a collector looked for a kind of item and could have seen it: those in which it saw
/// something at all and did not call the item absent. A label that did not occur there is an observed zero.
fn looked_for(trials: &[&Trial], collector: &str, name: &str) -> usize {
    let could_see = |c: &&Collected| {
        c.collector == collector
            && c.coverage.seen > 0
            && !c.items.iter().any(|i| i.name == name && matches!(i.value, Measured::Absent(_)))
    };
    trials.iter().filter(|t| t.evidence.iter().any(|c| could_see(&c))).count()
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
            let mut n = gathered.values.len();
            if label.is_some() && n > 0 {
                n = n.max(looked_for(trials, &collector, &name));
            }
            let mean = (n > 0).then(|| gathered.values.iter().sum::<f64>() / n as f64);
            let absent = if n > 0 { None } else { gathered.absent };
            ArmEvidence { collector, name, label, unit, mean, absent }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::{Coverage, EvidenceItem, SelfCost, TrialStatus, Window};

    fn trial(items: Vec<EvidenceItem>, seen: u64) -> Trial {
        let coverage = Coverage { seen, lost: 0, notes: Vec::new() };
        Trial {
            seq: 0,
            session: 0,
            boot: 0,
            block: 0,
            position: 0,
            arm: 0,
            attempt: 0,
            status: TrialStatus::Done,
            started_unix_ns: 0,
            ended_unix_ns: 0,
            window: Some(Window { begin_unix_ns: 0, end_unix_ns: 2_000_000_000, length_ns: 2_000_000_000 }),
            measurements: Vec::new(),
            histograms: Vec::new(),
            evidence: vec![Collected {
                collector: "waits".to_owned(),
                items,
                coverage,
                cost: SelfCost::default(),
                ..Collected::default()
            }],
            environment_before: Vec::new(),
            environment_moved: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_label_that_did_not_occur_counts_as_zero_only_where_it_was_looked_for() {
        let rare = EvidenceItem::labelled("share", "LWLock:WALWrite", "share", 0.3);
        let common = EvidenceItem::labelled("share", "CPU", "share", 1.0);
        let trials = [
            trial(vec![rare], 20),
            trial(vec![common.clone()], 20),
            trial(vec![common], 20),
            trial(vec![EvidenceItem::absent("share", "share", "the server was gone")], 0),
        ];
        let means: Vec<(Option<String>, Option<f64>)> =
            evidence(&trials.iter().collect::<Vec<_>>()).into_iter().map(|e| (e.label, e.mean)).collect();
        let of = |label: Option<&str>| means.iter().find(|(l, _)| l.as_deref() == label).and_then(|(_, m)| *m);
        assert!(of(Some("LWLock:WALWrite")).is_some_and(|m| (m - 0.1).abs() < 1e-12), "{means:?}");
        assert!(of(Some("CPU")).is_some_and(|m| (m - 2.0 / 3.0).abs() < 1e-12), "{means:?}");
        assert_eq!(of(None), None, "absent stays absent");
    }
}
