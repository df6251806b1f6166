//! The evidence that explains most, arm beside arm.

use super::Table;
use crate::series::{Layout, Names, Placed};
use crate::text;

/// What is shown: item, label, the column's head. Everything else stands arm by arm.
const COLUMNS: &[(&str, Option<&str>, &str)] = &[
    ("cpu_share", Some("user"), "CPU user"),
    ("cpu_share", Some("system"), "CPU system"),
    ("cpu_share", Some("idle"), "CPU idle"),
    ("cpu_share", Some("steal"), "CPU stolen"),
    ("cpu_used", Some("load user"), "load, user (CPUs)"),
    ("involuntary_switches", Some("server"), "server preempted (1/s)"),
    ("voluntary_switches", Some("server"), "server blocked (1/s)"),
    ("involuntary_switches", Some("load"), "load preempted (1/s)"),
    ("run_queue_waiting", Some("server"), "server tasks waiting for a CPU"),
    ("run_queue_wait_mean_us", Some("server"), "server wait for a CPU (us)"),
    ("run_queue_wait_mean_us", Some("load"), "load wait for a CPU (us)"),
    ("migrations", Some("server"), "server migrations (1/s)"),
    ("minor_faults", Some("server"), "server minor faults (1/s)"),
    ("pressure_share", Some("cpu some"), "CPU pressure"),
];

/// The table of a workload that has any of the columns.
pub(crate) fn table(layout: &Layout<'_>, names: &Names) -> Option<Table> {
    let value = |placed: &Placed<'_>, column: usize| {
        let (name, label, _) = COLUMNS[column];
        let all = placed.summary.map(|s| s.evidence.as_slice()).unwrap_or_default();
        let item = all.iter().find(|e| e.name == name && e.label.as_deref() == label)?;
        item.mean.map(|mean| if item.unit == "share" { percent(mean) } else { text::number(mean) })
    };
    let has = |c: &usize| layout.arms.iter().any(|a| value(a, *c).is_some());
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(has).collect();
    if shown.is_empty() {
        return None;
    }
    let mut table = Table::numbers("arm", shown.iter().map(|c| COLUMNS[*c].2.to_owned()));
    for cell in layout.cells() {
        for placed in layout.at(cell) {
            let name = format!("{}, {}", layout.cell_name(cell), names.0[placed.series].text);
            let cells = shown.iter().map(|c| value(&placed, *c).unwrap_or_else(|| "–".to_owned()));
            table.row(std::iter::once(name).chain(cells).collect());
        }
    }
    Some(table)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
