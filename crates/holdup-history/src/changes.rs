//! Where series changed, and which changes for the worse are open.

use crate::series::{Series, Split, series};
use crate::{threads, words};
use holdup_model::Direction;
use holdup_model::kept::{ChangedSeries, KeptChange, KeptHistory, KeptRun, KeptSeries, OpenRegression};
use holdup_stats::change_points::{Change, ChangeOptions, change_points_of_long};
use std::collections::BTreeSet;

/// The chance that the history of a plan names any change where there is none, for runs that do not depend on each other.
pub(crate) const FALSE_ALARMS: f64 = 0.05;

/// The history of what was kept: all series with their changes. What of the environment changed with them is added by
/// [`named`](crate::named).
pub fn history(kept: &KeptSeries, split: Split) -> KeptHistory {
    let all = series(kept, split);
    let level = FALSE_ALARMS / all.len().max(1) as f64;
    let series: Vec<ChangedSeries> = threads::map(&all, |one| look(one, level));
    let mut history =
        KeptHistory { caution: caution(&kept.runs), runs: kept.runs.clone(), findings: Vec::new(), series };
    history.findings = words::findings(&history);
    history
}

/// What stands above what is said of times that are not those of hardware.
pub(crate) fn caution(runs: &[KeptRun]) -> Option<String> {
    let kinds: BTreeSet<&str> = runs.iter().filter_map(|run| run.emulated.as_deref()).collect();
    if kinds.is_empty() {
        return None;
    }
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let some = if runs.iter().all(|run| run.emulated.is_some()) { "Times" } else { "Times of some runs" };
    Some(format!(
        "{some} here are {}, not those of hardware: orderings and event counts may be compared, absolute times may not.",
        holdup_model::text::list(&kinds)
    ))
}

/// Runs of a level: three of a short history, or it could not be looked at; five of a longer one, in which three odd runs in a row
/// come by chance.
fn least_runs(runs: usize) -> usize {
    if runs < SHORT { 3 } else { ChangeOptions::default().min_segment }
}

/// A history of fewer runs is short.
const SHORT: usize = 20;

pub(crate) fn options(alpha: f64) -> ChangeOptions {
    ChangeOptions {
        alpha,
        permutations: (10.0 / alpha).ceil().clamp(199.0, 19_999.0) as u32,
        ..ChangeOptions::default()
    }
}

fn look(series: &Series, alpha: f64) -> ChangedSeries {
    let values = series.values();
    let options = ChangeOptions { min_segment: least_runs(values.len()), ..options(alpha) };
    let found = change_points_of_long(&values, options);
    let (changes, absent) = match found {
        Ok(found) => (found, None),
        Err(no) => (Vec::new(), Some(no.reason)),
    };
    let changes: Vec<KeptChange> = changes
        .into_iter()
        .map(|c| KeptChange {
            at: c.index,
            at_low: c.index_low,
            at_high: c.index_high,
            p: c.p,
            is_worse: is_worse(series.metric.better, c.before, c.after),
            ratio: match c.change {
                Change::Ratio(ratio) => Some(ratio),
                Change::Difference(_) | Change::Unknown(_) => None,
            },
            environment: Vec::new(),
        })
        .collect();
    let open = open(series, &values, &changes);
    ChangedSeries {
        key: series.key.clone(),
        metric: series.metric.clone(),
        margin: series.margin,
        runs: series.runs.clone(),
        values,
        changes,
        open,
        absent,
    }
}

fn is_worse(better: Direction, before: f64, after: f64) -> Option<bool> {
    if before == after {
        return None;
    }
    Some((after < before) == (better == Direction::Higher))
}

/// The earliest change for the worse whose level before is still missed by more than the margin.
fn open(series: &Series, values: &[f64], changes: &[KeptChange]) -> Option<OpenRegression> {
    let edges: Vec<usize> =
        std::iter::once(0).chain(changes.iter().map(|c| c.at)).chain(std::iter::once(values.len())).collect();
    let levels: Vec<f64> = edges.windows(2).map(|edge| level(&values[edge[0]..edge[1]])).collect();
    let now = *levels.last()?;
    let loss = |before: f64| match series.metric.better {
        Direction::Higher => before / now - 1.0,
        Direction::Lower => now / before - 1.0,
    };
    // A later change for the worse from a lower level is part of an earlier one that is open.
    let is_open = |i: &usize| {
        let before = levels[*i];
        changes[*i].is_worse == Some(true) && before > 0.0 && now > 0.0 && loss(before) > series.margin
    };
    let change = (0..changes.len()).find(is_open)?;
    Some(OpenRegression { change, ratio: now / levels[change], runs: values.len() - changes[change].at })
}

/// The geometric mean, or the arithmetic one where there is none.
pub(crate) fn level(values: &[f64]) -> f64 {
    holdup_stats::geometric_mean(values).unwrap_or_else(|| values.iter().sum::<f64>() / values.len().max(1) as f64)
}
