//! Effects at a glance, curves over an axis, and where the CPU time went.

use super::{Chart, Table, ns_per, short};
use crate::series::{Layout, Names};
use crate::tables;
use crate::text::{self, clean};
use holdup_model::outcome::{ArmMetric, Contrast};
use holdup_model::{Analysis, Direction, Metric, Plan};
use serde_json::{Value, json};

/// What each change did to the primary metric, all workloads in one chart.
pub(crate) fn effects(analysis: &Analysis) -> Option<Chart> {
    let shown = analysis
        .comparisons
        .iter()
        .filter(|c| c.headline || c.primary && c.pooled && matches!(c.contrast, Contrast::Same | Contrast::Unobserved))
        .filter(|c| c.ratio.is_some());
    let mut rows = Vec::new();
    let mut table = Table {
        head: ["workload", "change", "metric", "ratio (interval)", "answer", "margin", "noise floor"]
            .map(|h| (h.to_owned(), false))
            .into(),
        rows: Vec::new(),
    };
    let mut sorted: Vec<_> = shown.collect();
    sorted.sort_by_key(|c| analysis.comparisons.iter().position(|o| o.workload == c.workload));
    for c in sorted {
        let Some(ratio) = &c.ratio else { continue };
        let better = match c.metric.better {
            Direction::Higher => "higher",
            Direction::Lower => "lower",
        };
        rows.push(json!({
            "workload": clean(&c.workload), "name": change(&c.contrast), "metric": words(&c.metric), "better": better,
            "value": short(ratio.value), "low": short(ratio.low), "high": short(ratio.high),
            "verdict": tables::word(&c.verdict), "margin": c.margin, "noise_floor": c.noise_floor,
            "text": text::ratio(ratio),
        }));
        table.row(vec![
            clean(&c.workload),
            change(&c.contrast),
            tables::metric(&c.metric),
            text::ratio(ratio),
            format!("{} {}", tables::sign(&c.verdict), tables::word(&c.verdict)),
            format!("±{}", text::percent(c.margin)),
            c.noise_floor.map_or_else(|| "not known".to_owned(), |f| format!("±{}", text::percent(f))),
        ]);
    }
    (!rows.is_empty()).then(|| Chart {
        id: "effects".to_owned(),
        kind: "effects",
        title: "What each change did, against the baseline of the same block".to_owned(),
        context: String::new(),
        note: "Dot: ratio to the baseline; line: its 95 % interval. A line that lies within the grey margin means no \
               difference that matters; one that misses 1 means different; any other leaves it undecided."
            .to_owned(),
        data: json!({ "rows": rows }),
        table,
    })
}

fn change(contrast: &Contrast) -> String {
    match contrast {
        Contrast::Factor { factor, level, .. } => clean(&format!("{factor}={level}")),
        Contrast::Axis { axis, level, .. } => clean(&format!("{axis}={level}")),
        Contrast::Same => "baseline again (A/A)".to_owned(),
        Contrast::Unobserved => "baseline without collectors".to_owned(),
        Contrast::Named { level, .. } => clean(level),
    }
}

/// A metric in words: `throughput`, `latency p99`.
pub(crate) fn words(metric: &Metric) -> String {
    if metric.id == "tps" {
        return "throughput".to_owned();
    }
    let bare = metric.id.strip_suffix(&format!("_{}", metric.unit)).unwrap_or(&metric.id);
    clean(&bare.replace('_', " "))
}

/// The metrics that are drawn: the primary one, and median and tail of the latency of the same trials; without
/// percentiles those that the plan names, or the mean latency.
fn drawn<'a>(plan: &Plan, layout: &Layout<'a>) -> Vec<&'a Metric> {
    let primary = |m: &&&Metric| crate::series::is_primary(plan, &layout.workload.name, &m.id);
    let tail = ["latency_p50_us", "latency_p99_us", "acquire_p50_ns", "acquire_p99_ns"];
    let mut drawn: Vec<&Metric> = layout.metrics.iter().filter(primary).copied().collect();
    for id in tail {
        drawn.extend(layout.metrics.iter().filter(|m| m.id == id));
    }
    if drawn.len() < 2 {
        let named =
            |m: &&&Metric| plan.metric_choice(&layout.workload.name, &m.id).is_some() || m.id.contains("latency");
        drawn.extend(layout.metrics.iter().filter(named).take(3));
    }
    let mut seen: Vec<&str> = Vec::new();
    drawn.retain(|m| {
        let new = !seen.contains(&m.id.as_str());
        seen.push(&m.id);
        new
    });
    drawn
}

/// Throughput and latency over the axis of a workload, one chart for each metric and panel.
pub(crate) fn curves(plan: &Plan, layout: &Layout<'_>, names: &Names, at: usize) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (i, metric) in drawn(plan, layout).into_iter().enumerate() {
        for (panel, panel_name) in layout.panels.iter().enumerate() {
            let id = format!("curve-{at}-{i}-{panel}");
            charts.extend(curve(layout, names, metric, panel, panel_name, id));
        }
    }
    charts
}

fn curve(
    layout: &Layout<'_>,
    names: &Names,
    metric: &Metric,
    panel: usize,
    panel_name: &str,
    id: String,
) -> Option<Chart> {
    let scale = ns_per(&metric.unit);
    let mut points = Vec::new();
    for placed in layout.arms.iter().filter(|a| a.panel == panel) {
        let Some(m) = placed.metric(&metric.id) else { continue };
        let Some(value) = m.value else { continue };
        let (x, label) = layout.level(placed.x);
        let ends = m.mean.as_ref().map(|e| (e.low * scale.unwrap_or(1.0), e.high * scale.unwrap_or(1.0)));
        points.push(json!({
            "series": placed.series, "x": x, "label": label, "value": short(value * scale.unwrap_or(1.0)),
            "low": ends.map(|e| short(e.0)), "high": ends.map(|e| short(e.1)),
            "n": placed.summary.map_or(0, |s| s.trials_done),
        }));
    }
    if points.is_empty() {
        return None;
    }
    let better = match metric.better {
        Direction::Higher => "higher is better",
        Direction::Lower => "lower is better",
    };
    let over = layout.axis.map(|a| format!(" by number of {}", clean(&a.name))).unwrap_or_default();
    let over = if layout.is_numeric() { over } else { over.replace("by number of", "by") };
    let place = if panel_name.is_empty() { String::new() } else { format!(" at {panel_name}") };
    Some(Chart {
        id,
        kind: "curve",
        title: format!("{}{over}{place}: {better}", text::capital(&words(metric))),
        context: clean(&layout.workload.name),
        note: format!(
            "{}. Line: mean over the blocks; band: its 95 % interval.",
            text::capital(&clean(&metric.summary))
        ),
        data: json!({
            "axis": layout.axis.map(|a| clean(&a.name)), "numeric": layout.is_numeric(),
            "name": words(metric), "unit": metric.unit, "time": scale.is_some(), "points": points,
        }),
        table: curve_table(layout, names, metric, panel),
    })
}

fn curve_table(layout: &Layout<'_>, names: &Names, metric: &Metric, panel: usize) -> Table {
    let series = layout.series();
    let first = layout.axis.map_or_else(|| "workload".to_owned(), |a| clean(&a.name));
    let mut table = Table::numbers(first, series.iter().map(|s| format!("{}, {}", names.0[*s].text, metric.unit)));
    for cell in layout.cells().into_iter().filter(|c| c.0 == panel) {
        let arms = layout.at(cell);
        let name = if layout.axis.is_some() { layout.level(cell.1).1 } else { clean(&layout.workload.name) };
        let values = series.iter().map(|s| {
            let of = arms.iter().find(|a| a.series == *s).and_then(|a| a.metric(&metric.id));
            of.map_or_else(|| "–".to_owned(), value)
        });
        table.row(std::iter::once(name).chain(values).collect());
    }
    table
}

/// A metric of an arm with its interval, or why there is none.
pub(crate) fn value(m: &ArmMetric) -> String {
    match (m.value, &m.mean, &m.absent) {
        (Some(v), Some(e), _) => {
            format!("{} ({} to {})", text::number(v), text::number(e.low), text::number(e.high))
        }
        (Some(v), None, _) => format!("{} (no interval)", text::number(v)),
        (None, _, Some(why)) => format!("– ({})", clean(why)),
        (None, _, None) => "–".to_owned(),
    }
}

/// The kinds of CPU time that are drawn, from the ground up.
const KINDS: [&str; 8] = ["user", "nice", "guest", "system", "irq", "softirq", "iowait", "steal"];

/// How the time of all CPUs was spent, for each arm.
pub(crate) fn cpu(layout: &Layout<'_>, names: &Names, at: usize) -> Option<Chart> {
    let mut bars: Vec<Value> = Vec::new();
    let mut table = Table::numbers("arm", KINDS.iter().map(|k| (*k).to_owned()).chain(["idle".to_owned()]));
    for cell in layout.cells() {
        for placed in layout.at(cell) {
            let share = |kind: &str| {
                let all = placed.summary.map(|s| s.evidence.as_slice()).unwrap_or_default();
                let item = all.iter().find(|e| e.name == "cpu_share" && e.label.as_deref() == Some(kind));
                item.and_then(|e| e.mean)
            };
            if KINDS.iter().all(|k| share(k).is_none()) {
                continue;
            }
            let name = &names.0[placed.series].text;
            let cell_name = layout.cell_name(cell);
            for kind in KINDS {
                if let Some(share) = share(kind).filter(|s| *s > 0.0) {
                    bars.push(json!({"cell": cell_name, "name": name, "kind": kind, "share": short(share)}));
                }
            }
            let cells = KINDS.iter().chain(&["idle"]);
            let cells = cells.map(|k| share(k).map_or_else(|| "–".to_owned(), |s| format!("{:.1} %", s * 100.0)));
            table.row(std::iter::once(format!("{cell_name}, {name}")).chain(cells).collect());
        }
    }
    (!bars.is_empty()).then(|| Chart {
        id: format!("cpu-{at}"),
        kind: "cpu",
        title: "Where the time of all CPUs went in each arm".to_owned(),
        context: clean(&layout.workload.name),
        note: "Share of the CPU time inside the windows, mean over the trials; what is missing to 100 % was idle."
            .to_owned(),
        data: json!({ "bars": bars, "kinds": KINDS }),
        table,
    })
}
