//! The CPU limit of the control group, and stalls.

use super::{CellKind, List, Row, column, sums};
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Group",
    columns: &[column("of the time", CellKind::Text), column("share", CellKind::Share)],
    empty: "neither pressure nor limits of control groups can be read here",
    rows,
    more: None,
    has_stacks: false,
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let windows = bundle.trials.len().max(1) as f64;
    let named = |collector: &str, item: &str, what: &str| -> Vec<Row> {
        let all = sums(bundle, collector, item);
        let row = |(label, sum): (String, f64)| {
            let name = if label.is_empty() { what.to_owned() } else { format!("{what}: {label}") };
            Row::new(name, vec![Some(sum / windows)])
        };
        all.into_iter().map(row).collect()
    };
    [
        named("cgroup-throttling", "cgroup_throttled_share", "throttled by the CPU limit of its control group"),
        named("pressure", "group_pressure_share", "tasks of its control group stall"),
        named("pressure", "pressure_share", "tasks of the host stall"),
    ]
    .concat()
}
