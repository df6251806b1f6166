//! Where in the distribution latency moved: in the middle, in the tail, or nowhere.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::{FindingVerdict, LatencyShift as Shift, ShiftPoint};
use holdup_model::{Finding, Meta};

pub static META: Meta = Meta {
    id: "latency-shift",
    summary: "where in its distribution latency moved: middle, tail, or nowhere",
    docs: "The quantile shift function: for each quantile from 1 % to 99 % and for 99.9 %, the ratio of an arm's latency \
           to that of the baseline with the same axes, block by block. The band holds at all quantiles simultaneously in 95 of 100 \
           runs, so any quantile may be picked from it afterwards. A mean can stay while the tail doubles; this is where \
           that shows.",
    references: &["docs/statistics.md"],
};

/// The quantiles in the sentence.
const SHOWN: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    // A baseline against itself is the business of the noise floor.
    let is_replica = |s: &&Shift| context.index.arm(s.level).is_none_or(|a| a.replica.is_some());
    let shifts: Vec<&Shift> = context.shifts.iter().filter(|s| !is_replica(s)).collect();
    let moved: Vec<Finding> = shifts.iter().filter_map(|s| moved(context, s)).collect();
    let banded = shifts.iter().filter(|s| s.no_band.is_none()).count();
    if !moved.is_empty() || shifts.is_empty() {
        return moved;
    }
    let trials = shifts.iter().flat_map(|s| trials(context, s)).collect();
    if banded == 0 {
        let why = shifts.first().and_then(|s| s.no_band.clone()).unwrap_or_default();
        let sentence = format!("Where latency moved within its distribution is not known: {why}.");
        return vec![Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) }];
    }
    let sentence = format!(
        "No quantile of latency moved beyond its band, from 1 % to 99.9 %, in {}.",
        words::count(banded, "comparison")
    );
    vec![Finding { trials, ..note(&META, FindingVerdict::Refuted, sentence) }]
}

fn trials(context: &Context<'_>, shift: &Shift) -> Vec<u32> {
    [shift.baseline, shift.level].iter().flat_map(|arm| context.index.done(*arm)).map(|t| t.seq).collect()
}

/// True if the band of a quantile lies on one side of 1.
fn is_apart(point: &ShiftPoint) -> bool {
    point.low.is_some_and(|low| low > 1.0) || point.high.is_some_and(|high| high < 1.0)
}

fn moved(context: &Context<'_>, shift: &Shift) -> Option<Finding> {
    let apart: Vec<&ShiftPoint> = shift.points.iter().filter(|p| is_apart(p)).collect();
    let (first, last) = (apart.first()?, apart.last()?);
    let where_it_is = match (first.quantile, last.quantile) {
        _ if apart.iter().any(|p| p.ratio > 1.0) && apart.iter().any(|p| p.ratio < 1.0) => {
            "grew at some quantiles and fell at others".to_owned()
        }
        (a, b) => {
            let way = if first.ratio > 1.0 { "grew" } else { "fell" };
            if a <= 0.05 && b >= 0.95 && apart.len() > 90 {
                format!("{way} everywhere")
            } else if a >= 0.75 {
                format!("{way} in the tail only, from {} up", percentile(a))
            } else if b <= 0.6 {
                format!("{way} in the lower part only, up to {}", percentile(b))
            } else {
                format!("{way} between {} and {}", percentile(a), percentile(b))
            }
        }
    };
    let shifts: Vec<String> = SHOWN.iter().filter_map(|q| in_words(&shift.points, *q)).collect();
    let label = |arm: u32| context.index.arm(arm).map(|a| a.label.clone()).unwrap_or_default();
    let sentence = format!(
        "{}: {} {where_it_is} against {}: {} (bands hold together at 95 %).",
        label(shift.level),
        shift.histogram.replace('_', " "),
        label(shift.baseline),
        shifts.join(", ")
    );
    Some(Finding { trials: trials(context, shift), ..note(&META, FindingVerdict::Supported, sentence) })
}

fn percentile(quantile: f64) -> String {
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

/// `p99 ×1.62 (1.31 to 2.00)`.
fn in_words(points: &[ShiftPoint], quantile: f64) -> Option<String> {
    let point = points.iter().find(|p| (p.quantile - quantile).abs() < 1e-9)?;
    let thin = if point.thin { ", thin" } else { "" };
    let (Some(low), Some(high)) = (point.low, point.high) else {
        return Some(format!("{} ×{:.2} (no band{thin})", percentile(quantile), point.ratio));
    };
    Some(format!("{} ×{:.2} ({low:.2} to {high:.2}{thin})", percentile(quantile), point.ratio))
}
