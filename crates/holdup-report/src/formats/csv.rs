//! Every trial's metrics as a table for other programs.

use holdup_model::Analysis;
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::foreign::csv_field as field;
use holdup_model::{Arm, BundleData, Measured, TrialStatus};

/// Comma-separated values after RFC 4180, a row for each trial and metric, void trials included, and rows for
/// the count and the quantiles of each histogram of evidence (`COLLECTOR/NAME_p99_ns{LABEL}`). A value that was
/// not measured is an empty field, and `absent` says why. The format has no room for a line above its head: `emulated` says in each row what the times
/// are where they are not those of hardware.
pub fn csv(bundle: &BundleData, _analysis: &Analysis) -> String {
    let mut out = String::from(
        "trial,session,boot,block,position,attempt,state,void_reason,workload,arm,arm_label,replica,levels,\
         begin_unix_ns,window_ns,metric,unit,value,absent,emulated\r\n",
    );
    let emulated = field(bundle.head.emulated.as_deref().unwrap_or_default());
    for trial in &bundle.trials {
        let arm = bundle.schedule.arms.iter().find(|a| a.id == trial.arm);
        let workload = arm.map_or("", |a| a.workload.as_str());
        let (state, reason) = match &trial.status {
            TrialStatus::Done => ("done", ""),
            TrialStatus::Void { reason } => ("void", reason.as_str()),
        };
        let begin = [
            trial.seq.to_string(),
            trial.session.to_string(),
            trial.boot.to_string(),
            trial.block.to_string(),
            trial.position.to_string(),
            trial.attempt.to_string(),
            state.to_owned(),
            field(reason),
            field(workload),
            trial.arm.to_string(),
            field(arm.map_or("", |a| a.label.as_str())),
            replica(arm).to_owned(),
            field(&levels(arm)),
            trial.window.map(|w| w.begin_unix_ns.to_string()).unwrap_or_default(),
            trial.window.map(|w| w.length_ns.to_string()).unwrap_or_default(),
        ]
        .join(",");
        let mut line = |metric: &str, unit: &str, value: &str, absent: &str| {
            out.push_str(&format!(
                "{begin},{},{},{value},{},{emulated}\r\n",
                field(metric),
                field(unit),
                field(absent)
            ));
        };
        for m in &trial.measurements {
            let known = bundle.metrics.iter().find(|(w, k)| w == workload && k.id == m.metric);
            let unit = known.map_or("", |(_, k)| k.unit.as_str());
            match &m.value {
                Measured::Value(v) => line(&m.metric, unit, &v.to_string(), ""),
                Measured::Absent(why) => line(&m.metric, unit, "", why),
            }
        }
        for (c, h) in trial.evidence.iter().flat_map(|c| c.histograms.iter().map(move |h| (c, h))) {
            distribution(&mut line, &c.collector, h);
        }
        if trial.measurements.is_empty() {
            line("", "", "", "the trial has no measurements");
        }
    }
    out
}

/// A histogram of evidence as rows: the number of durations, and their quantiles.
fn distribution(line: &mut impl FnMut(&str, &str, &str, &str), collector: &str, h: &EvidenceHistogram) {
    let bare = h.name.strip_suffix("_ns").unwrap_or(&h.name);
    let label = h.label.as_ref().map(|l| format!("{{{l}}}")).unwrap_or_default();
    line(&format!("{collector}/{bare}_count{label}"), "1", &h.histogram.count().to_string(), "");
    for (quantile, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p999")] {
        let metric = format!("{collector}/{bare}_{name}_ns{label}");
        match h.histogram.quantile_ns(quantile) {
            Some(ns) => line(&metric, "ns", &ns.to_string(), ""),
            None => line(&metric, "ns", "", "no duration was counted"),
        }
    }
}

fn replica(arm: Option<&Arm>) -> &'static str {
    match arm.and_then(|a| a.replica) {
        None => "",
        Some(holdup_model::Replica::Same) => "same",
        Some(holdup_model::Replica::Unobserved) => "unobserved",
    }
}

fn levels(arm: Option<&Arm>) -> String {
    let Some(arm) = arm else { return String::new() };
    let all = arm.axes.iter().chain(&arm.factors);
    all.map(|(name, level)| format!("{name}={}", level.label)).collect::<Vec<_>>().join(" ")
}
