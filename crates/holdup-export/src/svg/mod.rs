//! The charts of the page as pictures that stand alone: text is text, colours are those of a light ground, and no series is
//! distinguished by its colour alone. `web/` draws the same data for a browser.

mod account;
mod canvas;
mod cpu;
mod curve;
mod effects;
mod order;
mod quantiles;
mod scale;

use canvas::{Series, Sheet};
use holdup_report::Chart;
use serde::de::DeserializeOwned;

/// A chart as SVG. `series` has the name of each series, and whether it is a replica.
pub fn svg(chart: &Chart, series: &[(String, bool)]) -> Option<String> {
    let series: Vec<Series> = series
        .iter()
        .enumerate()
        .map(|(at, (name, is_replica))| Series { at, name: name.clone(), is_replica: *is_replica })
        .collect();
    match chart.kind {
        "effects" => effects::draw(chart, &data(chart)?),
        "curve" => curve::draw(chart, &data(chart)?, &series),
        "percentiles" => quantiles::draw_latency(chart, &data(chart)?, &series),
        "shift" => quantiles::draw_shift(chart, &data(chart)?, &series),
        "order" => order::draw(chart, &data(chart)?, &series),
        "cpu" => cpu::draw(chart, &data(chart)?),
        "account" => account::draw(chart, &data(chart)?),
        _ => None,
    }
}

fn data<T: DeserializeOwned>(chart: &Chart) -> Option<T> {
    T::deserialize(&chart.data).ok()
}

/// The series that have points, in their order.
fn listed(series: &[Series], points: impl Iterator<Item = usize>) -> Vec<Series> {
    let mut numbers: Vec<usize> = points.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().filter_map(|at| series.get(at).cloned()).collect()
}

/// Where a drawing with two axes stands.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    /// Below title and legend, with room for the labels of both axes.
    fn below(sheet: &Sheet, high: f64) -> Self {
        Frame { left: 76.0, right: canvas::WIDTH - 20.0, top: sheet.top, bottom: sheet.top + high }
    }

    /// The horizontal lines of the grid, with their texts and what they are of.
    fn rows(&self, sheet: &mut Sheet, ticks: &[(f64, String)], label: &str) {
        for (y, text) in ticks {
            sheet.line((self.left, *y), (self.right, *y), canvas::GRID, 1.0, "none");
            sheet.text((self.left - 6.0, y + 4.0), canvas::Anchor::End, canvas::INK, text);
        }
        sheet.label((18.0, (self.top + self.bottom) / 2.0), label);
    }

    /// The texts below, and what they are of.
    fn columns(&self, sheet: &mut Sheet, ticks: &[(f64, String)], label: &str) {
        sheet.line((self.left, self.bottom), (self.right, self.bottom), canvas::SOFT, 1.0, "none");
        for (x, text) in ticks {
            sheet.line((*x, self.bottom), (*x, self.bottom + 4.0), canvas::SOFT, 1.0, "none");
            sheet.text((*x, self.bottom + 17.0), canvas::Anchor::Middle, canvas::INK, text);
        }
        sheet.text(((self.left + self.right) / 2.0, self.bottom + 35.0), canvas::Anchor::Middle, canvas::SOFT, label);
    }
}

/// A point of a line.
struct Point {
    at: (f64, f64),
    /// Where its interval ends.
    ends: Option<(f64, f64)>,
    is_thin: bool,
}

/// A line through points with the band of their intervals; thin points are hollow.
fn line(sheet: &mut Sheet, series: &Series, points: &[Point], r: f64) {
    let banded: Vec<(f64, (f64, f64))> = points.iter().filter_map(|p| Some((p.at.0, p.ends?))).collect();
    if !series.is_replica && banded.len() > 1 {
        let there = banded.iter().map(|(x, (low, _))| (*x, *low));
        let back = banded.iter().rev().map(|(x, (_, high))| (*x, *high));
        sheet.area(&there.chain(back).collect::<Vec<_>>(), series.color(), 0.12);
    }
    let path: Vec<(f64, f64)> = points.iter().map(|p| p.at).collect();
    sheet.path(&path, series.color(), 1.8, series.dash());
    for point in points {
        sheet.mark(series, point.at, r, !point.is_thin);
    }
}
