//! Where the time of all CPUs went: a bar for each arm.

use super::canvas::{self, Anchor, Sheet, cut};
use super::scale::Scale;
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Data {
    bars: Vec<Bar>,
    kinds: Vec<String>,
}

#[derive(Deserialize)]
struct Bar {
    cell: String,
    name: String,
    kind: String,
    share: f64,
}

const COLORS: [&str; 8] = ["#0072b2", "#56b4e9", "#d55e00", "#f0e442", "#e69f00", "#009e73", "#cc79a7", "#999999"];
const NAMES: f64 = 210.0;
const ROW: f64 = 20.0;

pub(super) fn draw(chart: &Chart, data: &Data) -> Option<String> {
    let mut arms: Vec<(&str, &str)> = Vec::new();
    for bar in &data.bars {
        if !arms.contains(&(&bar.cell, &bar.name)) {
            arms.push((&bar.cell, &bar.name));
        }
    }
    let kinds = || data.kinds.iter().zip(COLORS).filter(|(kind, _)| data.bars.iter().any(|b| b.kind == **kind));
    let mut sheet = Sheet::new(chart, &[]);
    sheet.keys(&kinds().map(|(kind, color)| (kind.as_str(), color)).collect::<Vec<_>>());
    let (left, right) = (NAMES, canvas::WIDTH - 24.0);
    let x = Scale::linear((0.0, 1.0), (left, right));
    let mut y = sheet.top;
    let mut cell = "";
    for (of, name) in arms {
        if of != cell {
            cell = of;
            y += 18.0;
            sheet.text((left, y - 5.0), Anchor::Start, canvas::INK, &cut(of, right - left));
        }
        sheet.text((left - 8.0, y + 13.0), Anchor::End, canvas::INK, &cut(name, NAMES - 20.0));
        let mut from = 0.0;
        for (kind, color) in kinds() {
            let is = |b: &&Bar| b.cell == of && b.name == name && b.kind == *kind;
            if let Some(bar) = data.bars.iter().find(is) {
                sheet.rect((x.at(from), y + 1.5), (x.at(from + bar.share) - x.at(from), ROW - 3.0), color, 1.0);
                from += bar.share;
            }
        }
        y += ROW;
    }
    sheet.line((left, y + 2.0), (right, y + 2.0), canvas::SOFT, 1.0, "none");
    for tick in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
        sheet.line((x.at(tick), y + 2.0), (x.at(tick), y + 6.0), canvas::SOFT, 1.0, "none");
        sheet.text((x.at(tick), y + 19.0), Anchor::Middle, canvas::INK, &format!("{:.0}", tick * 100.0));
    }
    sheet.text(((left + right) / 2.0, y + 37.0), Anchor::Middle, canvas::SOFT, "share of all CPU time (%)");
    Some(sheet.finish(y + 44.0))
}
