//! The evidence that explains most, arm beside arm.

use crate::text;
use holdup_model::{Analysis, BundleData};

/// What is shown: collector, item, label, the column's head. Everything else stands arm by arm.
const COLUMNS: &[(&str, &str, Option<&str>, &str)] = &[
    ("cpu", "cpu_share", Some("user"), "CPU user"),
    ("cpu", "cpu_share", Some("system"), "CPU system"),
    ("cpu", "cpu_share", Some("idle"), "CPU idle"),
    ("cpu", "cpu_share", Some("steal"), "CPU stolen"),
    ("cpu", "cpu_used", Some("load user"), "load, user (CPUs)"),
    ("switches", "involuntary_switches", Some("server"), "server preempted (1/s)"),
    ("switches", "voluntary_switches", Some("server"), "server blocked (1/s)"),
    ("switches", "involuntary_switches", Some("load"), "load preempted (1/s)"),
    ("run-queue", "run_queue_waiting", Some("server"), "server tasks waiting for a CPU"),
    ("run-queue", "run_queue_wait_mean_us", Some("server"), "server wait for a CPU (us)"),
    ("run-queue", "run_queue_wait_mean_us", Some("load"), "load wait for a CPU (us)"),
    ("migrations", "migrations", Some("server"), "server migrations (1/s)"),
    ("faults", "minor_faults", Some("server"), "server minor faults (1/s)"),
    ("pressure", "pressure_share", Some("cpu some"), "CPU pressure"),
];

/// One table: the arms of a workload.
pub(crate) struct Table {
    pub(crate) workload: String,
    pub(crate) columns: Vec<&'static str>,
    /// Arm's label and its cells; a dash is not measured.
    pub(crate) rows: Vec<(String, Vec<String>)>,
}

/// A table for each workload that has any of the columns.
pub(crate) fn tables(bundle: &BundleData, analysis: &Analysis) -> Vec<Table> {
    let mut tables = Vec::new();
    for used in &bundle.plan.workloads {
        let arms: Vec<_> = bundle
            .schedule
            .arms
            .iter()
            .filter(|a| a.workload == used.name)
            .filter_map(|a| Some((a, analysis.arms.iter().find(|s| s.arm == a.id)?)))
            .collect();
        let value = |summary: &holdup_model::outcome::ArmSummary, column: usize| {
            let (collector, name, label, _) = COLUMNS[column];
            let item = summary
                .evidence
                .iter()
                .find(|e| e.collector == collector && e.name == name && e.label.as_deref() == label)?;
            item.mean.map(|mean| if item.unit == "share" { percent(mean) } else { text::number(mean) })
        };
        let shown: Vec<usize> =
            (0..COLUMNS.len()).filter(|c| arms.iter().any(|(_, s)| value(s, *c).is_some())).collect();
        if shown.is_empty() {
            continue;
        }
        tables.push(Table {
            workload: used.name.clone(),
            columns: shown.iter().map(|c| COLUMNS[*c].3).collect(),
            rows: arms
                .iter()
                .map(|(arm, summary)| {
                    let cells = shown.iter().map(|c| value(summary, *c).unwrap_or_else(|| "–".to_owned())).collect();
                    (text::clean(&arm.label), cells)
                })
                .collect(),
        });
    }
    tables
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
