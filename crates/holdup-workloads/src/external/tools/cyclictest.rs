//! cyclictest of rt-tests: timers, and how late threads wake up.

use super::thin;
use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Reading, Run, Tool, ToolOutput};
use holdup_catalogue::external;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Problem};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cyclictest;

/// The longest latency that its histogram resolves, us.
const LONGEST_US: u64 = 100_000;

impl Tool for Cyclictest {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Cyclictest,
            program: "cyclictest",
            install: "apt install rt-tests",
            version: Some(&["--help"]),
            version_after: "cyclictest V ",
            modes: &[],
            protocols: &[],
            parameters: &["threads", "interval", "distance", "priority", "loops"],
        }
    }

    fn measures(&self, _setup: &Setup) -> &'static [&'static str] {
        &["latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us", "cycles"]
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        // The JSON goes to stderr, because stdout has the summary; the same histogram as text would be in the way.
        let mut arguments: Vec<String> =
            ["--quiet", "--default-system", "--json=/dev/stderr", "--histfile=/dev/null"].map(str::to_owned).into();
        arguments.push(format!("--histogram={LONGEST_US}"));
        let fixed_work = setup.given.loops.is_some();
        if !fixed_work {
            arguments.extend(["-D".to_owned(), run.whole_seconds()]);
        }
        push(&mut arguments, "-l", given.loops);
        push(&mut arguments, "-t", given.threads);
        push(&mut arguments, "-p", given.priority);
        for (flag, name, ns) in [("-i", "interval", given.interval), ("-d", "distance", given.distance)] {
            push(&mut arguments, flag, setup.microseconds(name, ns)?);
        }
        arguments.extend(setup.further());
        Ok(Invocation { arguments, fixed_work, whole_seconds: !fixed_work, ..Invocation::default() })
    }

    fn read(&self, _setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        match said.stderr.find('{').map(|at| &said.stderr[at..]) {
            Some(json) => from_json(json),
            None => from_summary(said.stdout),
        }
    }
}

/// What `--json` writes, as far as it is used.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    resolution_in_ns: u64,
    thread: BTreeMap<String, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    #[serde(default)]
    histogram: BTreeMap<String, u64>,
    cycles: u64,
    max: i64,
}

fn from_json(json: &str) -> Result<Reading, String> {
    // What follows the document is not its own.
    let mut documents = serde_json::Deserializer::from_str(json).into_iter::<Document>();
    let document = documents
        .next()
        .ok_or("it holds no JSON document")?
        .map_err(|e| format!("its JSON is not what cyclictest writes: {e}"))?;
    let unit_ns = if document.resolution_in_ns == 1 { 1 } else { 1000 };
    let mut reading = Reading::default();
    let mut histogram = Histogram::new();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut cycles: u64 = 0;
    for thread in document.thread.values() {
        cycles = cycles.checked_add(thread.cycles).ok_or("its cycles are more than can be counted")?;
        for (value, count) in &thread.histogram {
            let value: u64 = value.parse().map_err(|_| format!("`{}` is no latency", text::shown(value)))?;
            let sum = counts.entry(value).or_default();
            *sum = sum.checked_add(*count).ok_or("its counts are more than can be counted")?;
        }
    }
    let known = counts.values().try_fold(0u64, |sum, n| sum.checked_add(*n)).ok_or("its counts do not add up")?;
    if cycles == 0 {
        return Err("no thread has woken up".to_owned());
    }
    if known > cycles {
        return Err(format!("its histogram holds {known} latencies of {cycles} cycles"));
    }
    for (value, count) in &counts {
        histogram.record_n_ns(value.saturating_mul(unit_ns), *count);
    }
    for (id, quantile) in [("latency_p50_us", 0.5), ("latency_p99_us", 0.99), ("latency_p999_us", 0.999)] {
        match quantile_of(&counts, cycles, quantile) {
            _ if counts.is_empty() => reading.absent(id, "it was run without a histogram"),
            Some(value) => reading.put(id, value as f64 * unit_ns as f64 / 1000.0),
            None => reading.absent(id, "it lies beyond the end of cyclictest's histogram"),
        }
    }
    let max = document.thread.values().map(|t| t.max).max().unwrap_or_default();
    reading.put("latency_max_us", max as f64 * unit_ns as f64 / 1000.0);
    reading.put("cycles", cycles as f64);
    if !counts.is_empty() {
        reading.histograms.push(NamedHistogram { name: "latency".to_owned(), histogram });
    }
    if known < cycles && !counts.is_empty() {
        let beyond = cycles - known;
        reading.note(format!(
            "{beyond} of {cycles} latencies lie beyond the end of cyclictest's histogram, which lacks them"
        ));
    }
    if unit_ns == 1000 {
        reading.note("cyclictest cuts latencies to whole microseconds");
    }
    thin("cyclictest", cycles as f64, &mut reading);
    Ok(reading)
}

/// The value at a quantile of all cycles; `None` when it is one that the histogram does not hold. Values that it
/// does not hold are the largest.
fn quantile_of(counts: &BTreeMap<u64, u64>, cycles: u64, quantile: f64) -> Option<u64> {
    let rank = ((quantile * cycles as f64).ceil() as u64).max(1);
    let mut seen = 0u64;
    counts.iter().find_map(|(value, count)| {
        seen = seen.saturating_add(*count);
        (seen >= rank).then_some(*value)
    })
}

/// Lines such as `T: 0 (12232) P: 0 I:1000 C:    500 Min:     47 Act:   68 Avg:   64 Max:     403`; the last of a
/// thread holds. `T:10` has no space.
fn from_summary(stdout: &str) -> Result<Reading, String> {
    let mut threads: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for line in stdout.split(['\n', '\r']).filter(|l| l.trim_start().starts_with("T:")) {
        let parts = (text::count_after(line, "T:"), text::count_after(line, "C:"), text::number_after(line, "Max:"));
        if let (Some(thread), Some(cycles), Some(max)) = parts {
            threads.insert(thread, (cycles, max));
        }
    }
    if threads.is_empty() {
        return Err(format!("there is neither JSON nor a summary, it says: {}", text::shown(stdout)));
    }
    let cycles = threads.values().try_fold(0u64, |sum, t| sum.checked_add(t.0)).ok_or("its cycles do not add up")?;
    let mut reading = Reading::default();
    reading.put("cycles", cycles as f64);
    reading.put("latency_max_us", threads.values().map(|t| t.1).fold(f64::MIN, f64::max));
    for id in ["latency_p50_us", "latency_p99_us", "latency_p999_us"] {
        reading.absent(id, "there is no JSON with a histogram, only the summary");
    }
    Ok(reading)
}
