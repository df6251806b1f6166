//! Who takes the CPU from whom.

use super::{CellKind, List, Row, column, grouped, length_s, lines, sums};
use crate::families::parts;
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Preemption",
    columns: &[
        column("task < the one that took its CPU", CellKind::Text),
        column("off the CPU", CellKind::Tasks),
        column("times", CellKind::Rate),
        column("each", CellKind::Time),
    ],
    empty: "no watched task lost its CPU while it was runnable, or switches are not watched (it takes root)",
    rows,
    more: Some(more),
    has_stacks: false,
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let times = sums(bundle, "switches", "preempted_by");
    let all_s = length_s(bundle);
    let row = |(name, s): (String, f64)| {
        let n = times.get(&name).copied();
        Row::new(name, vec![Some(s / all_s), n.map(|n| n / all_s), n.map(|n| s / n.max(1.0))])
    };
    sums(bundle, "switches", "preempted_by_off_cpu_s").into_iter().map(row).collect()
}

fn more(bundle: &BundleData, _name: &str) -> Vec<String> {
    let causes = grouped(&sums(bundle, "switches", "preempted_off_cpu_s"), |label| {
        let [_, cause] = parts(label, ": ");
        Some(cause.to_owned())
    });
    let behind = grouped(&sums(bundle, "account", "behind_s"), |label| {
        let [_, _, task] = parts(label, " | ");
        Some(task.to_owned())
    });
    let title = |text: &str| vec![text.to_owned()];
    [
        title("Why tasks lost their CPU, by the time that they were off it:"),
        lines(causes, 6),
        title("Tasks outside that sessions are runnable behind:"),
        lines(behind, 8),
    ]
    .concat()
}
