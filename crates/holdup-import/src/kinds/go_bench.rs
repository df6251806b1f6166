//! Benchmarks of Go, as `go test -bench` prints them and benchstat reads them.

use super::{Kind, id_of, metric};
use crate::number::{length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{self, Higher, Lower};
use holdup_model::{Fact, Measurement, Meta, Metric, Problem};
use std::collections::BTreeMap;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "go-bench",
        summary: "benchmarks of Go (go test -bench), as benchstat reads them",
        docs: "Each line is a run (`-count`), each benchmark a workload. The number after the last hyphen is GOMAXPROCS, which Go leaves out if it is 1: \
               a name that ends so by itself is not distinguished. All runs of a benchmark are of one process. A unit of one's own becomes a metric if the \
               file says which direction is better (`Unit NAME better=higher`), else a note. A benchmark that failed is void.",
        references: &["go.dev/design/14313-benchmark-format", "golang.org/x/perf/benchfmt"],
    },
    looks_like: |head| {
        head.lines().any(|line| line.starts_with("Benchmark") && line.split_whitespace().count() >= 4 && is_row(line))
    },
    read,
    folder: None,
};

/// `BenchmarkSort-2   1000000   34.18 ns/op   0 B/op`.
fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    words.next().is_some_and(|count| count.bytes().all(|b| b.is_ascii_digit()))
        && words.nth(1).is_some_and(|unit| unit.contains('/') || unit.contains("sec"))
}

/// Units, and the metrics that they become.
const UNITS: &[(&str, &str, &str, Direction, &str)] = &[
    ("ns/op", "time_ns", "ns", Lower, "time of an operation"),
    ("B/op", "allocated_bytes", "B", Lower, "memory that an operation allocates"),
    ("allocs/op", "allocations", "1", Lower, "allocations of an operation"),
    ("MB/s", "mb_per_s", "MB/s", Higher, "data per second"),
];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: crate::number::metrics_of(UNITS), ..Results::default() };
    let (mut package, mut directions) = (None::<String>, BTreeMap::<String, Direction>::new());
    let mut ids = results.metric_ids();
    while let Some(line) = input.line()? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["pkg:", name] => package = Some((*name).to_owned()),
            ["cpu:", ..] => {
                input.keep_line();
                results.facts.push(Fact::read("cpu.model", line["cpu:".len()..].trim(), "go test -bench"));
            }
            ["Unit", unit, settings @ ..] => {
                input.keep_line();
                let better = settings.iter().find_map(|setting| setting.strip_prefix("better="));
                directions
                    .extend(better.map(|better| ((*unit).to_owned(), if better == "higher" { Higher } else { Lower })));
            }
            ["---", "FAIL:", name, ..] if name.starts_with("Benchmark") => {
                let void = Some("the benchmark failed".to_owned());
                input.keep(&mut results, Some(Sample { void, ..named(name, package.as_deref()) }))?;
            }
            ["panic:", ..] => {
                input.keep_line();
                results.cautions.push(format!("Go ended: {line}"));
            }
            [name, count, values @ ..] if name.starts_with("Benchmark") && !values.is_empty() => {
                if !count.bytes().all(|b| b.is_ascii_digit()) {
                    continue;
                }
                let mut sample = named(name, package.as_deref());
                for metric in measure(input, values, &directions, &mut sample)? {
                    input.keep_line();
                    results.add_metric(&mut ids, metric);
                }
                if let Some(ns) =
                    sample.measurements.iter().find(|m| m.metric == "time_ns").and_then(|m| m.value.value())
                {
                    sample.length_ns = Some(length_ns(number(input, count)?, ns, |why| input.problem(why))?);
                }
                input.keep(&mut results, Some(sample))?;
            }
            _ => {}
        }
    }
    results.cautions.push(
        "All runs of a benchmark of Go are of one process: what differs between processes is in none of them."
            .to_owned(),
    );
    Ok(results)
}

/// A run of a benchmark: `BenchmarkSort/size=8-2`.
fn named(name: &str, package: Option<&str>) -> Sample {
    let mut sample = Sample::default();
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    let (name, threads) = match name.rsplit_once('-') {
        Some((name, threads)) if threads.bytes().all(|b| b.is_ascii_digit()) => (name, threads),
        _ => (name, "1"),
    };
    sample.labels.insert("benchmark".to_owned(), name.to_owned());
    sample.labels.insert("gomaxprocs".to_owned(), threads.to_owned());
    sample.labels.extend(package.map(|package| ("package".to_owned(), package.to_owned())));
    sample
}

/// `34.18 ns/op 0 B/op`: numbers with their units. Metrics of the benchmark's own are returned.
fn measure(
    input: &Input<'_>,
    values: &[&str],
    directions: &BTreeMap<String, Direction>,
    sample: &mut Sample,
) -> Result<Vec<Metric>, Problem> {
    let mut own = Vec::new();
    for pair in values.chunks(2) {
        let [value, unit] = pair else {
            return Err(input.problem(format!("{} has no unit: the line was cut", pair.concat())));
        };
        let value = number(input, value)?;
        if let Some((_, id, ..)) = UNITS.iter().find(|(known, ..)| known == unit) {
            sample.measurements.push(Measurement::new(*id, value));
        } else if let Some(better) = directions.get(*unit) {
            let id = id_of(unit);
            own.push(metric(&id, unit, *better, "a metric of the benchmark itself"));
            sample.measurements.push(Measurement::new(id, value));
        } else {
            sample.notes.push(format!("{value} {unit}"));
        }
    }
    Ok(own)
}
