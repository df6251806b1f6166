//! Distributions of latency: percentiles of each arm, and their ratio to the baseline.

use super::{Chart, Table, short};
use crate::series::{Layout, Names, Placed};
use crate::text::{self, clean};
use holdup_model::outcome::{LatencyShift, ShiftPoint};
use holdup_model::trial::latency_histogram;
use holdup_model::{Analysis, BundleData, Histogram};
use serde_json::{Value, json};

/// The quantiles of the curves. Beyond p99.9 a trial of some seconds has too few samples.
const QUANTILES: [f64; 17] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999];

/// Those of them that a table has.
const IN_TABLE: [f64; 7] = [0.1, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999];

/// Fewer samples than this beyond a quantile mark it as thin.
const SAMPLES: f64 = 10.0;

/// The name of the histogram that is drawn of a workload.
fn drawn(bundle: &BundleData, layout: &Layout<'_>) -> Option<String> {
    let own = |t: &&holdup_model::Trial| layout.arms.iter().any(|a| a.arm.id == t.arm);
    latency_histogram(bundle.trials.iter().filter(own)).map(str::to_owned)
}

/// The workload's name, what the histogram holds, the workload's number, and the number of the cell.
type ChartContext<'a> = (&'a str, &'a str, usize, usize);

/// The latencies of an arm: those of all of its trials that count.
struct Latency {
    arm: u32,
    series: usize,
    all: Histogram,
}

fn gather(bundle: &BundleData, placed: &Placed<'_>, name: &str) -> Option<Latency> {
    let mut all = Histogram::new();
    for trial in bundle.trials.iter().filter(|t| t.is_done() && t.arm == placed.arm.id) {
        if let Some(histogram) = trial.histogram(name) {
            all.add(histogram);
        }
    }
    (all.count() > 0).then_some(Latency { arm: placed.arm.id, series: placed.series, all })
}

fn percentile(quantile: f64) -> String {
    format!("p{}", (quantile * 1e5).round() / 1e3)
}

fn is_thin(h: &Histogram, quantile: f64) -> bool {
    h.samples_beyond(quantile) < SAMPLES
}

/// The charts of a workload: percentiles of each cell, then the shift of each cell.
pub(crate) fn charts(
    bundle: &BundleData,
    analysis: &Analysis,
    layout: &Layout<'_>,
    names: &Names,
    at: usize,
) -> (Vec<Chart>, Vec<Chart>) {
    let Some(name) = drawn(bundle, layout) else { return (Vec::new(), Vec::new()) };
    let words = text::capital(&clean(&name.replace('_', " ")));
    let context = clean(&layout.workload.name);
    let mut cells: Vec<(String, Vec<Latency>)> = Vec::new();
    for cell in layout.cells() {
        let of: Vec<Latency> = layout.at(cell).iter().filter_map(|p| gather(bundle, p, &name)).collect();
        if !of.is_empty() {
            cells.push((layout.cell_name(cell), of));
        }
    }
    let ends: Vec<u64> = cells
        .iter()
        .flat_map(|(_, of)| of)
        .flat_map(|l| [l.all.quantile_ns(QUANTILES[0]), l.all.quantile_ns(QUANTILES[QUANTILES.len() - 1])])
        .flatten()
        .collect();
    let domain = [ends.iter().min().copied().unwrap_or(1), ends.iter().max().copied().unwrap_or(1)];
    let charts =
        cells.iter().enumerate().map(|(i, (cell, of))| percentiles(names, cell, of, domain, (&context, &words, at, i)));
    let curves = charts.collect();
    let shifts: Vec<(String, Vec<Shift<'_>>)> =
        cells.iter().map(|(cell, of)| (cell.clone(), shifts(analysis, of))).filter(|(_, s)| !s.is_empty()).collect();
    let ratios: Vec<f64> = shifts.iter().flat_map(|(_, s)| s).flat_map(Shift::points).map(|p| p.ratio).collect();
    let ends = [ratios.iter().copied().fold(1.0, f64::min), ratios.iter().copied().fold(1.0, f64::max)];
    let shifts = shifts.iter().enumerate();
    (curves, shifts.map(|(i, (cell, of))| shift(names, cell, of, ends, (&context, &words, at, i))).collect())
}

fn percentiles(
    names: &Names,
    cell: &str,
    of: &[Latency],
    domain: [u64; 2],
    (context, words, at, i): ChartContext<'_>,
) -> Chart {
    let mut points: Vec<Value> = Vec::new();
    for latency in of {
        for quantile in QUANTILES {
            let Some(ns) = latency.all.quantile_ns(quantile) else { continue };
            let thin = is_thin(&latency.all, quantile);
            points.push(json!({"series": latency.series, "quantile": quantile, "value_ns": ns, "thin": thin}));
        }
    }
    let heads = of.iter().map(|l| names.0[l.series].text.clone());
    let mut table = Table::numbers("percentile", heads);
    for quantile in IN_TABLE {
        let cells = of.iter().map(|l| {
            let mark = if is_thin(&l.all, quantile) { " (thin)" } else { "" };
            l.all
                .quantile_ns(quantile)
                .map_or_else(|| "–".to_owned(), |ns| format!("{}{mark}", text::latency(ns as f64)))
        });
        table.row(std::iter::once(percentile(quantile)).chain(cells).collect());
    }
    let counts = of.iter().map(|l| text::grouped(&l.all.count().to_string()));
    table.row(std::iter::once("samples".to_owned()).chain(counts).collect());
    Chart {
        id: format!("latency-{at}-{i}"),
        kind: "percentiles",
        title: format!("{words} at each percentile, with {}", clean(cell)),
        context: context.to_owned(),
        note: String::new(),
        data: json!({ "points": points, "domain_ns": domain }),
        table,
    }
}

struct Shift<'a> {
    series: usize,
    shift: &'a LatencyShift,
}

impl<'a> Shift<'a> {
    fn points(&self) -> &'a [ShiftPoint] {
        &self.shift.points
    }
}

/// The arms of a cell against their baseline.
fn shifts<'a>(analysis: &'a Analysis, of: &[Latency]) -> Vec<Shift<'a>> {
    of.iter()
        .filter_map(|l| Some((l, analysis.shifts.iter().find(|s| s.level == l.arm)?)))
        .map(|(l, shift)| Shift { series: l.series, shift })
        .collect()
}

fn shift(
    names: &Names,
    cell: &str,
    of: &[Shift<'_>],
    ends: [f64; 2],
    (context, words, at, i): ChartContext<'_>,
) -> Chart {
    // The curve has a hundred quantiles; that many marks would hide it.
    let is_drawn = |q: f64| q >= 0.95 || (q * 20.0 - (q * 20.0).round()).abs() < 1e-9;
    let points = of.iter().flat_map(|s| {
        s.points().iter().filter(|p| is_drawn(p.quantile)).map(|p| {
            json!({
                "series": s.series, "quantile": p.quantile, "ratio": short(p.ratio), "thin": p.thin,
                "low": p.low.map(short), "high": p.high.map(short),
            })
        })
    });
    let points: Vec<Value> = points.collect();
    let mut table = Table::numbers("percentile", of.iter().map(|s| names.0[s.series].text.clone()));
    for quantile in IN_TABLE {
        let cells = of.iter().map(|s| {
            let Some(p) = s.points().iter().find(|p| (p.quantile - quantile).abs() < 1e-9) else {
                return "–".to_owned();
            };
            let mark = if p.thin { " (thin)" } else { "" };
            let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |e| format!("{e:.2}"));
            let band = match (p.low, p.high) {
                (None, None) => String::new(),
                (low, high) => format!(" [{} to {}]", end(low), end(high)),
            };
            format!("×{:.2}{band}{mark}", p.ratio)
        });
        table.row(std::iter::once(percentile(quantile)).chain(cells).collect());
    }
    Chart {
        id: format!("shift-{at}-{i}"),
        kind: "shift",
        title: format!("{words} against the baseline with {}: below 1 is faster", clean(cell)),
        context: context.to_owned(),
        note: match of.iter().find_map(|s| s.shift.no_band.as_deref()) {
            Some(why) => format!("No band: {}.", clean(why)),
            None => "Band: holds at all percentiles simultaneously in 95 of 100 runs, from the spread between blocks."
                .to_owned(),
        },
        data: json!({ "points": points, "domain": [short(ends[0]), short(ends[1])] }),
        table,
    }
}
