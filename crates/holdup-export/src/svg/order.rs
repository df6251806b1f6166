//! Every trial in the order run, against the mean of its arm.

use super::canvas::{self, Anchor, Series, Sheet};
use super::scale::{Scale, ends, ratio, ratio_ticks};
use super::{Frame, listed};
use holdup_report::Chart;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Data {
    points: Vec<OfTrial>,
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
struct OfTrial {
    seq: f64,
    series: usize,
    share: Option<f64>,
    void: Option<String>,
}

#[derive(Deserialize)]
struct Block {
    block: u32,
    first: f64,
    last: f64,
}

const HIGH: f64 = 280.0;

pub(super) fn draw(chart: &Chart, data: &Data, series: &[Series]) -> Option<String> {
    let shown = listed(series, data.points.iter().map(|p| p.series));
    let mut sheet = Sheet::new(chart, &shown);
    sheet.top += 14.0;
    let frame = Frame::below(&sheet, HIGH);
    let counted = || data.points.iter().filter(|p| p.void.is_none()).filter_map(|p| Some((p, p.share?)));
    let spread = counted().map(|(_, share)| share.ln().abs()).fold(0.03, f64::max) * 1.15;
    let domain = ((-spread).exp(), spread.exp());
    let (first, last) = ends(data.points.iter().map(|p| p.seq))?;
    let x = Scale::linear((first - 0.5, last + 0.5), (frame.left + 6.0, frame.right - 6.0));
    let y = Scale::log(domain, (frame.bottom, frame.top));
    let wide = (frame.right - frame.left) / data.blocks.len().max(1) as f64;
    let every = (22.0 / wide).ceil().max(1.0) as usize;
    for (i, block) in data.blocks.iter().enumerate() {
        let (from, to) = (x.at(block.first - 0.5), x.at(block.last + 0.5));
        if i % 2 == 0 {
            sheet.rect((from, frame.top), (to - from, frame.bottom - frame.top), "#f4f5f6", 1.0);
        }
        let name = if wide > 70.0 { format!("block {}", block.block) } else { block.block.to_string() };
        if i % every == 0 {
            sheet.text(((from + to) / 2.0, frame.top - 4.0), Anchor::Middle, canvas::SOFT, &name);
        }
    }
    let rows: Vec<(f64, String)> = ratio_ticks(domain).into_iter().map(|t| (y.at(t), ratio(t))).collect();
    frame.rows(&mut sheet, &rows, "ratio to the mean of its arm");
    sheet.line((frame.left, y.at(1.0)), (frame.right, y.at(1.0)), canvas::SOFT, 1.2, "none");
    for (point, share) in counted() {
        if let Some(one) = shown.iter().find(|s| s.at == point.series) {
            sheet.mark(one, (x.at(point.seq), y.at(share)), 4.0, true);
        }
    }
    let voids = data.points.iter().filter(|p| p.void.is_some());
    voids.clone().for_each(|p| sheet.cross((x.at(p.seq), frame.bottom - 8.0), 4.0));
    let step = ((last - first) / 8.0).ceil().max(1.0);
    let ticks = (0..=((last - first) / step) as u32).map(|i| first + f64::from(i) * step);
    frame.columns(&mut sheet, &ticks.map(|t| (x.at(t), format!("{t}"))).collect::<Vec<_>>(), "trial, in the order run");
    if voids.count() > 0 {
        sheet.add_note("Cross: void, does not count.");
    }
    Some(sheet.finish(frame.bottom + 42.0))
}
