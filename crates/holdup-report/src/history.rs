//! Several runs of the same arms, for a terminal and as JSON.

use crate::formats::terminal::{TerminalOptions, caution, findings_alone};
use crate::screen::cut;
use crate::text::{self, clean};
use holdup_model::outcome::{History, HistorySeries};
use serde_json::json;

/// The runs in a table; of a longer history the newest.
const RUNS: usize = 40;

/// A history for a terminal: what changed, then each arm's values from run to run.
pub fn history_terminal(history: &History, options: &TerminalOptions) -> String {
    let (first, last) = (history.runs.first(), history.runs.last());
    let moment = |run: Option<&holdup_model::outcome::HistoryRun>| {
        run.map(|r| text::moment(r.created_unix_ns)).unwrap_or_default()
    };
    let mut out = caution(history.caution.as_deref(), options);
    out.push_str(&format!("{} from {} to {}\n", text::count(history.runs.len(), "run"), moment(first), moment(last)));
    out.push_str(&findings_alone(&history.findings, options));
    // Beside the pooled series an arm is shown when it changed by itself; few arms are all shown.
    let pooled = history.series.first().map(|s| s.arm.as_str());
    let is_few = history.series.len() < 5;
    let is_shown = |s: &&HistorySeries| is_few || Some(s.arm.as_str()) == pooled || !s.changes.is_empty();
    for series in history.series.iter().filter(is_shown) {
        let [workload, arm, metric, unit] =
            [&series.workload, &series.arm, &series.metric.id, &series.metric.unit].map(|text| clean(text));
        out.push_str(&format!("\n{workload}: {arm}, {metric} ({unit})\n"));
        out.push_str(&table(history, series));
    }
    if options.details { out } else { cut(out) }
}

fn table(history: &History, series: &HistorySeries) -> String {
    let skipped = history.runs.len().saturating_sub(RUNS);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let largest = series.values.iter().flatten().copied().fold(0.0, f64::max);
    for (i, (run, value)) in history.runs.iter().zip(&series.values).enumerate().skip(skipped) {
        let mark = match series.changes.iter().find(|c| c.run == i) {
            Some(change) => change
                .ratio
                .as_ref()
                .map_or_else(|| "changes here".to_owned(), |r| format!("changes here: {}", text::ratio(r))),
            None => String::new(),
        };
        let bar = value
            .filter(|_| largest > 0.0)
            .map(|v| "▪".repeat((v / largest * 10.0).round() as usize))
            .unwrap_or_default();
        let value = value.map_or_else(|| "–".to_owned(), text::number);
        rows.push(vec![format!("{:>4}", i + 1), clean(&run.name), value, bar, mark]);
    }
    let mut out = text::align(&rows, &[1, 3, 4], "");
    if skipped > 0 {
        out.insert_str(0, &format!("      … {} before\n", text::count(skipped, "run")));
    }
    out
}

/// A history as one JSON document of schema `holdup.history/1`.
pub fn history_json(history: &History) -> String {
    crate::formats::json::pretty(&json!({
        "schema": "holdup.history/1",
        "caution": history.caution,
        "runs": history.runs,
        "findings": history.findings,
        "series": history.series,
    }))
}
