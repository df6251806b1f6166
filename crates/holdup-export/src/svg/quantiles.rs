//! Distributions by percentile: the latency of each series, and its ratio to the baseline.

use super::canvas::{self, Series, Sheet};
use super::scale::{Scale, ends, log_ticks, ratio, ratio_ticks, time};
use super::{Frame, Point, line, listed};
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Latency {
    domain_ns: (f64, f64),
    points: Vec<LatencyPoint>,
}

#[derive(Deserialize)]
struct LatencyPoint {
    series: usize,
    quantile: f64,
    value_ns: f64,
    thin: bool,
}

#[derive(Deserialize)]
pub(super) struct Shift {
    domain: (f64, f64),
    points: Vec<ShiftPoint>,
}

#[derive(Deserialize)]
struct ShiftPoint {
    series: usize,
    quantile: f64,
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    thin: bool,
}

const HIGH: f64 = 280.0;
const THIN: &str = "Hollow: fewer than 10 samples beyond it.";

/// A point 1 - 1/x of the way to 100 %: 2 is the median, 10 is p90, 1000 is p99.9.
fn odds(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile.min(0.999_999_9))
}

/// The axis of percentiles, drawn.
fn percentiles(sheet: &mut Sheet, frame: &Frame, quantiles: impl Iterator<Item = f64>) -> Option<Scale> {
    let domain = ends(quantiles.map(odds))?;
    let x = Scale::log(domain, (frame.left + 8.0, frame.right - 8.0));
    let marks = [(2.0, "p50"), (10.0, "p90"), (100.0, "p99"), (1000.0, "p99.9"), (10_000.0, "p99.99")];
    let marks = marks.iter().filter(|(odds, _)| *odds >= domain.0 && *odds <= domain.1 * 1.001);
    let marks: Vec<(f64, String)> = marks.map(|(odds, name)| (x.at(*odds), (*name).to_owned())).collect();
    frame.columns(sheet, &marks, "percentile");
    Some(x)
}

pub(super) fn draw_latency(chart: &Chart, data: &Latency, series: &[Series]) -> Option<String> {
    let shown = listed(series, data.points.iter().map(|p| p.series));
    let mut sheet = Sheet::new(chart, &shown);
    let frame = Frame::below(&sheet, HIGH);
    let domain = (data.domain_ns.0 / 1.15, data.domain_ns.1 * 1.15);
    let y = Scale::log(domain, (frame.bottom, frame.top));
    let rows: Vec<(f64, String)> = log_ticks(domain).into_iter().map(|t| (y.at(t), time(t))).collect();
    frame.rows(&mut sheet, &rows, "latency");
    let x = percentiles(&mut sheet, &frame, data.points.iter().map(|p| p.quantile))?;
    for one in shown.iter().rev() {
        let own = data.points.iter().filter(|p| p.series == one.at);
        let points: Vec<Point> = own
            .map(|p| Point { at: (x.at(odds(p.quantile)), y.at(p.value_ns)), ends: None, is_thin: p.thin })
            .collect();
        line(&mut sheet, one, &points, 2.6);
    }
    if data.points.iter().any(|p| p.thin) {
        sheet.add_note(THIN);
    }
    Some(sheet.finish(frame.bottom + 42.0))
}

pub(super) fn draw_shift(chart: &Chart, data: &Shift, series: &[Series]) -> Option<String> {
    let shown = listed(series, data.points.iter().map(|p| p.series));
    let mut sheet = Sheet::new(chart, &shown);
    let frame = Frame::below(&sheet, HIGH);
    // One wild block of a thin tail must not press all else flat, so the scale follows the lines, and bands are cut.
    let domain = ((data.domain.0 / 1.08).min(0.92), (data.domain.1 * 1.08).max(1.09));
    let y = Scale::log(domain, (frame.bottom, frame.top));
    let rows: Vec<(f64, String)> = ratio_ticks(domain).into_iter().map(|t| (y.at(t), ratio(t))).collect();
    frame.rows(&mut sheet, &rows, "ratio to the baseline");
    sheet.line((frame.left, y.at(1.0)), (frame.right, y.at(1.0)), canvas::SOFT, 1.2, "none");
    let x = percentiles(&mut sheet, &frame, data.points.iter().map(|p| p.quantile))?;
    for one in shown.iter().rev() {
        let own = data.points.iter().filter(|p| p.series == one.at);
        let points: Vec<Point> = own
            .map(|p| Point {
                at: (x.at(odds(p.quantile)), y.at(p.ratio)),
                ends: p.low.zip(p.high).map(|(low, high)| (y.at(low), y.at(high))),
                is_thin: p.thin,
            })
            .collect();
        line(&mut sheet, one, &points, 2.6);
    }
    if data.points.iter().any(|p| p.thin) {
        sheet.add_note(THIN);
    }
    Some(sheet.finish(frame.bottom + 42.0))
}
