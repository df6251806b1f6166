//! Ratios with their intervals, a row for each change: a forest plot with margin and noise floor.

use super::canvas::{self, Anchor, Sheet, cut};
use super::scale::{Scale, ratio, ratio_ticks, spaced};
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Data {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    workload: String,
    name: String,
    metric: String,
    better: String,
    value: f64,
    low: f64,
    high: f64,
    verdict: String,
    margin: f64,
    noise_floor: Option<f64>,
    text: String,
}

const ROW: f64 = 46.0;
const NAMES: f64 = 260.0;
const ANSWERS: f64 = 190.0;

impl Row {
    fn color(&self) -> &'static str {
        match self.verdict.as_str() {
            "undecided" => canvas::SOFT,
            "equivalent" => canvas::INK,
            _ if self.is_better() => canvas::GOOD,
            _ => canvas::BAD,
        }
    }

    fn is_better(&self) -> bool {
        (self.better == "higher") == (self.value > 1.0)
    }

    fn answer(&self) -> String {
        match self.verdict.as_str() {
            "different" if self.is_better() => "≠ different: better".to_owned(),
            "different" => "≠ different: worse".to_owned(),
            "equivalent" => "= equivalent".to_owned(),
            other => format!("~ {other}"),
        }
    }
}

pub(super) fn draw(chart: &Chart, data: &Data) -> Option<String> {
    let most = |of: fn(&Row) -> f64| data.rows.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let margin = most(|r| r.margin);
    if !margin.is_finite() {
        return None;
    }
    let low = (1.0 - 2.0 * margin).min(-most(|r| -r.low)) / 1.02;
    let high = (1.0 + 2.0 * margin).max(most(|r| r.high)) * 1.02;
    let domain = (low.max(0.05), high.min(20.0));
    let mut sheet = Sheet::new(chart, &[]);
    let (left, right) = (NAMES, canvas::WIDTH - ANSWERS);
    let (top, bottom) = (sheet.top, sheet.top + ROW * data.rows.len() as f64);
    let scale = Scale::log(domain, (left, right));
    for (i, row) in data.rows.iter().enumerate() {
        let y = top + ROW * (i as f64 + 0.5);
        let (from, to) = (scale.at(1.0 / (1.0 + row.margin)), scale.at(1.0 + row.margin));
        sheet.rect((from, y - 16.0), (to - from, 32.0), canvas::MARGIN, 1.0);
        if let Some(floor) = row.noise_floor {
            for end in [1.0 / (1.0 + floor), 1.0 + floor] {
                let x = scale.at(end);
                sheet.line((x, y - 16.0), (x, y + 16.0), canvas::SOFT, 1.0, "2 3");
            }
        }
    }
    sheet.line((scale.at(1.0), top), (scale.at(1.0), bottom), canvas::SOFT, 1.0, "none");
    for (i, row) in data.rows.iter().enumerate() {
        let y = top + ROW * (i as f64 + 0.5);
        sheet.text((left - 12.0, y - 3.0), Anchor::End, canvas::INK, &cut(&row.name, NAMES - 24.0));
        let of = format!("{}: {}", row.workload, row.metric);
        sheet.text((left - 12.0, y + 12.0), Anchor::End, canvas::SOFT, &cut(&of, NAMES - 24.0));
        sheet.line((scale.at(row.low), y), (scale.at(row.high), y), row.color(), 2.4, "none");
        for end in [row.low, row.high] {
            sheet.line((scale.at(end), y - 4.0), (scale.at(end), y + 4.0), row.color(), 2.4, "none");
        }
        sheet.dot((scale.at(row.value), y), 5.0, row.color());
        sheet.text((right + 12.0, y - 3.0), Anchor::Start, canvas::INK, &row.text);
        sheet.text((right + 12.0, y + 12.0), Anchor::Start, row.color(), &row.answer());
    }
    sheet.line((left, bottom), (right, bottom), canvas::SOFT, 1.0, "none");
    for tick in spaced(&ratio_ticks(domain), right - left, 46.0) {
        let x = scale.at(tick);
        sheet.line((x, bottom), (x, bottom + 4.0), canvas::SOFT, 1.0, "none");
        sheet.text((x, bottom + 17.0), Anchor::Middle, canvas::INK, &ratio(tick));
    }
    sheet.text(((left + right) / 2.0, bottom + 35.0), Anchor::Middle, canvas::SOFT, "ratio to the baseline");
    if data.rows.iter().any(|r| r.noise_floor.is_some()) {
        sheet.add_note("Dotted: the noise floor of the run.");
    }
    Some(sheet.finish(bottom + 42.0))
}
