//! Every trial in the order run, so that drift can be seen.

use super::{Chart, Row, Table, short};
use crate::series::{Layout, Names, is_primary};
use crate::text::{self, clean};
use holdup_model::{BundleData, Trial, TrialStatus};
use serde_json::{Value, json};

/// The trials of a workload: its primary metric against the mean of the same arm.
pub(crate) fn chart(bundle: &BundleData, layout: &Layout<'_>, names: &Names, at: usize) -> Option<Chart> {
    let metric = layout.metrics.first().filter(|m| is_primary(&bundle.plan, &layout.workload.name, &m.id));
    let unit = metric.map_or_else(String::new, |m| crate::tables::metric(m));
    let mut table = Table {
        head: [
            ("trial", true),
            ("session", true),
            ("block", true),
            ("arm", false),
            (unit.as_str(), true),
            ("against its arm's mean", true),
            ("counts", false),
        ]
        .map(|(h, n)| (h.to_owned(), n))
        .into(),
        rows: Vec::new(),
    };
    let mut points: Vec<Value> = Vec::new();
    for trial in &bundle.trials {
        let Some(placed) = layout.arms.iter().find(|a| a.arm.id == trial.arm) else { continue };
        let value = metric.and_then(|m| trial.metric(&m.id));
        let mean = metric.and_then(|m| placed.metric(&m.id)).and_then(|m| m.value).filter(|m| *m != 0.0);
        let share = value.zip(mean).map(|(v, m)| v / m);
        let void = match &trial.status {
            TrialStatus::Done => None,
            TrialStatus::Void { reason } => Some(clean(reason)),
        };
        let cell = layout.cell_name((placed.panel, placed.x));
        points.push(json!({
            "seq": trial.seq, "block": trial.block, "session": trial.session, "series": placed.series, "cell": cell,
            "place": placed.x.unwrap_or(0), "share": share.map(short), "void": void,
            "text": value.map(|v| format!("{} {}", text::number(v), metric.map_or("", |m| m.unit.as_str()))),
        }));
        table.rows.push(row(trial, &format!("{cell}, {}", names.0[placed.series].text), value, share));
    }
    (!points.is_empty()).then(|| Chart {
        id: format!("order-{at}"),
        kind: "order",
        title: format!("{}: every trial in the order run", clean(&layout.workload.name)),
        context: String::new(),
        note: String::new(),
        data: json!({ "points": points, "blocks": blocks(bundle), "unit": unit }),
        table,
    })
}

fn counts(trial: &Trial) -> String {
    match &trial.status {
        TrialStatus::Done if trial.attempt == 0 => "yes".to_owned(),
        TrialStatus::Done => format!("yes, repeat {}", trial.attempt),
        TrialStatus::Void { reason } => format!("void: {}", clean(reason)),
    }
}

fn row(trial: &Trial, arm: &str, value: Option<f64>, share: Option<f64>) -> Row {
    Row {
        id: format!("trial-{}", trial.seq),
        void: !trial.is_done(),
        cells: vec![
            trial.seq.to_string(),
            trial.session.to_string(),
            trial.block.to_string(),
            arm.to_owned(),
            value.map_or_else(|| "–".to_owned(), text::number),
            share.map_or_else(|| "–".to_owned(), |s| format!("×{s:.3}")),
            counts(trial),
        ],
    }
}

/// The windows of a record, with the places that links to them lead to.
pub(crate) fn windows(bundle: &BundleData) -> Table {
    let head = [("window", true), ("begin", false), ("length", true), ("counts", false)];
    let mut table = Table { head: head.map(|(h, n)| (h.to_owned(), n)).into(), rows: Vec::new() };
    for trial in &bundle.trials {
        let [begin, length] = match trial.window {
            Some(w) => [text::moment(w.begin_unix_ns), text::duration(w.length_ns)],
            None => ["–", "–"].map(str::to_owned),
        };
        table.rows.push(Row {
            id: format!("trial-{}", trial.seq),
            void: !trial.is_done(),
            cells: vec![trial.seq.to_string(), begin, length, counts(trial)],
        });
    }
    table
}

/// Where each block begins and ends, by the trials of all workloads.
fn blocks(bundle: &BundleData) -> Vec<Value> {
    let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
    for trial in &bundle.trials {
        match blocks.last_mut() {
            Some((block, _, last)) if *block == trial.block => *last = trial.seq,
            _ => blocks.push((trial.block, trial.seq, trial.seq)),
        }
    }
    blocks.iter().map(|(block, first, last)| json!({"block": block, "first": first, "last": last})).collect()
}
