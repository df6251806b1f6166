//! Tables of metrics, and measurements that several workloads share.

use holdup_model::{Direction, Histogram, Measurement, Metric};

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

/// The median, the 99th and the 99.9th percentile of a histogram in us, under these ids.
pub fn percentiles_us(ids: [&str; 3], histogram: &Histogram) -> [Measurement; 3] {
    let [p50, p99, p999] = ids;
    [(p50, 0.5), (p99, 0.99), (p999, 0.999)].map(|(id, quantile)| Measurement::percentile(id, histogram, quantile, 1e3))
}
