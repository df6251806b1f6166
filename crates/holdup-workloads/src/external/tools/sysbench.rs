//! sysbench: threads, mutex and cpu.

use super::thin;
use crate::external::setup::Setup;
use crate::external::text;
use crate::external::{About, Invocation, Reading, Run, Tool, ToolOutput};
use holdup_catalogue::external::{self, Mode};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Problem};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sysbench;

impl Tool for Sysbench {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Sysbench,
            program: "sysbench",
            install: "apt install sysbench",
            version: Some(&["--version"]),
            version_after: "sysbench ",
            modes: &[Mode::Threads, Mode::Mutex, Mode::Cpu],
            protocols: &[],
            parameters: &["threads"],
        }
    }

    fn measures(&self, setup: &Setup) -> &'static [&'static str] {
        match setup.mode {
            Some(Mode::Mutex) => &["total_time_s", "latency_max_us"],
            _ => &["events_per_s", "latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us"],
        }
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let mut arguments = vec![setup.mode.map_or("", Mode::word).to_owned(), "--histogram=on".to_owned()];
        if let Some(threads) = setup.given.threads {
            arguments.push(format!("--threads={threads}"));
        }
        let fixed_work = setup.mode == Some(Mode::Mutex);
        if !fixed_work {
            arguments.push(format!("--time={}", run.whole_seconds()));
        }
        arguments.extend(setup.further());
        arguments.push("run".to_owned());
        Ok(Invocation { arguments, fixed_work, whole_seconds: !fixed_work, ..Invocation::default() })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        parse(said.stdout, setup.mode == Some(Mode::Mutex))
    }
}

/// A histogram in milliseconds, general statistics, and `Latency (ms)` with `max:`.
fn parse(stdout: &str, fixed_work: bool) -> Result<Reading, String> {
    let time = text::number_after(stdout, "total time:").filter(|t| *t >= 0.0);
    let events = text::count_after(stdout, "total number of events:");
    let (Some(time), Some(events)) = (time, events) else {
        return Err(format!("there are no `General statistics` in it, it says: {}", text::shown(stdout)));
    };
    let mut reading = Reading::default();
    let latency = stdout.split_once("Latency (ms):").map_or("", |t| t.1);
    match text::number_after(latency, "max:") {
        Some(ms) => reading.put("latency_max_us", ms * 1000.0),
        None => reading.absent("latency_max_us", "it does not say the longest latency"),
    }
    if fixed_work {
        reading.put("total_time_s", time);
        reading.note("sysbench mutex: an event is all the work of a thread");
        return Ok(reading);
    }
    match time > 0.0 {
        true => reading.put("events_per_s", events as f64 / time),
        false => reading.absent("events_per_s", "its total time is 0"),
    }
    let histogram = histogram(stdout);
    for (id, quantile) in [("latency_p50_us", 0.5), ("latency_p99_us", 0.99), ("latency_p999_us", 0.999)] {
        match histogram.quantile_ns(quantile) {
            Some(ns) => reading.put(id, ns as f64 / 1000.0),
            None => reading.absent(id, "it printed no histogram"),
        }
    }
    thin("sysbench", events as f64, &mut reading);
    if histogram.count() > 0 {
        reading.note("sysbench's percentiles come from its histogram, whose steps are about 2 % wide");
        reading.histograms.push(NamedHistogram { name: "latency".to_owned(), histogram });
    }
    Ok(reading)
}

/// Lines `       3.364 |*********                                24`.
fn histogram(stdout: &str) -> Histogram {
    let mut histogram = Histogram::new();
    for line in stdout.lines() {
        let Some((value, rest)) = line.split_once('|') else { continue };
        let value: Option<f64> = value.trim().parse().ok();
        let count: Option<u64> = rest.trim_start_matches('*').trim().parse().ok();
        if let (Some(ms), Some(count)) = (value.filter(|v| *v >= 0.0 && v.is_finite()), count) {
            // No run has more events; a larger number is garbage, and would make the sum overflow.
            histogram.record_n_ns((ms * 1e6).round() as u64, count.min(1 << 40));
        }
    }
    histogram
}
