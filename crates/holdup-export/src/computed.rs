//! The tables that analysis computes: comparisons, summaries, the account.

use holdup_model::outcome::{Contrast, Estimate};
use holdup_model::table::{Cell, Table, TableKind};
use holdup_model::{Analysis, BundleData, Comparison, Explanation, Verdict};
use serde::Serialize;

/// What analysis makes of a bundle.
pub struct Computed<'a> {
    pub bundle: &'a BundleData,
    /// Its comparisons and summaries.
    pub analysis: &'a Analysis,
    /// Its accounts.
    pub explanation: &'a Explanation,
}

/// A table of a kind that has no query; `None` for an unknown one.
pub fn computed(kind: &TableKind, from: &Computed<'_>) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = match kind.name.as_str() {
        "comparisons" => from.analysis.comparisons.iter().map(comparison).collect(),
        "summaries" => summaries(from.bundle, from.analysis),
        "account" => account(from.explanation),
        _ => return None,
    };
    let mut table = Table::new(&kind.name, kind.columns.clone());
    for row in rows {
        table.push(row).ok()?;
    }
    Some(table)
}

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

fn maybe<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::Missing, cell)
}

/// The word that JSON has for a value of an enumeration.
fn word(value: impl Serialize) -> Cell {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Cell::Text(word),
        _ => Cell::Missing,
    }
}

/// `low`, `high`, `confidence`, `n` and `method`.
fn interval(estimate: Option<&Estimate>) -> [Cell; 5] {
    [
        maybe(estimate.map(|e| e.low), Cell::Float),
        maybe(estimate.map(|e| e.high), Cell::Float),
        maybe(estimate.map(|e| e.confidence), Cell::Float),
        maybe(estimate.map(|e| i64::from(e.n)), Cell::Integer),
        maybe(estimate.map(|e| e.method.clone()), Cell::Text),
    ]
}

fn comparison(c: &Comparison) -> Vec<Cell> {
    let (kind, factor, sides) = match &c.contrast {
        Contrast::Factor { factor, baseline, level } => ("factor", Some(factor), Some((baseline, level))),
        Contrast::Axis { axis, baseline, level } => ("axis", Some(axis), Some((baseline, level))),
        Contrast::Same => ("same", None, None),
        Contrast::Unobserved => ("unobserved", None, None),
        Contrast::Named { baseline, level } => ("named", None, Some((baseline, level))),
    };
    let cell: Vec<String> = c.cell.iter().map(|(name, label)| format!("{name}={label}")).collect();
    let (answer, reason, needed) = match &c.verdict {
        Verdict::Different => ("different", None, None),
        Verdict::Equivalent => ("equivalent", None, None),
        Verdict::Undecided { reason, blocks_needed } => ("undecided", Some(reason), *blocks_needed),
    };
    let mut row = vec![
        text(&c.workload),
        text(&c.metric.id),
        text(&c.metric.unit),
        word(c.metric.better),
        text(kind),
        maybe(factor, text),
        maybe(sides.map(|s| s.0), text),
        maybe(sides.map(|s| s.1), text),
        text(cell.join(", ")),
        Cell::Boolean(c.pooled),
        Cell::Boolean(c.headline),
        Cell::Boolean(c.primary),
        maybe(c.ratio.as_ref().map(|e| e.value), Cell::Float),
    ];
    row.extend(interval(c.ratio.as_ref()));
    row.extend([
        maybe(c.noise_floor, Cell::Float),
        maybe(c.p_adjusted, Cell::Float),
        text(answer),
        maybe(reason, text),
        maybe(needed, |n| Cell::Integer(i64::from(n))),
    ]);
    row
}

fn summaries(bundle: &BundleData, analysis: &Analysis) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for summary in &analysis.arms {
        let Some(arm) = bundle.schedule.arms.iter().find(|a| a.id == summary.arm) else { continue };
        for metric in &summary.metrics {
            let mut row = vec![
                Cell::Integer(i64::from(arm.id)),
                text(&arm.label),
                text(&arm.workload),
                maybe(arm.replica, word),
                text(&metric.metric),
                maybe(metric.value, Cell::Float),
                maybe(metric.absent.as_ref(), text),
                maybe(metric.mean.as_ref().map(|e| e.value), Cell::Float),
            ];
            row.extend(interval(metric.mean.as_ref()));
            row.extend([summary.trials_done, summary.trials_void].map(|n| Cell::Integer(i64::from(n))));
            rows.push(row);
        }
    }
    rows
}

fn account(explanation: &Explanation) -> Vec<Vec<Cell>> {
    let accounts = explanation.arms.iter().filter_map(|arm| Some((arm, arm.account.as_ref()?)));
    let rows = accounts.flat_map(|(arm, account)| {
        account.states.iter().map(move |state| {
            vec![
                Cell::Integer(i64::from(arm.arm)),
                text(&arm.label),
                text(&account.of),
                text(&state.name),
                word(state.class),
                Cell::Float(state.share),
                maybe(state.low, Cell::Float),
                maybe(state.high, Cell::Float),
                Cell::Float(state.time_s),
                Cell::Float(state.sessions),
            ]
        })
    });
    rows.collect()
}
