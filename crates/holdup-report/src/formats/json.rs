//! The report as one JSON document.

use holdup_model::{Analysis, BundleData, Collected, Measured, SparseHistogram, Trial, TrialStatus};
use serde_json::{Value, json};

/// A value as indented JSON with a newline at its end.
pub(crate) fn pretty(value: &Value) -> String {
    // `{:#}` of a `Value` is indented JSON and cannot fail.
    format!("{value:#}\n")
}

/// The report as one JSON document of schema `holdup.report/1`. Histograms, stacks and timelines stay in the bundle; their
/// quantiles and sizes are here.
pub fn json(bundle: &BundleData, analysis: &Analysis) -> String {
    pretty(&report(bundle, analysis))
}

pub(crate) fn report(bundle: &BundleData, analysis: &Analysis) -> Value {
    json!({
        "schema": "holdup.report/1",
        "caution": analysis.caution,
        "head": bundle.head,
        "plan": bundle.plan,
        "plan_source": bundle.plan_source,
        "ending": bundle.ending,
        "arms": bundle.schedule.arms,
        "trials_planned": bundle.schedule.trials.len(),
        "metrics": bundle.metrics.iter().map(|(workload, metric)| json!({"workload": workload, "metric": metric})).collect::<Vec<_>>(),
        "collectors": bundle.collectors,
        "environment": bundle.environment,
        "log": bundle.log.iter().map(|(unix_ns, text)| json!({"at_unix_ns": unix_ns, "text": text})).collect::<Vec<_>>(),
        "findings": analysis.findings,
        "comparisons": analysis.comparisons,
        "arm_summaries": analysis.arms,
        "explanation": analysis.explanation,
        "trials": bundle.trials.iter().map(trial).collect::<Vec<_>>(),
    })
}

fn trial(t: &Trial) -> Value {
    json!({
        "seq": t.seq,
        "session": t.session,
        "boot": t.boot,
        "block": t.block,
        "position": t.position,
        "arm": t.arm,
        "attempt": t.attempt,
        "void": match &t.status { TrialStatus::Done => None, TrialStatus::Void { reason } => Some(reason) },
        "started_unix_ns": t.started_unix_ns,
        "ended_unix_ns": t.ended_unix_ns,
        "window": t.window,
        "measurements": t.measurements.iter().map(|m| {
            let absent = match &m.value { Measured::Absent(why) => Some(why), Measured::Value(_) => None };
            json!({"metric": m.metric, "value": m.value.value(), "absent": absent})
        }).collect::<Vec<_>>(),
        "histograms": t.histograms.iter().map(|h| {
            json!({"name": h.name, "count": h.histogram.count(), "clipped": h.histogram.clipped(), "mean_ns": h.histogram.mean_ns()})
        }).collect::<Vec<_>>(),
        "evidence": t.evidence.iter().map(collected).collect::<Vec<_>>(),
        "environment_moved": t.environment_moved,
        "notes": t.notes,
    })
}

/// What a collector brought. Of what is more than a number the sizes are here.
fn collected(c: &Collected) -> Value {
    json!({
        "collector": c.collector,
        "items": c.items,
        "coverage": c.coverage,
        "cost": c.cost,
        "histograms": c.histograms.iter().map(|h| quantiles(&h.name, h.label.as_deref(), &h.histogram)).collect::<Vec<_>>(),
        "stacks": c.stacks.iter().map(|p| {
            let weight: u64 = p.stacks.iter().map(|s| s.weight).sum();
            json!({
                "name": p.name, "unit": p.unit, "period_ns": p.period_ns, "stacks": p.stacks.len(), "weight": weight,
                "truncated_weight": p.truncated,
            })
        }).collect::<Vec<_>>(),
        "capture": c.capture.as_ref().map(|k| json!({
            "flows": k.flows.len(), "flows_beyond": k.flows_beyond, "capture": k.capture, "comparison": k.comparison,
            "traces": k.traces.iter().map(|t| json!({
                "stream": t.stream, "from": t.from, "to": t.to, "trouble": t.trouble, "points": t.points.len(), "one_of": t.one_of,
            })).collect::<Vec<_>>(),
        })),
        "timeline": c.timeline.as_ref().map(|t| json!({"events": t.count(), "lost_events": t.lost})),
    })
}

/// A histogram as its quantiles, which are null when it is empty.
fn quantiles(name: &str, label: Option<&str>, h: &SparseHistogram) -> Value {
    let at = |quantile: f64| h.quantile_ns(quantile);
    json!({
        "name": name, "label": label, "count": h.count(), "clipped": h.clipped(), "mean_ns": h.mean_ns(),
        "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99), "p999_ns": at(0.999),
        "max_ns": h.range_ns().map(|r| r.1),
    })
}
