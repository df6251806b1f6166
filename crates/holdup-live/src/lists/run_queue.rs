//! How long tasks wait for a CPU.

use super::{CellKind, List, Row, column, histograms, length_s};
use holdup_model::BundleData;

pub(super) const LIST: List = List {
    title: "Queue",
    columns: &[
        column("waits for a CPU", CellKind::Text),
        column("waits", CellKind::Rate),
        column("median", CellKind::Time),
        column("p99", CellKind::Time),
        column("p99.9", CellKind::Time),
        column("longest", CellKind::Time),
    ],
    empty: "no task waited for a CPU, or switches are not watched (it takes root)",
    rows,
    more: None,
    has_stacks: false,
};

fn rows(bundle: &BundleData) -> Vec<Row> {
    let all_s = length_s(bundle);
    let mut waits = histograms(bundle, "switches", "run_queue_wait_ns");
    for (cpu, of_cpu) in histograms(bundle, "switches", "run_queue_wait_by_cpu_ns") {
        waits.insert(format!("CPU {cpu}"), of_cpu);
    }
    let row = |(name, waits): (String, holdup_model::SparseHistogram)| {
        let at = |quantile| waits.quantile_ns(quantile).map(|ns| ns as f64 / 1e9);
        let longest = waits.range_ns().map(|(_, ns)| ns as f64 / 1e9);
        Row::new(name, vec![Some(waits.count() as f64 / all_s), at(0.5), at(0.99), at(0.999), longest])
    };
    waits.into_iter().filter(|(_, waits)| waits.count() > 0).map(row).collect()
}
