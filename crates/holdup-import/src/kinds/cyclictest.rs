//! cyclictest: its last lines, its histogram, its JSON.

use super::{Kind, metric};
use crate::number::{count, number, parse, samples};
use crate::{Input, Results, Sample};
use holdup_model::Direction::Lower;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem, SparseHistogram};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "cyclictest",
        summary: "cyclictest's last lines, histogram (-h) and JSON (--json)",
        docs: "A file is a run, and each thread of it an arm. With a histogram there are percentiles; what lies beyond its end is \
               known by its number and its maximum alone. A maximum grows with the length of the run: compare runs of the same length.",
        references: &["rt-tests 2.4, src/cyclictest/cyclictest.c:print_stat, print_hist, write_stats"],
    },
    looks_like: |head| {
        is_json(head)
            || head.contains("# Histogram")
            || head.lines().any(|line| line.starts_with("T:") && line.contains(" Avg:"))
    },
    read,
    folder: None,
};

fn is_json(head: &str) -> bool {
    head.trim_start().starts_with('{') && head.contains("cyclictest") && head.contains("resolution_in_ns")
}

/// What is known of a thread.
#[derive(Default)]
struct Thread {
    latency: SparseHistogram,
    cycles: Option<f64>,
    min_us: Option<f64>,
    mean_us: Option<f64>,
    max_us: Option<f64>,
    overflows: Option<f64>,
}

/// Memory of a bucket while its list grows, bytes.
const BUCKET_BYTES: u64 = 32;

/// The most threads of a file: `NR_CPUS` of Linux on any architecture.
const MOST_THREADS: usize = 8192;

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![
            metric("latency_p99_us", "us", Lower, "99 of 100 wake-ups were at most this late"),
            metric("latency_mean_us", "us", Lower, "how late wake-ups were, on average"),
            metric("latency_max_us", "us", Lower, "how late the latest wake-up was"),
            metric("latency_min_us", "us", Lower, "how late the earliest wake-up was"),
            metric("overflows", "1", Lower, "wake-ups beyond the end of the histogram"),
        ],
        ..Results::default()
    };
    let head = input.head(crate::HEAD_BYTES)?;
    let threads = if is_json(&head) { json(input, &mut results)? } else { text(input)? };
    for (n, thread) in threads.into_iter().enumerate() {
        input.keep(&mut results, Some(sample(n, thread)))?;
    }
    results
        .cautions
        .push("A maximum grows with the number of cycles: compare those of runs of the same length.".to_owned());
    Ok(results)
}

fn sample(n: usize, thread: Thread) -> Sample {
    let given = |id: &str, value: Option<f64>| match value {
        Some(value) => Measurement::new(id, value),
        None => Measurement::absent(id, "the file does not say it"),
    };
    let beyond = thread.overflows.unwrap_or(0.0);
    // The histogram ends, so that a percentile is known only below that end.
    let ends_early = |latency: &Histogram| beyond > 0.01 * (latency.count() as f64 + beyond);
    let latency = (thread.latency.count() > 0).then(|| Histogram::from(thread.latency));
    let percentile = match &latency {
        Some(latency) if !ends_early(latency) => Measurement::percentile("latency_p99_us", latency, 0.99, 1e3),
        Some(_) => Measurement::absent("latency_p99_us", "more than 1 % lie beyond the end of the histogram"),
        None => Measurement::absent("latency_p99_us", "there is no histogram (-h)"),
    };
    let whole = latency.filter(|latency| !ends_early(latency));
    let measurements = vec![
        percentile,
        given("latency_mean_us", thread.mean_us),
        given("latency_max_us", thread.max_us),
        given("latency_min_us", thread.min_us),
        given("overflows", thread.overflows),
    ];
    let histograms =
        whole.map(|histogram| NamedHistogram { name: "latency".to_owned(), histogram }).into_iter().collect();
    let notes = thread.cycles.map(|cycles| format!("{cycles} cycles")).into_iter().collect();
    Sample {
        labels: [("thread".to_owned(), n.to_string())].into(),
        measurements,
        histograms,
        notes,
        ..Sample::default()
    }
}

fn text(input: &mut Input<'_>) -> Result<Vec<Thread>, Problem> {
    let mut threads: Vec<Thread> = Vec::new();
    while let Some(line) = input.line()? {
        if let Some(rest) = line.strip_prefix("T:") {
            summary(input, rest, &mut threads)?;
        } else if let Some((what, numbers)) = line.strip_prefix("# ").and_then(|rest| rest.split_once(": ")) {
            let set: fn(&mut Thread) -> &mut Option<f64> = match what {
                "Min Latencies" => |thread| &mut thread.min_us,
                "Avg Latencies" => |thread| &mut thread.mean_us,
                "Max Latencies" => |thread| &mut thread.max_us,
                "Histogram Overflows" => |thread| &mut thread.overflows,
                "Total" => |thread| &mut thread.cycles,
                _ => continue,
            };
            for (n, value) in numbers.split_whitespace().enumerate() {
                let value = number(input, value)?;
                *set(at(&mut threads, n).map_err(|why| input.problem(why))?) = Some(value);
            }
        } else if line.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            let mut fields = line.split_whitespace();
            let latency_us = count(input, fields.next().unwrap_or_default())?;
            for (n, times) in fields.enumerate() {
                let thread = at(&mut threads, n).map_err(|why| input.problem(why))?;
                let times = samples(number(input, times)?, |why| input.problem(why))?;
                input.take(if times > 0 { BUCKET_BYTES } else { 0 })?;
                thread.latency.record_n_ns(latency_us.saturating_mul(1_000), times);
            }
        }
    }
    Ok(threads)
}

/// `T: 0 (12232) P: 0 I:1000 C:    500 Min:     47 Act:   68 Avg:   64 Max:     403`; from ten threads on there is no space
/// after the first colon.
fn summary(input: &Input<'_>, rest: &str, threads: &mut Vec<Thread>) -> Result<(), Problem> {
    let n = rest.trim_start().split([' ', '(']).next().unwrap_or_default();
    let n = n.parse::<usize>().map_err(|_| input.problem(format!("{n:?} is no number of a thread")))?;
    let value = |name: &str| match rest.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next()) {
        Some(text) => number(input, text),
        None => Err(input.problem(format!("there is no {name} in it: the line was cut"))),
    };
    let (cycles, min, mean, max) = (value("C:")?, value("Min:")?, value("Avg:")?, value("Max:")?);
    let thread = at(threads, n).map_err(|why| input.problem(why))?;
    (thread.cycles, thread.min_us, thread.mean_us, thread.max_us) = (Some(cycles), Some(min), Some(mean), Some(max));
    Ok(())
}

/// The thread with this number. Linux has at most 8192 CPUs.
fn at(threads: &mut Vec<Thread>, n: usize) -> Result<&mut Thread, String> {
    if n >= MOST_THREADS {
        return Err(format!("thread {n}: no machine has more than {MOST_THREADS} CPUs, so the line is damaged"));
    }
    if threads.len() <= n {
        threads.resize_with(n + 1, Thread::default);
    }
    Ok(&mut threads[n])
}

fn json(input: &mut Input<'_>, results: &mut Results) -> Result<Vec<Thread>, Problem> {
    let document = input.json()?;
    let root = document.root();
    let per_us = if root.number_of("resolution_in_ns")? == Some(1.0) { 1e3 } else { 1.0 };
    let facts = [("kernel.release", "release"), ("kernel.version", "version"), ("host.name", "nodename")];
    results.facts.extend(root.get("sysinfo").iter().flat_map(|about| about.facts(&facts, "cyclictest --json")));
    let mut threads = Vec::new();
    for (n, one) in root.need("thread")?.members()? {
        let n = n.parse::<usize>().map_err(|_| one.problem(format!("thread {n:?} is no number")))?;
        let given = |name: &str| Ok(one.number_of(name)?.map(|value| value / per_us));
        let thread = at(&mut threads, n).map_err(|why| one.problem(why))?;
        (thread.min_us, thread.mean_us, thread.max_us) = (given("min")?, given("avg")?, given("max")?);
        thread.cycles = one.number_of("cycles")?;
        if let Some(histogram) = one.get("histogram") {
            for (latency, count) in histogram.members()? {
                let latency = parse(latency, |why| count.problem(why))?;
                thread.latency.record_n_ns((latency * 1e3 / per_us) as u64, count.samples()?);
            }
        }
        if let (count @ 1.., Some(cycles)) = (thread.latency.count(), thread.cycles) {
            thread.overflows = Some((cycles - count as f64).max(0.0));
        }
    }
    if let Some(code) = root.number_of("return_code")?.filter(|code| *code != 0.0) {
        results.cautions.push(format!("cyclictest ended with exit code {code}."));
    }
    Ok(threads)
}
