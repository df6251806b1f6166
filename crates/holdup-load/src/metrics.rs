//! Tables of metrics.

use holdup_model::{Direction, Metric};

/// One row of a workload's table of metrics: id, unit, direction, summary.
pub type Row = (&'static str, &'static str, Direction, &'static str);

/// A table as the catalogue wants it.
pub fn table(rows: &[Row]) -> Vec<Metric> {
    rows.iter()
        .map(|(id, unit, better, summary)| Metric {
            id: (*id).to_owned(),
            unit: (*unit).to_owned(),
            better: *better,
            summary: (*summary).to_owned(),
        })
        .collect()
}
