//! netperf: its tables, and the forms `-k` (KEY=VALUE) and `-o` (CSV) of its omni tests.

use super::{Kind, metric};
use crate::number::{length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "netperf",
        summary: "netperf's tables (STREAM, RR), and -k and -o of its omni tests",
        docs: "Outputs may follow each other in one file: each is a run, each test a workload, and its sizes are arms. Of UDP_STREAM the first row is what was given to the \
               socket and the second what arrived; the second is the result. One transaction at a time (RR without -b) has a rate that is the inverse of its \
               latency. netperf's percentiles are of buckets, and it prints no number of samples. Tables of omni tests (without -k, -o) are not read.",
        references: &["netperf 2.7.1, src/nettest_bsd.c, src/nettest_omni.c:print_omni_keyword, print_omni_csv"],
    },
    looks_like: |head| {
        head.lines().any(|line| line.contains(" TEST from "))
            || head.lines().any(|line| line.starts_with("THROUGHPUT="))
    },
    read,
    folder: None,
};

/// Latencies of omni tests, us: key, head of the CSV's column, metric, meaning.
const LATENCIES: &[(&str, &str, &str, &str)] = &[
    (
        "P99_LATENCY",
        "99th Percentile Latency Microseconds",
        "latency_p99_us",
        "99 of 100 transactions took at most this",
    ),
    (
        "P90_LATENCY",
        "90th Percentile Latency Microseconds",
        "latency_p90_us",
        "90 of 100 transactions took at most this",
    ),
    (
        "P50_LATENCY",
        "50th Percentile Latency Microseconds",
        "latency_p50_us",
        "half of the transactions took at most this",
    ),
    ("MEAN_LATENCY", "Mean Latency Microseconds", "latency_mean_us", "mean time of a transaction"),
    ("MAX_LATENCY", "Maximum Latency Microseconds", "latency_max_us", "time of the longest transaction"),
];

/// Units of a throughput.
const UNITS: &[(&str, &str, f64)] = &[
    ("10^6bits/s", "bits_per_s", 1e6),
    ("10^6bits/sec", "bits_per_s", 1e6),
    ("10^9bits/s", "bits_per_s", 1e9),
    ("10^3bits/s", "bits_per_s", 1e3),
    ("Trans/s", "transactions_per_s", 1.0),
];

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    /// Rows of numbers of its table.
    rows: usize,
    /// The head of an omni test.
    head: String,
    throughput: Option<f64>,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![
            metric("bits_per_s", "bit/s", Higher, "payload per second"),
            metric("transactions_per_s", "1/s", Higher, "transactions per second"),
            metric("sent_bits_per_s", "bit/s", Higher, "payload that was given to the socket (UDP)"),
        ],
        ..Results::default()
    };
    results.metrics.extend(LATENCIES.iter().map(|(_, _, id, summary)| metric(id, "us", Lower, summary)));
    let mut run: Option<Run> = None;
    while let Some(line) = input.line()? {
        if let Some((test, _)) = line.split_once(" TEST from ") {
            input.keep(&mut results, run.replace(Run::default()).map(finish))?;
            let test = test.trim_start_matches("MIGRATED ").to_owned();
            run.get_or_insert_default().sample.labels.insert("benchmark".to_owned(), test);
        } else if let Some((key, value)) = line.split_once('=').filter(|(key, _)| key.bytes().all(is_key)) {
            // Without a banner (-P 0) the first key begins a run again.
            keyed(input, key, value, run.get_or_insert_default())?;
        } else if let Some(run) = &mut run {
            table(input, &line, run)?;
        }
    }
    input.keep(&mut results, run.map(finish))?;
    Ok(results)
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

fn keyed(input: &Input<'_>, key: &str, value: &str, run: &mut Run) -> Result<(), Problem> {
    let latency = LATENCIES.iter().find(|(known, column, ..)| *known == key || *column == key);
    if let Some((_, _, id, _)) = latency {
        let value = number(input, value)?;
        // A test without transactions has -1.
        let value = if value < 0.0 {
            Measurement::absent(*id, "not measured by this test")
        } else {
            Measurement::new(*id, value)
        };
        run.sample.measure(value);
        return Ok(());
    }
    match key {
        "THROUGHPUT" | "Throughput" => run.throughput = Some(number(input, value)?),
        "THROUGHPUT_UNITS" | "Throughput Units" => {
            let (Some((_, id, factor)), Some(throughput)) =
                (UNITS.iter().find(|(unit, ..)| *unit == value), run.throughput)
            else {
                return Err(input.problem(format!("{value:?} is no unit that is known, or stands before its number")));
            };
            run.sample.measure(Measurement::new(*id, throughput * factor));
        }
        "ELAPSED_TIME" | "Elapsed Time (sec)" => {
            run.sample.length_ns = Some(length_ns(number(input, value)?, 1e9, |why| input.problem(why))?);
        }
        "PROTOCOL" | "REQUEST_SIZE" | "RESPONSE_SIZE" | "LOCAL_SEND_SIZE" => {
            run.sample.labels.insert(key.to_lowercase(), value.to_owned());
        }
        _ => {}
    }
    Ok(())
}

fn table(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    if line.contains("WARNING") || line.contains("!!!") {
        input.keep_line();
        run.sample.notes.push(line.trim().to_owned());
        return Ok(());
    }
    let test = run.sample.labels.get("benchmark").map_or("", String::as_str);
    if test.starts_with("OMNI") && line.contains(',') {
        if run.head.is_empty() {
            input.keep_line();
            line.clone_into(&mut run.head);
            return Ok(());
        }
        let head = std::mem::take(&mut run.head);
        let (have, want) = (line.split(',').count(), head.split(',').count());
        if have != want {
            return Err(input
                .problem(format!("{have} columns, but its head has {want}: the line was cut, or has decimal commas")));
        }
        for (key, value) in head.split(',').zip(line.split(',')) {
            keyed(input, key.trim(), value.trim(), run)?;
        }
        run.head = head;
        return Ok(());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_row = words.len() >= 4 && words.iter().all(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    if !is_row {
        return Ok(());
    }
    run.rows += 1;
    let (id, column, time) = match run.rows {
        1 if test.starts_with("UDP STREAM") => ("sent_bits_per_s", 5, 2),
        2 if test.starts_with("UDP STREAM") => ("bits_per_s", 3, 1),
        1 if test.contains("STREAM") || test.contains("MAERTS") => ("bits_per_s", 4, 3),
        1 if test.contains("REQUEST/RESPONSE") => ("transactions_per_s", 5, 4),
        _ => return Ok(()),
    };
    let value = |at: usize| match words.get(at) {
        Some(word) => number(input, word),
        None => Err(input.problem(format!("{} of {} columns: the line was cut", words.len(), at + 1))),
    };
    let factor = if id.ends_with("bits_per_s") { 1e6 } else { 1.0 };
    run.sample.measure(Measurement::new(id, value(column)? * factor));
    run.sample.length_ns = Some(length_ns(value(time)?, 1e9, |why| input.problem(why))?);
    let sizes: &[(&str, usize)] = match id {
        "transactions_per_s" => &[("request_size", 2), ("response_size", 3)],
        "sent_bits_per_s" => &[("message_bytes", 1)],
        "bits_per_s" if run.rows == 1 => &[("message_bytes", 2)],
        _ => &[],
    };
    run.sample.labels.extend(sizes.iter().map(|(label, at)| ((*label).to_owned(), words[*at].to_owned())));
    Ok(())
}

fn finish(run: Run) -> Sample {
    let has_result =
        run.sample.measurements.iter().any(|m| m.metric == "bits_per_s" || m.metric == "transactions_per_s");
    let why = "there is no result: the run was cut, or it is a table of an omni test (use -k)";
    Sample { void: (!has_result).then(|| why.to_owned()), ..run.sample }
}
