//! pgbench: what it prints at the end, and its logs (`-l`, with or without `--aggregate-interval`).

use super::{Kind, metric};
use crate::number::{Row, count, length_ns, measured, metrics_of, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "pgbench",
        summary: "pgbench's output of all versions, and its logs (-l)",
        docs: "Outputs may follow each other in one file: each is a run. Runs with other clients, threads, scripts, protocols or scales are \
               other arms. Before version 14 the throughput without the time to connect is taken (excluding connections establishing). \
               A log of single transactions (`-l`) becomes a distribution and a throughput over the whole seconds between its first and its last end; pgbench \
               writes one for each thread, so that of one thread is a part. Of a log of intervals (`--aggregate-interval`) only means are known.",
        references: &["src/bin/pgbench/pgbench.c:printResults, doLog (PostgreSQL 18)"],
    },
    looks_like: |head| {
        head.contains("transaction type: ")
            || head.contains("number of transactions actually processed: ")
            || columns(head).is_some()
    },
    read,
    folder: None,
};

/// The settings that distinguish arms, by how their lines begin.
const SETTINGS: &[(&str, &str)] = &[
    ("transaction type: ", "script"),
    ("scaling factor: ", "scale"),
    ("query mode: ", "protocol"),
    ("number of clients: ", "clients"),
    ("number of threads: ", "threads"),
];

/// Numbers by how their lines begin.
const NUMBERS: &[Row] = &[
    ("latency average = ", "latency_mean_ms", "ms", Lower, "mean time of a transaction"),
    ("latency stddev = ", "latency_stddev_ms", "ms", Lower, "standard deviation of the time of a transaction"),
    ("initial connection time = ", "initial_connection_ms", "ms", Lower, "time until all clients were connected"),
    (
        "rate limit schedule lag: avg ",
        "schedule_lag_mean_ms",
        "ms",
        Lower,
        "how late transactions began, on average (-R)",
    ),
];

/// Shares in parentheses, by how their lines begin: metric, meaning. Of all a lower one is better.
const SHARES: &[(&str, &str, &str)] = &[
    ("number of failed transactions: ", "failed_share", "transactions that failed"),
    ("number of transactions skipped: ", "skipped_share", "transactions that were too late to begin (-R with -L)"),
    ("number of transactions above the ", "above_limit_share", "transactions beyond the limit of -L"),
];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let head = input.head(crate::HEAD_BYTES)?;
    let mut results =
        Results { metrics: vec![metric("tps", "1/s", Higher, "transactions per second")], ..Results::default() };
    match columns(&head) {
        Some(Log::Transactions) => transactions(input, &mut results)?,
        Some(Log::Intervals) => intervals(input, &mut results)?,
        None => output(input, &mut results)?,
    }
    Ok(results)
}

fn output(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    results.metrics.extend(metrics_of(NUMBERS));
    results.metrics.extend(SHARES.iter().map(|(_, id, summary)| metric(id, "share", Lower, summary)));
    let mut run: Option<Sample> = None;
    while let Some(line) = input.line()? {
        if line.starts_with("transaction type: ") {
            input.keep(results, run.replace(Sample::default()).map(whole))?;
        }
        let Some(sample) = run.as_mut() else { continue };
        of_line(input, &line, sample, &mut results.cautions)?;
    }
    input.keep(results, run.map(whole))
}

fn of_line(input: &Input<'_>, line: &str, sample: &mut Sample, cautions: &mut Vec<String>) -> Result<(), Problem> {
    if let Some((label, value)) = SETTINGS.iter().find_map(|(begin, label)| Some((label, line.strip_prefix(begin)?))) {
        sample.labels.insert((*label).to_owned(), value.trim().to_owned());
    } else if let Some(measurement) = measured(input, line, NUMBERS)? {
        sample.measure(measurement);
    } else if let Some((_, id, _)) = SHARES.iter().find(|(begin, ..)| line.starts_with(begin)) {
        if let Some(percent) = line.rsplit_once('(').and_then(|(_, rest)| rest.split('%').next()) {
            sample.measure(Measurement::new(*id, number(input, percent)? / 100.0));
        }
    } else if let Some(text) = line.strip_prefix("duration: ") {
        let seconds = number(input, text.trim_end_matches(" s"))?;
        sample.length_ns = Some(length_ns(seconds, 1e9, |why| input.problem(why))?);
    } else if let Some(text) = line.strip_prefix("tps = ") {
        // Before version 14 there are two lines; the second one is what later versions print.
        if line.contains("(including") {
            return Ok(());
        }
        let value = number(input, text.split_whitespace().next().unwrap_or_default())?;
        sample.measure(Measurement::new("tps", value));
    } else if line.starts_with("pgbench: fatal:") || line.contains("Run was aborted") {
        sample.void = Some(line.to_owned());
    } else if line.contains("client") && line.contains("aborted") {
        input.keep_line();
        cautions.push("Clients aborted: the throughput is that of the others.".to_owned());
    }
    Ok(())
}

/// A run without its last line was cut.
fn whole(mut sample: Sample) -> Sample {
    let has_throughput = sample.measurements.iter().any(|m| m.metric == "tps");
    if !has_throughput && sample.void.is_none() {
        sample.void = Some("the output ends before the throughput: the run was cut".to_owned());
    }
    sample
}

/// The two forms of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Log {
    Transactions,
    Intervals,
}

/// Which form the first line has: `client number time script seconds µs [lag] [retries]`, or `seconds number sum …`.
fn columns(head: &str) -> Option<Log> {
    let fields: Vec<&str> = head.lines().next()?.split(' ').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // Seconds since 1970 have ten digits from 2001 to 2286.
    let is_time = |at: usize| fields.get(at).is_some_and(|text| text.len() == 10 && is_number(text));
    let is_result = |text: &&str| is_number(text) || ["failed", "skipped"].contains(text);
    match fields.len() {
        6..=8 if is_time(4) && fields.iter().all(is_result) => Some(Log::Transactions),
        6.. if is_time(0) && fields.iter().all(is_number) => Some(Log::Intervals),
        _ => None,
    }
}

fn transactions(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    results.metrics.push(metric("latency_p99_ms", "ms", Lower, "99 of 100 transactions took at most this"));
    results.metrics.push(metric("failed_share", "share", Lower, "transactions that failed or were skipped"));
    results.cautions.push(
        "A log of pgbench has no settings, and has one file for each thread: the throughput is that of this file."
            .to_owned(),
    );
    let (mut latency, mut failed, mut ends) = (Histogram::new(), 0_u64, (u64::MAX, 0_u64));
    while let Some(line) = input.line()? {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, _, time, _, seconds, micros, ..] = fields.as_slice() else {
            return Err(input.problem(format!("{} of at least 6 columns: the log was cut", fields.len())));
        };
        let end = count(input, seconds)?.saturating_mul(1_000_000).saturating_add(count(input, micros)?);
        ends = (ends.0.min(end), ends.1.max(end));
        match *time {
            "failed" | "skipped" => failed += 1,
            time => latency.record_ns(count(input, time)?.saturating_mul(1_000)),
        }
    }
    let (first_us, last_us) = ends;
    let length_ns = last_us.saturating_sub(first_us).saturating_mul(1_000);
    let measurements = vec![
        // The first end begins the time that is counted.
        Measurement::per_second("tps", latency.count().saturating_sub(1), length_ns),
        Measurement::percentile("latency_p99_ms", &latency, 0.99, 1e6),
        Measurement::new("failed_share", failed as f64 / (failed + latency.count()) as f64),
    ];
    let sample = Sample {
        begin_unix_ns: i64::try_from(first_us.saturating_mul(1_000)).ok(),
        length_ns: Some(length_ns),
        measurements,
        histograms: vec![NamedHistogram { name: "latency".to_owned(), histogram: latency }],
        ..Sample::default()
    };
    input.keep(results, Some(sample))
}

fn intervals(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    results.metrics.push(metric("latency_mean_ms", "ms", Lower, "mean time of a transaction"));
    results.cautions.push(
        "A log of intervals has no distribution, and one file for each thread: the throughput is that of this file."
            .to_owned(),
    );
    let (mut all, mut sum_us, mut last) = (0.0, 0.0, 0.0);
    let (mut first, mut end) = (None, None);
    while let Some(line) = input.line()? {
        let mut fields = line.split(' ');
        let mut next = || fields.next().ok_or_else(|| input.problem("fewer than 3 columns: the log was cut"));
        let (begin, count, sum) = (next()?, next()?, next()?);
        let begin = number(input, begin)?;
        end = first.map(|_| begin);
        first.get_or_insert(begin);
        last = number(input, count)?;
        (all, sum_us) = (all + last, sum_us + number(input, sum)?);
    }
    let (Some(first), Some(end)) = (first, end) else {
        return Err(Problem::usage(input.name(), "one interval: nothing says how long it was"));
    };
    // The last interval may be a part of one.
    let length_s = end - first;
    let sample = Sample {
        begin_unix_ns: Some((first * 1e9) as i64),
        length_ns: Some(length_ns(length_s, 1e9, |why| input.problem(why))?),
        measurements: vec![
            Measurement::new("tps", (all - last) / length_s),
            Measurement::new("latency_mean_ms", sum_us / all / 1e3),
        ],
        ..Sample::default()
    };
    input.keep(results, Some(sample))
}
