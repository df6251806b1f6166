//! schbench: messengers that wake workers, which then work under a lock of their CPU.

use super::thin;
use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Reading, Run, Tool, ToolOutput};
use holdup_catalogue::external;
use holdup_model::Problem;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schbench;

impl Tool for Schbench {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Schbench,
            program: "schbench",
            install: "build it from github.com/masoncl/schbench and put it on the PATH",
            version: None,
            version_after: "",
            modes: &[],
            protocols: &[],
            parameters: &["messengers", "threads", "rate"],
        }
    }

    fn measures(&self, _setup: &Setup) -> &'static [&'static str] {
        &["wakeup_p50_us", "wakeup_p99_us", "wakeup_p999_us", "request_p50_us", "request_p99_us", "requests_per_s"]
    }

    fn invocation(&self, setup: &Setup, run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        let mut arguments = vec!["-r".to_owned(), run.whole_seconds()];
        for (flag, value) in [("-m", given.messengers), ("-t", given.threads), ("-R", given.rate)] {
            push(&mut arguments, flag, value);
        }
        arguments.extend(setup.further());
        Ok(Invocation { arguments, whole_seconds: true, ..Invocation::default() })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        let mut reading = parse(said.stderr)?;
        if setup.given.rate.is_some() {
            reading.note("schbench with a rate does not count the time that a request waits for a free worker");
        }
        Ok(reading)
    }
}

/// The metrics of a block, by its title and the name of a percentile.
const LINES: [(&str, &str, &str); 5] = [
    ("Wakeup", "50.0th:", "wakeup_p50_us"),
    ("Wakeup", "99.0th:", "wakeup_p99_us"),
    ("Wakeup", "99.9th:", "wakeup_p999_us"),
    ("Request", "50.0th:", "request_p50_us"),
    ("Request", "99.0th:", "request_p99_us"),
];

/// Blocks, one for each kind of latency, printed again and again; they are cumulative, so the last one holds.
/// A block's lines: its title with the count of samples, percentiles (the starred one with a field more), min and max.
fn parse(stderr: &str) -> Result<Reading, String> {
    let mut reading = Reading::default();
    for (title, percentile, id) in LINES {
        let block = last_block(stderr, title)
            .ok_or_else(|| format!("there are no `{title} Latencies` in it, it says: {}", text::shown(stderr)))?;
        let value = block.lines().find_map(|line| {
            let line = line.trim_start().trim_start_matches('*').trim_start();
            text::number(line.strip_prefix(percentile)?)
        });
        match value {
            Some(value) => reading.put(id, value),
            None => reading.absent(id, format!("the last block of `{title} Latencies` has no {percentile}")),
        }
    }
    if let Some(samples) = last_block(stderr, "Wakeup").and_then(samples) {
        thin("schbench", samples, &mut reading);
    }
    match text::number_after(stderr, "average rps:") {
        Some(rate) => reading.put("requests_per_s", rate),
        None => reading.absent("requests_per_s", "it does not say `average rps`"),
    }
    reading.note("schbench does not record wake-ups of less than 1 us, and takes times from a clock that may be set");
    Ok(reading)
}

/// From the last title of a kind to the next one.
fn last_block<'a>(text: &'a str, title: &str) -> Option<&'a str> {
    let begin = text.rfind(&format!("{title} Latencies percentiles"))?;
    let block = &text[begin..];
    let body = block.find('\n').map_or(block.len(), |at| at + 1);
    let end = block[body..].find("percentiles").map_or(block.len(), |at| body + at);
    Some(&block[..end])
}

/// `… runtime 2 (s) (553 total samples)`.
fn samples(block: &str) -> Option<f64> {
    let line = block.lines().next()?;
    text::number(line.rsplit_once('(')?.1)
}
