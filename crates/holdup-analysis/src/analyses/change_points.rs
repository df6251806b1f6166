//! Whether something on the host changed at some moment of the run.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta};
use holdup_stats::change_points::{Change, ChangeOptions, change_points};
use holdup_stats::geometric_mean;
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "change-points",
    summary: "whether results of all arms changed at some moment of the run",
    docs: "The mean of each arm is taken out and what is left is put in the order run. E-divisive (Matteson and James) looks \
           for places where its distribution changes, with a permutation test at 1 %. A change says that something beside \
           the arms happened: a neighbour came, a governor switched, a cache filled. Pairing by block takes most of it out of \
           the ratios; means of single arms carry it.",
    references: &["docs/statistics.md"],
};

/// A note is made below this p, as for drift.
const ALPHA: f64 = 0.01;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    context.bundle().plan.workloads.iter().filter_map(|w| look(context, &w.name)).collect()
}

fn look(context: &Context<'_>, workload: &str) -> Option<Finding> {
    let (metric, _) = context.index.metrics(workload).into_iter().next()?;
    let mut by_arm: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut order: Vec<(u32, u32, f64)> = Vec::new();
    for arm in context.index.arms().filter(|a| a.workload == workload) {
        for (value, seq) in context.index.values(arm.id, &metric.id) {
            by_arm.entry(arm.id).or_default().push(value.value);
            order.push((seq, arm.id, value.value));
        }
    }
    order.sort_by_key(|(seq, _, _)| *seq);
    let means: BTreeMap<u32, f64> =
        by_arm.iter().filter_map(|(arm, values)| geometric_mean(values).map(|m| (*arm, m))).collect();
    let residuals: Vec<f64> = order.iter().filter_map(|(_, arm, value)| means.get(arm).map(|m| value / m)).collect();
    let trials: Vec<u32> = order.iter().map(|(seq, _, _)| *seq).collect();
    let name = words::metric_name(&metric);
    if residuals.len() < order.len() {
        let sentence =
            format!("Changes during the run were not looked for in {name} of {workload}: a value has no logarithm.");
        return Some(Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) });
    }
    let options = ChangeOptions { alpha: ALPHA, permutations: 499, ..ChangeOptions::default() };
    let found = match change_points(&residuals, options) {
        Ok(found) => found,
        Err(no) => {
            let sentence =
                format!("Changes during the run were not looked for in {name} of {workload}: {}.", no.reason);
            return Some(Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) });
        }
    };
    if found.is_empty() {
        let sentence =
            format!("No sudden change: {name} of {workload} kept its level over {} trials, in all arms.", trials.len());
        return Some(Finding { trials, ..note(&META, FindingVerdict::Refuted, sentence) });
    }
    let changes: Vec<String> = found
        .iter()
        .map(|c| {
            let size = match &c.change {
                Change::Ratio(ratio) => words::ratio_short(ratio),
                Change::Difference(_) | Change::Unknown(_) => "by an unknown ratio".to_owned(),
            };
            let (low, high) = (trials[c.index_low], trials[c.index_high]);
            let place = if low == high { String::new() } else { format!("between {low} and {high}; ") };
            format!("{size} from trial {} on ({place}p {:.3})", trials[c.index], c.p)
        })
        .collect();
    let sentence =
        format!("Something changed during the run: {name} of {workload}, in all arms, {}.", words::list(&changes));
    Some(Finding { trials, ..note(&META, FindingVerdict::Supported, sentence) })
}
