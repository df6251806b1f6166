//! sysbench: what it prints, with its histogram and its intervals.

use super::{Kind, metric};
use crate::number::{Row, leading, leading_ns, measured, metrics_of, range, samples};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "sysbench",
        summary: "sysbench's output, with --histogram and --report-interval",
        docs: "Outputs may follow each other in one file: each is a run. The output does not name the test, so compare outputs of one command. Where the test \
               prints no throughput, it is the number of events over the total time. Latencies have steps of 0.01 ms: 0.00 is absent, and not 0. A \
               percentile of sysbench is the bound of a bucket that is 1.8 % wide; with `--histogram` the distribution is read. sysbench measures a closed \
               loop: while one event is late, its thread begins no other one, so that percentiles are too good.",
        references: &["sysbench 1.0.20, src/sysbench.c:print_run_mode, src/sb_histogram.c, src/sb_logger.c"],
    },
    looks_like: |head| {
        head.lines().any(|line| line.starts_with("sysbench ") && line.contains("using ")) || is_old(head)
    },
    read,
    folder: None,
};

fn is_old(head: &str) -> bool {
    head.lines().any(|line| line.starts_with("sysbench 0."))
}

const ROWS: &[Row] = &[
    ("transactions: ", "tps", "1/s", Higher, "transactions per second"),
    ("queries: ", "queries_per_s", "1/s", Higher, "queries per second"),
    ("events per second: ", "events_per_s", "1/s", Higher, "events per second"),
    ("events/s (eps): ", "events_per_s", "1/s", Higher, "events per second"),
    ("Total operations: ", "operations_per_s", "1/s", Higher, "operations on the memory per second"),
    ("reads/s: ", "reads_per_s", "1/s", Higher, "reads per second"),
    ("writes/s: ", "writes_per_s", "1/s", Higher, "writes per second"),
    ("fsyncs/s: ", "fsyncs_per_s", "1/s", Higher, "calls of fsync per second"),
    ("read, MiB/s: ", "read_mib_per_s", "MiB/s", Higher, "data that was read"),
    ("written, MiB/s: ", "written_mib_per_s", "MiB/s", Higher, "data that was written"),
    ("MiB transferred (", "mib_per_s", "MiB/s", Higher, "data that was moved in memory"),
    ("avg: ", "latency_mean_ms", "ms", Lower, "mean time of an event"),
    ("max: ", "latency_max_ms", "ms", Lower, "time of the longest event"),
    ("ignored errors: ", "errors_per_s", "1/s", Lower, "errors per second that were ignored"),
];

/// Lines whose rate stands in parentheses: `transactions: 20036 (2003.36 per sec.)`.
const RATES: &[&str] = &["transactions: ", "queries: ", "Total operations: ", "ignored errors: "];

/// Settings by how their lines begin.
const SETTINGS: &[(&str, &str)] = &[
    ("Number of threads: ", "threads"),
    ("Prime numbers limit: ", "prime_limit"),
    ("block size: ", "block_size"),
    ("Block size ", "block_size"),
    ("operation: ", "operation"),
    ("Doing ", "test"),
];

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    latency: Histogram,
    in_histogram: bool,
    in_latency: bool,
    events: Option<f64>,
    time_s: Option<f64>,
    percentile: Option<(f64, f64)>,
    intervals: Vec<f64>,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    let mut run: Option<Run> = None;
    while let Some(line) = input.line()? {
        if line.starts_with("sysbench 0.") {
            return Err(input.problem(format!("{line:?}: outputs of version 1.0 and later are read")));
        }
        if line.starts_with("sysbench ") && line.contains("using ") {
            finish(run.replace(Run::default()), &mut results);
        }
        if let Some(run) = &mut run {
            of_line(input, &line, run)?;
        }
    }
    finish(run, &mut results);
    results.cautions.push(
        "sysbench measures a closed loop: an event that is late delays others, so percentiles are too good.".to_owned(),
    );
    Ok(results)
}

fn of_line(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    let text = line.trim_start();
    if let Some(value) = SETTINGS.iter().find_map(|(begin, label)| Some((label, text.strip_prefix(begin)?))) {
        run.sample.labels.insert((*value.0).to_owned(), value.1.trim().to_owned());
    } else if line.starts_with("Latency histogram") {
        run.in_histogram = true;
    } else if run.in_histogram && text.contains('|') {
        let (value, rest) = text.split_once('|').unwrap_or((text, ""));
        let count = samples(leading(input, rest.trim_start_matches(['*', ' ']))?, |why| input.problem(why))?;
        run.latency.record_n_ns(leading_ns(input, value, 1e6)?, count);
    } else if text.starts_with("[ ") {
        let rate = ["tps: ", "eps: "].iter().find_map(|begin| text.split_once(begin));
        run.intervals.extend(rate.map(|(_, rest)| leading(input, rest)).transpose()?);
    } else if line.starts_with("FATAL") {
        run.sample.void.get_or_insert_with(|| line.to_owned());
    } else if let Some(at) = text.find("MiB transferred (") {
        run.sample.measurements.extend(measured(input, &text[at..], ROWS)?);
    } else if line.starts_with("Latency (ms):") {
        (run.in_latency, run.in_histogram) = (true, false);
    } else if let Some(time) = text.strip_prefix("total time: ").or_else(|| text.strip_prefix("time elapsed: ")) {
        run.time_s = Some(leading(input, time)?);
    } else if let Some(events) = text.strip_prefix("total number of events: ") {
        run.events = Some(leading(input, events)?);
    } else if let Some((share, value)) = text.split_once("th percentile:").filter(|_| run.in_latency) {
        run.percentile = Some((leading(input, share)?, leading(input, value)?));
    } else if let Some(begin) = RATES.iter().find(|begin| text.starts_with(**begin)) {
        let rate =
            text.split_once('(').map(|(_, rate)| rate).ok_or_else(|| input.problem("no rate: the line was cut"))?;
        run.sample.measurements.extend(measured(input, &format!("{begin}{rate}"), ROWS)?);
    } else if let Some(value) = measured(input, text, ROWS)? {
        let is_zero = value.metric.ends_with("_ms") && value.value.value() == Some(0.0);
        let value = if is_zero { Measurement::absent(value.metric, BELOW) } else { value };
        run.sample.measurements.push(value);
    }
    Ok(())
}

const BELOW: &str = "less than 0.005 ms, which sysbench prints as 0.00";

fn finish(run: Option<Run>, results: &mut Results) {
    let Some(mut run) = run else { return };
    let measurements = &mut run.sample.measurements;
    if let (Some(events), Some(time_s)) = (run.events, run.time_s) {
        let throughput = ["tps", "events_per_s", "operations_per_s", "reads_per_s"];
        if time_s > 0.0 && !measurements.iter().any(|m| throughput.contains(&m.metric.as_str())) {
            measurements.insert(0, Measurement::new("events_per_s", events / time_s));
        }
        run.sample.length_ns = Some((time_s * 1e9) as u64);
    } else if run.sample.void.is_none() {
        let intervals = run.intervals.len();
        run.sample.void =
            Some(format!("the output ends before the total time, after {intervals} intervals: the run was cut"));
    }
    if let Some((share, value)) = run.percentile {
        let id = format!("latency_p{share}_ms").replace('.', "");
        let summary = format!("{share} of 100 events took at most this");
        results.add_metric(metric(&id, "ms", Lower, &summary));
        measurements.push(match (run.latency.count(), value) {
            (0, 0.0) => Measurement::absent(id, BELOW),
            (0, value) => Measurement::percentile_of(&id, value, share / 100.0, run.events.unwrap_or(0.0)),
            _ => Measurement::percentile(&id, &run.latency, share / 100.0, 1e6),
        });
    }
    if run.latency.count() > 0 {
        run.sample.histograms.push(NamedHistogram { name: "latency".to_owned(), histogram: run.latency });
    }
    if let Some((least, most)) = range(&run.intervals) {
        run.sample.notes.push(format!("{} intervals, of {least} to {most} events per second", run.intervals.len()));
    }
    results.samples.push(run.sample);
}
