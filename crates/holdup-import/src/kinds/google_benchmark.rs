//! Google Benchmark's JSON.

use super::{Kind, metric};
use crate::json::Node;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Fact, Measurement, Meta, Problem};
use std::collections::BTreeMap;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "google-benchmark",
        summary: "Google Benchmark's JSON (--benchmark_format=json)",
        docs: "Each repetition is a run and each benchmark a workload; means, medians and deviations of the tool are left out, and a file that has nothing else is \
               refused. All repetitions are of one process, so what differs between processes (memory layout) is in none of them. Counters do not say which \
               direction is better: they are notes. A benchmark that was skipped with an error is void.",
        references: &["google/benchmark 1.7.1, src/json_reporter.cc, docs/user_guide.md"],
    },
    looks_like: |head| head.contains("\"benchmarks\"") && head.contains("\"context\"") && head.contains("\"num_cpus\""),
    read,
    folder: None,
};

/// Members that are no counters.
const KNOWN: &[&str] = &[
    "name",
    "family_index",
    "per_family_instance_index",
    "run_name",
    "run_type",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
    "time_unit",
    "bytes_per_second",
    "items_per_second",
    "label",
];

/// Ends of the names of aggregates, in versions that do not say `run_type`.
const AGGREGATES: &[&str] = &["_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let root = document.root();
    let mut results = Results {
        metrics: vec![
            metric("real_time_ns", "ns", Lower, "time of an iteration"),
            metric("cpu_time_ns", "ns", Lower, "CPU time of an iteration"),
            metric("bytes_per_s", "B/s", Higher, "data per second"),
            metric("items_per_s", "1/s", Higher, "items per second"),
        ],
        ..Results::default()
    };
    context(root.need("context")?, &mut results);
    let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut aggregates = 0;
    for one in root.need("benchmarks")?.items()? {
        let name = one.need("name")?.text()?;
        let is_aggregate = match one.text_of("run_type") {
            Some(of) => of == "aggregate",
            None => AGGREGATES.iter().any(|end| name.ends_with(end)),
        };
        if is_aggregate {
            aggregates += 1;
            continue;
        }
        let run = one.get("repetition_index").map(Node::shown).unwrap_or_default();
        *seen.entry((name.to_owned(), run)).or_default() += 1;
        input.keep(&mut results, Some(sample(one)?))?;
    }
    if results.samples.is_empty() && aggregates > 0 {
        return Err(root
            .problem("it has means only, of which nothing can be compared")
            .hint("run it without --benchmark_report_aggregates_only"));
    }
    for ((name, _), _) in seen.iter().filter(|(_, times)| **times > 1) {
        results.cautions.push(format!("Two benchmarks of one file are named {name}: both are runs of one arm."));
    }
    results.cautions.push(
        "Repetitions of Google Benchmark are of one process: what differs between processes is in none of them."
            .to_owned(),
    );
    Ok(results)
}

fn context(context: Node<'_>, results: &mut Results) {
    if let Some(name) = context.text_of("host_name") {
        results.facts.push(Fact::read("host.name", name, "Google Benchmark"));
    }
    if context.text_of("library_build_type") == Some("debug") {
        results
            .cautions
            .push("Google Benchmark itself was built for debugging: its own work is in the times.".to_owned());
    }
    if context.is_set("cpu_scaling_enabled") {
        results.cautions.push("The frequency of the CPUs was free to change (cpu_scaling_enabled).".to_owned());
    }
}

fn sample(one: Node<'_>) -> Result<Sample, Problem> {
    let name = one.text_of("run_name").map_or_else(|| one.need("name")?.text(), Ok)?;
    let mut sample = Sample::default();
    sample.labels.insert("benchmark".to_owned(), name.to_owned());
    if one.is_set("error_occurred") || one.is_set("skipped") {
        sample.void = Some(one.text_of("error_message").unwrap_or("it was skipped").to_owned());
        return Ok(sample);
    }
    let unit = one.need("time_unit")?;
    let ns = match unit.text()? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => return Err(unit.problem(format!("{other:?} is no unit of time that is known: ns, us, ms, s"))),
    };
    let real_ns = one.need("real_time")?.number()? * ns;
    sample.length_ns = one.get("iterations").map(|iterations| iterations.length_ns(real_ns)).transpose()?;
    sample.measurements.push(Measurement::new("real_time_ns", real_ns));
    sample.measurements.push(Measurement::new("cpu_time_ns", one.need("cpu_time")?.number()? * ns));
    for (key, id) in [("bytes_per_second", "bytes_per_s"), ("items_per_second", "items_per_s")] {
        sample.measurements.extend(one.number_of(key)?.map(|value| Measurement::new(id, value)));
    }
    let counters = one.members()?.filter(|(key, _)| !KNOWN.contains(key));
    sample.notes.extend(counters.map(|(key, value)| format!("{key}: {}", value.shown())));
    Ok(sample)
}
