//! Several runs of the same plan: where results changed from one to the next.

use crate::analyses::{change_points::META, note};
use crate::index::Index;
use crate::named::changed_facts;
use crate::words;
use holdup_model::outcome::{FindingVerdict, History, HistoryChange, HistoryRun, HistorySeries};
use holdup_model::{BundleData, Direction, Finding, Metric, Problem};
use holdup_stats::change_points::{Change, ChangeOptions, ChangePoint, change_points};
use holdup_stats::geometric_mean;
use std::collections::BTreeMap;

/// Finds the changes in the primary metric of every arm over several runs, put in the order in which they were begun.
/// Runs are named by the first of each pair, for the reader.
///
/// All arms of a workload are looked at together first, at 5 %; then each arm alone, at 5 % by the number of arms
/// (Bonferroni), which with few runs none can reach.
///
/// # Errors
/// With fewer than three runs, the same run twice, times of different kinds of machine, or no arm in common.
pub fn history(bundles: &[(String, BundleData)]) -> Result<History, Problem> {
    let mut sorted: Vec<&(String, BundleData)> = bundles.iter().collect();
    sorted.sort_by_key(|(_, b)| (b.head.created_unix_ns, b.head.run_id.clone()));
    check(&sorted)?;
    let runs = sorted
        .iter()
        .map(|(name, b)| HistoryRun {
            name: name.clone(),
            run_id: b.head.run_id.clone(),
            created_unix_ns: b.head.created_unix_ns,
        })
        .collect::<Vec<_>>();
    let indices: Vec<Index<'_>> = sorted.iter().map(|(_, b)| Index::new(b)).collect();
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for (i, index) in indices.iter().enumerate() {
        for arm in index.arms().filter(|a| a.replica.is_none()) {
            let Some((metric, _)) = index.metrics(&arm.workload).into_iter().next() else { continue };
            let values: Vec<f64> = index.values(arm.id, &metric.id).iter().map(|(v, _)| v.value).collect();
            let key = (arm.workload.clone(), arm.label.clone());
            let row = rows.entry(key).or_insert_with(|| (metric.clone(), vec![None; runs.len()]));
            if row.0.id == metric.id {
                row.1[i] = geometric_mean(&values);
            }
        }
    }
    rows.retain(|_, (_, values)| values.iter().flatten().count() >= 2);
    if rows.is_empty() {
        return Err(
            Problem::usage("the bundles", "have no arm in common").hint("holdup list arms FILE shows the arms of each")
        );
    }
    let pooled = pooled(&rows, runs.len());
    let (arms, workloads) = (rows.len() as f64, pooled.len() as f64);
    let pooled = pooled.into_iter().map(|(workload, row)| ((workload, ALL_ARMS.to_owned()), row, workloads));
    let rows = rows.into_iter().map(|(key, row)| (key, row, arms));
    let series: Vec<HistorySeries> = pooled
        .chain(rows)
        .map(|((workload, arm), (metric, values), tests)| {
            let found = changes(&values, tests);
            let changes = found.as_deref().unwrap_or_default();
            let changes = changes.iter().map(|(c, at)| change(c, at, &sorted)).collect();
            HistorySeries { workload, arm, metric, values, changes, absent: found.err() }
        })
        .collect();
    // All runs are of one kind of machine, see `check`.
    let caution = sorted.first().and_then(|(_, bundle)| words::caution(&bundle.head));
    Ok(History { caution, findings: findings(&runs, &series), runs, series })
}

fn check(sorted: &[&(String, BundleData)]) -> Result<(), Problem> {
    if sorted.len() < 3 {
        return Err(Problem::usage(format!("{} bundles", sorted.len()), "a history needs at least three"));
    }
    for pair in sorted.windows(2) {
        let ((a_name, a), (b_name, b)) = (pair[0], pair[1]);
        if a.head.run_id == b.head.run_id {
            return Err(Problem::usage(format!("{a_name} and {b_name}"), "are the same run"));
        }
        if a.head.emulated != b.head.emulated {
            return Err(Problem::usage(format!("{a_name} and {b_name}"), "have times of different kinds of machine")
                .hint("compare runs of the same kind of machine"));
        }
    }
    Ok(())
}

/// The name of the series that pools the arms of a workload.
const ALL_ARMS: &str = "all arms";

/// An arm's metric, and its value in each run.
type Row = (Metric, Vec<Option<f64>>);

/// The geometric mean over the arms of each workload that has several, where a run has them all.
fn pooled(rows: &BTreeMap<(String, String), Row>, runs: usize) -> Vec<(String, Row)> {
    let mut workloads: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for ((workload, _), row) in rows {
        workloads.entry(workload).or_default().push(row);
    }
    workloads.retain(|_, rows| rows.len() > 1);
    workloads
        .into_iter()
        .map(|(workload, rows)| {
            let value = |run: usize| {
                let values: Option<Vec<f64>> = rows.iter().map(|(_, values)| values[run]).collect();
                geometric_mean(&values?)
            };
            (workload.to_owned(), (rows[0].0.clone(), (0..runs).map(value).collect()))
        })
        .collect()
}

/// The changes among the runs that have a value, each with those runs' numbers.
fn changes(values: &[Option<f64>], tests: f64) -> Result<Vec<(ChangePoint, Vec<usize>)>, String> {
    let (at, present): (Vec<usize>, Vec<f64>) =
        values.iter().enumerate().filter_map(|(i, v)| v.map(|v| (i, v))).unzip();
    let alpha = 0.05 / tests.max(1.0);
    // Enough permutations that a p as small as the level can be had.
    let permutations = (20.0 / alpha).ceil().clamp(199.0, 9_999.0) as u32;
    let options = ChangeOptions { alpha, permutations, ..ChangeOptions::default() };
    match change_points(&present, options) {
        Ok(found) => Ok(found.into_iter().map(|c| (c, at.clone())).collect()),
        Err(no) => Err(no.reason),
    }
}

fn change(found: &ChangePoint, at: &[usize], sorted: &[&(String, BundleData)]) -> HistoryChange {
    HistoryChange {
        run: at[found.index],
        run_low: at[found.index_low],
        run_high: at[found.index_high],
        p: found.p,
        ratio: match &found.change {
            Change::Ratio(ratio) => Some(ratio.clone()),
            Change::Difference(_) | Change::Unknown(_) => None,
        },
        environment: changed_facts(&sorted[at[found.index - 1]].1, &sorted[at[found.index]].1),
    }
}

fn findings(runs: &[HistoryRun], series: &[HistorySeries]) -> Vec<Finding> {
    let headline = |verdict, sentence| Finding { headline: true, ..note(&META, verdict, sentence) };
    let mut findings: Vec<Finding> = Vec::new();
    for s in series {
        for c in &s.changes {
            let name = words::metric_name(&s.metric);
            let size = c.ratio.as_ref().map_or_else(|| "changed".to_owned(), words::ratio);
            let way = c.ratio.as_ref().map_or("", |r| {
                let better = (r.value > 1.0) == (s.metric.better == Direction::Higher);
                if better { ", better" } else { ", worse" }
            });
            let place = if c.run_low == c.run_high {
                String::new()
            } else {
                format!(", or between {} and {}", runs[c.run_low].name, runs[c.run_high].name)
            };
            let arm = if s.arm == ALL_ARMS { format!("{ALL_ARMS} of {}", s.workload) } else { s.arm.clone() };
            let (run, file) = (c.run + 1, &runs[c.run].name);
            let sentence = format!("{arm}: {name} {size}{way} from run {run} on ({file}{place}; p {:.4}).", c.p);
            let mut finding = headline(FindingVerdict::Supported, sentence);
            finding.details = match c.environment.as_slice() {
                [] => vec![
                    "No fact about the host that was recorded differs between the run before and this one.".to_owned(),
                ],
                facts => facts.iter().map(|f| format!("Changed with it: {f}.")).collect(),
            };
            findings.push(finding);
        }
    }
    let looked: Vec<&HistorySeries> = series.iter().filter(|s| s.absent.is_none()).collect();
    if findings.is_empty() && !looked.is_empty() {
        let sentence = format!("No change in {} over {} runs.", words::count(looked.len(), "arm"), runs.len());
        findings.push(headline(FindingVerdict::Refuted, sentence));
    }
    if let Some(why) = series.iter().find_map(|s| s.absent.clone()) {
        let count = series.len() - looked.len();
        let sentence = format!("Changes were not looked for in {}: {why}.", words::count(count, "arm"));
        findings.push(headline(FindingVerdict::Skipped, sentence));
    }
    findings
}
