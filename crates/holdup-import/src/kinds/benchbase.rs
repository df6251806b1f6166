//! BenchBase: its summary, and its log of single transactions.

use super::{Folder, Kind, metric};
use crate::number::number;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Histogram, Measurement, Meta, Problem};
use std::collections::BTreeMap;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "benchbase",
        summary: "BenchBase's summary.json and raw.csv, or the folder with them",
        docs: "A summary or a raw.csv is a run; in a folder both of one name are one run, whose distribution is that of raw.csv. BenchBase's throughput and \
               latencies are of all transactions that began and ended while it measured, those that failed among them; its goodput is of those that \
               succeeded. raw.csv does not say which failed, and its rate is that between its first begin and its last end. Its column `Start Time \
               (microseconds)` is in seconds. With a rate that the database does not reach, a latency has no time that a transaction waited for its \
               worker.",
        references: &["cmu-db/benchbase, Results.java, api/Worker.java:doWork, util/ResultWriter.java"],
    },
    looks_like: |head| head.starts_with(RAW_HEAD) || head.contains("\"Throughput (requests/second)\""),
    read,
    folder: Some(Folder {
        holds: |path| path.ends_with("summary.json") || path.ends_with("raw.csv"),
        parts: &[],
        join,
    }),
};

const RAW_HEAD: &str = "Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds)";

/// Settings of a summary that distinguish arms.
const SETTINGS: &[(&str, &str)] = &[
    ("Benchmark Type", "benchmark"),
    ("terminals", "terminals"),
    ("scalefactor", "scale"),
    ("isolation", "isolation"),
];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![
            metric("goodput_per_s", "1/s", Higher, "transactions per second that succeeded"),
            metric("requests_per_s", "1/s", Higher, "transactions per second, those that failed among them"),
            metric("latency_p99_us", "us", Lower, "99 of 100 transactions took at most this"),
            metric("latency_p50_us", "us", Lower, "half of the transactions took at most this"),
            metric("latency_mean_us", "us", Lower, "mean time of a transaction"),
            metric("latency_max_us", "us", Lower, "time of the longest transaction"),
        ],
        cautions: vec!["BenchBase's latencies and its throughput are of transactions that failed, too.".to_owned()],
        ..Results::default()
    };
    match input.head(crate::HEAD_BYTES)?.starts_with(RAW_HEAD) {
        true => raw(input, &mut results)?,
        false => summary(input, &mut results)?,
    }
    Ok(results)
}

fn summary(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let document = input.json()?;
    let root = document.root();
    let mut sample = Sample::default();
    for (key, label) in SETTINGS {
        sample.labels.extend(root.text_of(key).map(|value| ((*label).to_owned(), value.to_owned())));
    }
    let requests = root.number_of("Measured Requests")?;
    let latency = root.need("Latency Distribution")?;
    let us = |name: &str| latency.need(&format!("{name} Latency (microseconds)"))?.number();
    let quantile = |id: &str, value: f64, quantile: f64| match requests {
        Some(requests) => Measurement::percentile_of(id, value, quantile, requests),
        // Summaries of 2021 do not say how many there were.
        None => Measurement::new(id, value),
    };
    sample.measurements = vec![
        Measurement::new("requests_per_s", root.need("Throughput (requests/second)")?.number()?),
        Measurement::new("goodput_per_s", root.need("Goodput (requests/second)")?.number()?),
        quantile("latency_p99_us", us("99th Percentile")?, 0.99),
        quantile("latency_p50_us", us("Median")?, 0.5),
        Measurement::new("latency_mean_us", us("Average")?),
        Measurement::new("latency_max_us", us("Maximum")?),
    ];
    if let Some(begin_ms) = root.number_of("Start timestamp (milliseconds)")? {
        sample.begin_unix_ns = Some((begin_ms * 1e6) as i64);
    }
    sample.length_ns = root.get("Elapsed Time (nanoseconds)").map(|ns| ns.length_ns(1.0)).transpose()?;
    let state = root.text_of("Final State").filter(|state| !["DONE", "EXIT"].contains(state));
    sample.void = state.map(|state| format!("BenchBase ended in the state {state}"));
    let database = (root.text_of("DBMS Type"), root.text_of("DBMS Version"));
    if let (Some(name), Some(version)) = database {
        results.facts.push(Fact::read("database.version", format!("{name} {version}"), "BenchBase"));
    }
    input.keep(results, Some(sample))
}

fn raw(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let (mut latency, mut sum_us, mut ends) = (Histogram::new(), 0.0, (f64::INFINITY, 0.0_f64));
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let _ = input.line()?;
    while let Some(line) = input.line()? {
        let columns: Vec<&str> = line.split(',').collect();
        let [_, name, begin, us, _, _] = columns[..] else {
            return Err(
                input.problem(format!("{} of 6 columns: the log was cut, or is of another version", columns.len()))
            );
        };
        let (begin_s, us) = (number(input, begin)?, number(input, us)?);
        if us < 0.0 {
            return Err(
                input.problem(format!("a latency of {us} us: the clock went back, or the column is another one"))
            );
        }
        ends = (ends.0.min(begin_s), ends.1.max(begin_s + us / 1e6));
        sum_us += us;
        latency.record_ns((us * 1e3) as u64);
        match names.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                input.keep_line();
                names.insert(name.to_owned(), 1);
            }
        }
    }
    if latency.count() == 0 {
        return Ok(());
    }
    let length_s = ends.1 - ends.0;
    let sample = Sample {
        begin_unix_ns: Some((ends.0 * 1e9) as i64),
        length_ns: Some((length_s * 1e9) as u64),
        measurements: vec![
            Measurement::new("requests_per_s", latency.count() as f64 / length_s),
            Measurement::percentile("latency_p99_us", &latency, 0.99, 1e3),
            Measurement::percentile("latency_p50_us", &latency, 0.5, 1e3),
            Measurement::new("latency_mean_us", sum_us / latency.count() as f64),
        ],
        histograms: vec![NamedHistogram { name: "latency".to_owned(), histogram: latency }],
        notes: names.iter().map(|(name, count)| format!("{name}: {count} transactions")).collect(),
        ..Sample::default()
    };
    input.keep(results, Some(sample))
}

/// The summary and the log of one run have one name: `NAME.summary.json`, `NAME.raw.csv`.
fn join(files: Vec<(String, Results)>) -> Results {
    let (mut all, mut logs) = (Vec::new(), BTreeMap::new());
    for (path, results) in files {
        match path.split_once("raw.csv") {
            Some((run, _)) => drop(logs.insert(run.to_owned(), results)),
            None => {
                let run = path.split_once("summary.json").map_or(path.as_str(), |(run, _)| run).to_owned();
                all.push((run, results));
            }
        }
    }
    for (run, results) in &mut all {
        let log = logs.remove(run).and_then(|mut log: Results| log.samples.pop());
        if let (Some(summary), Some(log)) = (results.samples.first_mut(), log) {
            summary.histograms = log.histograms;
            summary.notes = log.notes;
        }
    }
    all.into_iter().map(|(_, results)| results).chain(logs.into_values()).collect()
}
