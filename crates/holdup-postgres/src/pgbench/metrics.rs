//! From counts and histograms to metrics.

use super::parameters::Settings;
use super::summary::Summary;
use crate::pgbench_log::LogCounts;
use holdup_load::combine::Combination;
use holdup_model::{Direction, Histogram, Measurement, Metric};

use Direction::{Higher, Lower};

/// Every metric: id, unit, direction, one line.
const METRICS: &[(&str, &str, Direction, &str)] = &[
    ("tps", "1/s", Higher, "transactions that ended well inside the window, per second of it"),
    ("latency_mean_us", "us", Lower, "mean latency; with a rate from the scheduled start"),
    ("latency_p50_us", "us", Lower, "median latency"),
    ("latency_p95_us", "us", Lower, "95th percentile of latency"),
    ("latency_p99_us", "us", Lower, "99th percentile of latency"),
    ("latency_p999_us", "us", Lower, "99.9th percentile of latency"),
    ("think_mean_us", "us", Lower, "mean time of a client between transactions: its pgbench thread served others"),
    ("failed_transactions", "1", Lower, "transactions that failed for good inside the window"),
    ("retried_transactions", "1", Lower, "transactions inside the window that were tried more than once"),
    ("skipped", "1", Lower, "transactions inside the window that were skipped because they were too late"),
    ("schedule_lag_mean_us", "us", Lower, "mean of how late transactions started; with a rate only"),
    ("connect_ms", "ms", Lower, "time until all clients were connected, before the load"),
    ("pgbench_tps", "1/s", Higher, "what pgbench itself says, over the whole load with its warm-up"),
];

/// The percentiles among them.
const PERCENTILES: [(&str, f64); 4] =
    [("latency_p50_us", 0.5), ("latency_p95_us", 0.95), ("latency_p99_us", 0.99), ("latency_p999_us", 0.999)];

/// The metrics that the workload has.
pub fn metrics() -> Vec<Metric> {
    METRICS
        .iter()
        .map(|(id, unit, better, summary)| Metric {
            id: (*id).to_owned(),
            unit: (*unit).to_owned(),
            better: *better,
            summary: (*summary).to_owned(),
        })
        .collect()
}

/// How the metrics of several client hosts become one.
pub(super) fn combine(metric: &str) -> Combination {
    match metric {
        // Each host counts from its own start, and they start together.
        "connect_ms" => Combination::Largest { unit_ns: 1e6 },
        _ => Combination::usual(metric, "tps"),
    }
}

fn given(id: &str, value: Option<f64>, absent: &str) -> Measurement {
    match value {
        Some(value) => Measurement::new(id, value),
        None => Measurement::absent(id, absent),
    }
}

fn percentile(id: &str, quantile: f64, latency: &Histogram) -> Measurement {
    match latency.count() {
        0 => Measurement::absent(id, NONE_ENDED),
        _ => Measurement::percentile(id, latency, quantile, 1e3),
    }
}

const NONE_ENDED: &str = "no transaction ended inside the window";

/// All metrics of a trial, in the order of the table.
pub(crate) fn measure(
    settings: &Settings,
    length_ns: u64,
    counts: &LogCounts,
    latency: &Histogram,
    summary: &Summary,
) -> Vec<Measurement> {
    let mean = |sum_us: u64| (counts.completed > 0).then(|| sum_us as f64 / counts.completed as f64);
    let tps = (length_ns > 0).then(|| counts.completed as f64 / (length_ns as f64 / 1e9));
    let rate = settings.rate.is_some();
    let mut all = vec![
        given("tps", tps, "the window has no length"),
        given("latency_mean_us", mean(counts.latency_sum_us), NONE_ENDED),
    ];
    all.extend(PERCENTILES.map(|(id, quantile)| percentile(id, quantile, latency)));
    all.push(if rate {
        Measurement::absent("think_mean_us", "with a rate a client waits for its next scheduled start")
    } else {
        let thinks = (counts.thinks > 0).then(|| counts.think_sum_us as f64 / counts.thinks as f64);
        given("think_mean_us", thinks, "no client had two transactions")
    });
    all.push(Measurement::new("failed_transactions", counts.failed as f64));
    all.push(given(
        "retried_transactions",
        (settings.max_tries != 1).then_some(counts.retried as f64),
        "max_tries is 1: nothing is tried again",
    ));
    all.push(match settings.latency_limit_ns {
        Some(_) => Measurement::new("skipped", counts.skipped as f64),
        None if rate => Measurement::absent("skipped", "no latency_limit is set: nothing is skipped"),
        None => Measurement::absent("skipped", "no rate is set"),
    });
    all.push(if rate {
        given("schedule_lag_mean_us", mean(counts.lag_sum_us), NONE_ENDED)
    } else {
        Measurement::absent("schedule_lag_mean_us", "no rate is set")
    });
    all.push(given("connect_ms", summary.connect_ms, "pgbench did not print it"));
    all.push(given("pgbench_tps", summary.tps, "pgbench did not print it"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Measured;

    fn measured(settings: &Settings, counts: &LogCounts, samples: u64) -> Vec<Measurement> {
        let mut latency = Histogram::new();
        for i in 1..=samples {
            latency.record_ns(i * 1000);
        }
        measure(settings, 2_000_000_000, counts, &latency, &Summary::default())
    }

    fn value<'a>(all: &'a [Measurement], id: &str) -> &'a Measured {
        &all.iter().find(|m| m.metric == id).unwrap().value
    }

    #[test]
    fn every_metric_is_there_once_and_in_order() {
        let settings = Settings::from(&holdup_catalogue::pgbench::Parameters::defaults(2)).unwrap();
        let ids: Vec<String> = measured(&settings, &LogCounts::default(), 0).into_iter().map(|m| m.metric).collect();
        let expect: Vec<String> = metrics().into_iter().map(|m| m.id).collect();
        assert_eq!(ids, expect);
    }

    #[test]
    fn thin_percentiles_are_absent() {
        let settings = Settings::from(&holdup_catalogue::pgbench::Parameters::defaults(2)).unwrap();
        let counts = LogCounts { completed: 999, latency_sum_us: 499_500, ..LogCounts::default() };
        let all = measured(&settings, &counts, 999);
        assert_eq!(value(&all, "tps"), &Measured::Value(499.5));
        assert_eq!(value(&all, "latency_mean_us"), &Measured::Value(500.0));
        assert!(value(&all, "latency_p95_us").value().is_some());
        assert_eq!(
            value(&all, "latency_p99_us"),
            &Measured::Absent("999 samples, 9.9 beyond it; 10 are needed".to_owned())
        );
        assert!(value(&measured(&settings, &counts, 1000), "latency_p99_us").value().is_some());
    }

    #[test]
    fn nothing_measured_is_not_zero() {
        let mut settings = Settings::from(&holdup_catalogue::pgbench::Parameters::defaults(2)).unwrap();
        let none = measured(&settings, &LogCounts::default(), 0);
        assert_eq!(value(&none, "tps"), &Measured::Value(0.0), "none ended: that is a throughput of zero");
        assert_eq!(value(&none, "latency_p50_us"), &Measured::Absent(NONE_ENDED.to_owned()));
        for id in ["latency_mean_us", "retried_transactions", "skipped", "schedule_lag_mean_us", "connect_ms"] {
            assert_eq!(value(&none, id).value(), None, "{id}");
        }
        settings.rate = Some(10.0);
        settings.latency_limit_ns = Some(5);
        settings.max_tries = 2;
        let counts = LogCounts { completed: 4, lag_sum_us: 8, retried: 3, skipped: 2, ..LogCounts::default() };
        let some = measured(&settings, &counts, 4);
        let expect = [("schedule_lag_mean_us", 2.0), ("retried_transactions", 3.0), ("skipped", 2.0)];
        for (id, number) in expect {
            assert_eq!(value(&some, id), &Measured::Value(number), "{id}");
        }
    }
}
