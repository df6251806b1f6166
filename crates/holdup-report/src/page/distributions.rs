//! The distributions that collectors brought, as tables of quantiles.

use super::Table;
use crate::merge::{self, HistogramKey};
use crate::series::{Layout, Names};
use crate::text::{self, clean};
use holdup_model::{BundleData, SparseHistogram};
use std::collections::BTreeMap;

/// The quantiles of a table, with their heads.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// Fewer samples than this beyond a quantile mark it as thin.
const FEW_SAMPLES: f64 = 10.0;

/// The most distributions of a table; labels can be many (each worker thread of the kernel), and most of them are rare.
const MOST_ROWS: usize = 60;

/// The distributions of one cell of a workload.
pub(crate) struct Distributions {
    pub(crate) cell: String,
    pub(crate) table: Table,
    /// What is not in the table; empty when all is.
    pub(crate) rest: String,
}

/// One table for each cell that has distributions.
pub(crate) fn tables(bundle: &BundleData, layout: &Layout<'_>, names: &Names) -> Vec<Distributions> {
    layout.cells().into_iter().filter_map(|cell| table(bundle, layout, names, cell)).collect()
}

fn table(
    bundle: &BundleData,
    layout: &Layout<'_>,
    names: &Names,
    cell: (usize, Option<usize>),
) -> Option<Distributions> {
    let arms: Vec<(String, BTreeMap<HistogramKey<'_>, SparseHistogram>)> = layout
        .at(cell)
        .into_iter()
        .map(|placed| {
            let trials = bundle.trials.iter().filter(|t| t.is_done() && t.arm == placed.arm.id);
            (names.0[placed.series].text.clone(), merge::histograms(trials))
        })
        .collect();
    let mut counts: BTreeMap<HistogramKey<'_>, u64> = BTreeMap::new();
    for (key, histogram) in arms.iter().flat_map(|(_, all)| all) {
        *counts.entry(*key).or_default() += histogram.count();
    }
    counts.retain(|_, count| *count > 0);
    let mut ranked: Vec<(u64, HistogramKey<'_>)> = counts.iter().map(|(key, count)| (*count, *key)).collect();
    ranked.sort_by_key(|(count, key)| (std::cmp::Reverse(*count), *key));
    let rest = match ranked.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("{} with fewer durations are in the bundle alone.", text::count(more, "distribution")),
    };
    ranked.truncate(MOST_ROWS);
    let mut keys: Vec<HistogramKey<'_>> = ranked.into_iter().map(|(_, key)| key).collect();
    keys.sort_unstable();
    let quantiles = QUANTILES.iter().map(|(_, head)| (*head).to_owned());
    let mut table = Table::numbers("what", ["arm".to_owned(), "count".to_owned()].into_iter().chain(quantiles));
    table.head[1].1 = false;
    table.head.push(("longest".to_owned(), true));
    for key in keys {
        for (arm, all) in &arms {
            if let Some(histogram) = all.get(&key) {
                table.row(row(key, arm, histogram));
            }
        }
    }
    (!table.rows.is_empty()).then(|| Distributions { cell: layout.cell_name(cell), table, rest })
}

fn row((collector, name, label): HistogramKey<'_>, arm: &str, histogram: &SparseHistogram) -> Vec<String> {
    let what = name.strip_suffix("_ns").unwrap_or(name).replace('_', " ");
    let label = label.map(|l| format!(", {l}")).unwrap_or_default();
    let mut cells = vec![
        clean(&format!("{collector}: {what}{label}")),
        arm.to_owned(),
        text::grouped(&histogram.count().to_string()),
    ];
    for (quantile, _) in QUANTILES {
        let thin = if histogram.samples_beyond(quantile) < FEW_SAMPLES { " (thin)" } else { "" };
        let value = histogram.quantile_ns(quantile);
        cells.push(value.map_or_else(|| "–".to_owned(), |ns| format!("{}{thin}", text::latency(ns as f64))));
    }
    cells.push(histogram.range_ns().map_or_else(|| "–".to_owned(), |(_, longest)| text::latency(longest as f64)));
    cells
}
