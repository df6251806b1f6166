//! A metric over an axis: a line for each series, or points side by side where the axis has no numbers.

use super::canvas::{self, Anchor, Series, Sheet, cut};
use super::scale::{Scale, ends, linear_ticks, log_ticks, number, spaced, time};
use super::{Frame, Point, line, listed};
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Data {
    axis: Option<String>,
    numeric: bool,
    name: String,
    unit: String,
    /// True if the values are times; then they are in ns.
    time: bool,
    points: Vec<OfArm>,
}

#[derive(Deserialize)]
struct OfArm {
    series: usize,
    x: Option<f64>,
    label: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

const HIGH: f64 = 280.0;

pub(super) fn draw(chart: &Chart, data: &Data, series: &[Series]) -> Option<String> {
    let shown = listed(series, data.points.iter().map(|p| p.series));
    let mut sheet = Sheet::new(chart, &shown);
    let frame = Frame::below(&sheet, HIGH);
    let all = data.points.iter().flat_map(|p| [Some(p.value), p.low, p.high]).flatten();
    let (_, highest) = ends(all.clone())?;
    let (lowest, _) = ends(all.filter(|v| *v > 0.0)).unwrap_or((1.0, 1.0));
    let is_log = data.time && lowest > 0.0 && highest / lowest > 4.0;
    let range = (frame.bottom, frame.top);
    let (y, ticks) = if is_log {
        let domain = (lowest / 1.2, highest * 1.2);
        (Scale::log(domain, range), log_ticks(domain))
    } else {
        let ticks = linear_ticks(highest);
        (Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), range), ticks)
    };
    let text = |v: f64| if data.time { time(v) } else { number(v) };
    let rows: Vec<(f64, String)> = ticks.into_iter().map(|t| (y.at(t), text(t))).collect();
    let label =
        if data.time || data.unit.is_empty() { data.name.clone() } else { format!("{} ({})", data.name, data.unit) };
    frame.rows(&mut sheet, &rows, &label);
    let axis = data.axis.as_deref().unwrap_or_default();
    if data.numeric {
        lines(&mut sheet, &frame, data, &shown, &y)?;
    } else {
        dots(&mut sheet, &frame, data, &shown, &y);
    }
    let below = if axis.is_empty() { 24.0 } else { 42.0 };
    Some(sheet.finish(frame.bottom + below))
}

fn lines(sheet: &mut Sheet, frame: &Frame, data: &Data, shown: &[Series], y: &Scale) -> Option<()> {
    let mut xs: Vec<f64> = data.points.iter().filter_map(|p| p.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let domain = (*xs.first()?, *xs.last()?);
    let range = (frame.left + 12.0, frame.right - 12.0);
    let is_log = domain.0 > 0.0 && domain.1 / domain.0 > 4.0;
    let x = if is_log { Scale::log(domain, range) } else { Scale::linear(domain, range) };
    for one in shown.iter().rev() {
        let mut own: Vec<&OfArm> = data.points.iter().filter(|p| p.series == one.at && p.x.is_some()).collect();
        own.sort_by(|a, b| a.x.unwrap_or(0.0).total_cmp(&b.x.unwrap_or(0.0)));
        let points: Vec<Point> = own
            .into_iter()
            .map(|p| Point {
                at: (x.at(p.x.unwrap_or(0.0)), y.at(p.value)),
                ends: p.low.zip(p.high).map(|(low, high)| (y.at(low), y.at(high))),
                is_thin: false,
            })
            .collect();
        line(sheet, one, &points, 4.0);
    }
    let ticks = spaced(&xs, frame.right - frame.left, 44.0).into_iter().map(|t| (x.at(t), number(t)));
    frame.columns(sheet, &ticks.collect::<Vec<_>>(), data.axis.as_deref().unwrap_or_default());
    Some(())
}

/// Points with their intervals, side by side at each level.
fn dots(sheet: &mut Sheet, frame: &Frame, data: &Data, shown: &[Series], y: &Scale) {
    let mut labels: Vec<&str> = Vec::new();
    for point in &data.points {
        if !labels.contains(&point.label.as_str()) {
            labels.push(&point.label);
        }
    }
    let wide = (frame.right - frame.left) / labels.len().max(1) as f64;
    let step = (wide / (shown.len() as f64 + 1.0)).min(60.0);
    for point in &data.points {
        let Some(place) = shown.iter().position(|s| s.at == point.series) else { continue };
        let cell = labels.iter().position(|l| *l == point.label).unwrap_or(0) as f64;
        let middle = (shown.len() as f64 - 1.0) / 2.0;
        let x = frame.left + wide * (cell + 0.5) + (place as f64 - middle) * step;
        let one = &shown[place];
        if let Some((low, high)) = point.low.zip(point.high) {
            sheet.line((x, y.at(low)), (x, y.at(high)), one.color(), 2.0, "none");
            for end in [low, high] {
                sheet.line((x - 4.0, y.at(end)), (x + 4.0, y.at(end)), one.color(), 2.0, "none");
            }
        }
        sheet.mark(one, (x, y.at(point.value)), 4.5, true);
        if labels.len() == 1 && !shown.is_empty() {
            sheet.text((x, frame.bottom + 17.0), Anchor::Middle, canvas::SOFT, &cut(&one.name, step));
        }
    }
    if data.axis.is_some() {
        let ticks = labels.iter().enumerate().map(|(i, l)| (frame.left + wide * (i as f64 + 0.5), cut(l, wide - 6.0)));
        frame.columns(sheet, &ticks.collect::<Vec<_>>(), data.axis.as_deref().unwrap_or_default());
    }
}
