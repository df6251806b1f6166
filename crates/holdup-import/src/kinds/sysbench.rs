//! sysbench: what it prints, with its histogram and its intervals.

use super::{Kind, metric};
use crate::number::{Row, ValueRange, leading, leading_ns, length_ns, measured, metrics_of, samples};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "sysbench",
        summary: "sysbench's output of all versions, --histogram, --report-interval",
        docs: "Outputs may follow each other in one file: each is a run. Since 1.0 the output does not name the test, so compare outputs of one command. Where the test \
               prints no throughput, it is the number of events over the total time. Latencies have steps of 0.01 ms: 0.00 is absent, and not 0. A \
               percentile of sysbench is the bound of a bucket that is 1.8 % wide; with `--histogram` the distribution is read. sysbench measures a closed \
               loop: while one event is late, its thread begins no other one, so that percentiles are too good. With `--report-checkpoints` each block begins at \
               0: the last one counts. \
               Before 1.0 there is no distribution. The percentile of 0.4.12 lies between the event that it is of and the next longer one; where there is no next \
               one it is the end of the scale, 10000000.00 ms, which is absent. Its latencies of files do not have the time of fsync.",
        references: &[
            "sysbench 1.0.20, src/sysbench.c:print_run_mode, src/sb_histogram.c, src/sb_logger.c",
            "sysbench 0.4.12 (ff225a7), 0.5 (b23a7db): sysbench/sb_logger.c:print_global_stats, sb_percentile.c, db_driver.c, tests/",
        ],
    },
    looks_like: |head| head.lines().any(is_header),
    read,
    folder: None,
};

/// `sysbench 1.0.20 (using …)`, and before that `sysbench 0.4.12:  multi-threaded system evaluation benchmark`.
fn is_header(line: &str) -> bool {
    line.starts_with("sysbench ")
        && (line.contains("using ") || line.contains("multi-threaded system evaluation benchmark"))
}

const ROWS: &[Row] = &[
    ("transactions: ", "tps", "1/s", Higher, "transactions per second"),
    ("queries: ", "queries_per_s", "1/s", Higher, "queries per second"),
    ("read/write requests: ", "requests_per_s", "1/s", Higher, "reads and writes per second"),
    ("events per second: ", "events_per_s", "1/s", Higher, "events per second"),
    ("events/s (eps): ", "events_per_s", "1/s", Higher, "events per second"),
    ("Total operations: ", "operations_per_s", "1/s", Higher, "operations on the memory per second"),
    ("reads/s: ", "reads_per_s", "1/s", Higher, "reads per second"),
    ("writes/s: ", "writes_per_s", "1/s", Higher, "writes per second"),
    ("fsyncs/s: ", "fsyncs_per_s", "1/s", Higher, "calls of fsync per second"),
    ("read, MiB/s: ", "read_mib_per_s", "MiB/s", Higher, "data that was read"),
    ("written, MiB/s: ", "written_mib_per_s", "MiB/s", Higher, "data that was written"),
    ("MiB transferred (", "mib_per_s", "MiB/s", Higher, "data that was moved"),
    ("avg: ", "latency_mean_ms", "ms", Lower, "mean time of an event"),
    ("max: ", "latency_max_ms", "ms", Lower, "time of the longest event"),
    ("deadlocks: ", "deadlocks_per_s", "1/s", Lower, "transactions per second that met a deadlock and began again"),
    ("ignored errors: ", "errors_per_s", "1/s", Lower, "errors per second that were ignored"),
];

/// Lines whose rate stands in parentheses: `transactions: 20036 (2003.36 per sec.)`.
const RATES: &[&str] =
    &["transactions: ", "queries: ", "read/write requests: ", "Total operations: ", "deadlocks: ", "ignored errors: "];

/// What `Operations performed:` of a test of files counts.
const COUNTS: &[(&str, &str)] = &[(" reads", "reads_per_s"), (" writes", "writes_per_s"), (" Other", "fsyncs_per_s")];

/// Settings by how their lines begin.
const SETTINGS: &[(&str, &str)] = &[
    ("Number of threads: ", "threads"),
    ("Prime numbers limit: ", "prime_limit"),
    ("block size: ", "block_size"),
    ("Block size ", "block_size"),
    ("Primer numbers limit: ", "prime_limit"),
    ("Memory block size: ", "block_size"),
    ("Memory operations type: ", "operation"),
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
    /// A whole block of results was read.
    is_reported: bool,
    checkpoints: u32,
    events: Option<f64>,
    time_s: Option<f64>,
    /// Operations of a test of files, by their metric.
    counts: BTreeMap<&'static str, f64>,
    percentile: Option<(f64, f64)>,
    intervals: ValueRange,
}

impl Run {
    /// What is of a block of results: that of an earlier checkpoint is left out.
    fn begin_block(&mut self) {
        if std::mem::take(&mut self.is_reported) {
            self.checkpoints += 1;
            self.sample.measurements.clear();
            self.counts.clear();
            self.percentile = None;
            self.latency = Histogram::new();
        }
    }

    fn keep(&mut self, measurement: Measurement) {
        self.begin_block();
        self.sample.measure(measurement);
    }
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    let mut ids = results.metric_ids();
    let mut run: Option<Run> = None;
    while let Some(line) = input.line()? {
        if is_header(&line) {
            finish(input, run.replace(Run::default()), &mut results, &mut ids)?;
        }
        if let Some(run) = &mut run
            && !of_old_line(input, line.trim_start(), run)?
        {
            of_line(input, &line, run)?;
        }
    }
    finish(input, run, &mut results, &mut ids)?;
    results.cautions.push(
        "sysbench measures a closed loop: an event that is late delays others, so percentiles are too good.".to_owned(),
    );
    Ok(results)
}

/// What versions before 1.0 print in their own way.
fn of_old_line(input: &Input<'_>, text: &str, run: &mut Run) -> Result<bool, Problem> {
    if let Some(operations) = text.strip_prefix("Operations performed: ") {
        match operations.split_once('(') {
            Some((_, rate)) => run.keep(Measurement::new("operations_per_s", leading(input, rate)?)),
            None => {
                run.begin_block();
                for part in operations.split([',', '=']).map(str::trim) {
                    let count = COUNTS.iter().find_map(|(end, metric)| Some((*metric, part.strip_suffix(end)?)));
                    run.counts.extend(count.map(|(metric, text)| Ok((metric, leading(input, text)?))).transpose()?);
                }
            }
        }
    } else if let Some((_, moved)) = text.strip_prefix("Read ").and_then(|text| text.split_once("Total transferred ")) {
        let (_, rate) = moved.split_once('(').ok_or_else(|| input.problem("no rate: the line was cut"))?;
        run.keep(Measurement::new("mib_per_s", mib(input, rate)?));
    } else if let Some(rate) = text.strip_suffix(" Requests/sec executed") {
        run.keep(Measurement::new("requests_per_s", leading(input, rate)?));
    } else if let Some((_, rate)) = text.split_once(" MB transferred (") {
        run.keep(Measurement::new("mib_per_s", leading(input, rate)?));
    } else if let Some((share, value)) = text.strip_prefix("approx.").and_then(|text| text.split_once("percentile:")) {
        run.percentile = Some((leading(input, share)?, milliseconds(input, value)?));
    } else if let Some(mode) = text.strip_prefix("Running ").and_then(|text| text.strip_suffix(" test")) {
        run.sample.labels.insert("mode".to_owned(), mode.to_owned());
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `112.25Mb/sec`, where b is a byte and M is 1024 times K.
fn mib(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".,e+-".contains(c));
    let of_mib = match unit.chars().next() {
        Some('G') => 1024.0,
        Some('M') => 1.0,
        Some('K') => 1.0 / 1024.0,
        Some('b') => 1.0 / 1024.0 / 1024.0,
        _ => return Err(input.problem(format!("{text:?} has no unit that is known: b, Kb, Mb, Gb"))),
    };
    Ok(leading(input, text)? * of_mib)
}

/// A time in ms; before 2007 it is in seconds.
fn milliseconds(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let is_seconds = text.trim_end().strip_suffix('s').is_some_and(|text| !text.ends_with('m'));
    Ok(leading(input, text)? * if is_seconds { 1e3 } else { 1.0 })
}

fn of_line(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    let text = line.trim_start();
    if let Some(value) = SETTINGS.iter().find_map(|(begin, label)| Some((label, text.strip_prefix(begin)?))) {
        run.sample.labels.insert((*value.0).to_owned(), value.1.trim().to_owned());
    } else if line.starts_with("Latency histogram") {
        run.begin_block();
        run.in_histogram = true;
    } else if run.in_histogram && text.contains('|') {
        let (value, rest) = text.split_once('|').unwrap_or((text, ""));
        let count = samples(leading(input, rest.trim_start_matches(['*', ' ']))?, |why| input.problem(why))?;
        run.latency.record_n_ns(leading_ns(input, value, 1e6)?, count);
    } else if text.starts_with('[') {
        let rate = ["tps: ", "eps: "].iter().find_map(|begin| text.split_once(begin));
        run.intervals.extend(rate.map(|(_, rest)| leading(input, rest)).transpose()?);
    } else if line.starts_with("FATAL") {
        run.sample.void.get_or_insert_with(|| line.to_owned());
    } else if line.starts_with("Threads fairness") {
        run.is_reported = true;
    } else if let Some(at) = text.find("MiB transferred (") {
        run.keep(Measurement::new("mib_per_s", leading(input, &text[at + "MiB transferred (".len()..])?));
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
        if let Some(value) = measured(input, &format!("{begin}{rate}"), ROWS)? {
            run.keep(value);
        }
    } else if let Some(value) = measured(input, text, ROWS)? {
        run.keep(latency(input, text, value)?);
    }
    Ok(())
}

const BELOW: &str = "shorter than what sysbench can print: it prints 0";

/// A latency in ms, absent where it is printed as 0.
fn latency(input: &Input<'_>, text: &str, value: Measurement) -> Result<Measurement, Problem> {
    let Some((_, time)) = text.split_once(':').filter(|_| value.metric.ends_with("_ms")) else { return Ok(value) };
    Ok(match milliseconds(input, time)? {
        0.0 => Measurement::absent(value.metric, BELOW),
        ms => Measurement::new(value.metric, ms),
    })
}

/// Where the scale of 0.4 and 0.5 ends, ms.
const SCALE_END_MS: f64 = 1e7;

fn finish(
    input: &Input<'_>,
    run: Option<Run>,
    results: &mut Results,
    ids: &mut BTreeSet<String>,
) -> Result<(), Problem> {
    let Some(mut run) = run else { return Ok(()) };
    if let (Some(events), Some(time_s)) = (run.events, run.time_s) {
        for (metric, count) in run.counts.iter().filter(|_| time_s > 0.0) {
            run.sample.measurements.push(Measurement::new(*metric, count / time_s));
        }
        let measurements = &mut run.sample.measurements;
        let throughput = ["tps", "events_per_s", "operations_per_s", "reads_per_s"];
        if time_s > 0.0 && !measurements.iter().any(|m| throughput.contains(&m.metric.as_str())) {
            measurements.insert(0, Measurement::new("events_per_s", events / time_s));
        }
        run.sample.length_ns = Some(length_ns(time_s, 1e9, |why| input.problem(why))?);
    } else if run.sample.void.is_none() {
        let intervals = run.intervals.count;
        run.sample.void =
            Some(format!("the output ends before the total time, after {intervals} intervals: the run was cut"));
    }
    if let Some((share, value)) = run.percentile {
        let id = format!("latency_p{share}_ms").replace('.', "");
        let summary = format!("{share} of 100 events took at most this");
        results.add_metric(ids, metric(&id, "ms", Lower, &summary));
        run.sample.measurements.push(match (run.latency.count(), value) {
            (0, 0.0) => Measurement::absent(id, BELOW),
            (0, value) if value >= SCALE_END_MS => {
                Measurement::absent(id, "sysbench prints the end of its scale: no event is longer than it")
            }
            (0, value) => Measurement::percentile_of(&id, value, share / 100.0, run.events.unwrap_or(0.0)),
            _ => Measurement::percentile(&id, &run.latency, share / 100.0, 1e6),
        });
    }
    if run.latency.count() > 0 {
        run.sample.histograms.push(NamedHistogram { name: "latency".to_owned(), histogram: run.latency });
    }
    if let Some((least, most)) = run.intervals.ends() {
        run.sample.notes.push(format!("{} intervals, of {least} to {most} events per second", run.intervals.count));
    }
    if run.checkpoints > 0 {
        run.sample.notes.push(format!("{} checkpoints: the numbers are of the time after the last", run.checkpoints));
    }
    input.keep(results, Some(run.sample))
}
