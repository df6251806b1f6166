//! iperf3's JSON: one document (`-J`), or an event in each line (`--json-stream`).

use super::Kind;
use crate::json::Node;
use crate::number::{Row, ValueRange, metrics_of};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Fact, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "iperf3",
        summary: "iperf3's JSON (-J, --json-stream)",
        docs: "A file of `-J` is a run, and so is each `start` event of `--json-stream`, with or without `--json-stream-full-output`; a server's stream has a run \
               for each client. Protocol, streams, direction and rate are arms. The throughput is what arrived; `sum_sent` counts what is still in buffers. Of UDP \
               the rate that is sent is that of `-b` and no result. Seconds of one run follow each other and are not independent, so they are no runs. \
               A server prints 0 for what its client counted, which is absent. A client that is interrupted prints 0 for what arrived: that run is void. \
               Until 3.15 all streams are of one thread, which may be the limit: the CPU time of both ends is read.",
        references: &[
            "iperf 3.12, src/iperf_api.c:iperf_json_finish, src/iperf_client_api.c",
            "iperf 3.21, src/iperf_api.c:JSONStream_Output, iperf_json_finish",
        ],
    },
    looks_like: |head| {
        is_stream(head)
            || head.contains("\"start\"")
                && (head.contains("\"version\":\t\"iperf") || head.contains("\"iperf 3") || head.contains("\"cookie\""))
    },
    read,
    folder: None,
};

/// How an event begins.
const EVENT: &str = "{\"event\":\"";

fn is_stream(head: &str) -> bool {
    head.lines().any(|line| line.starts_with(EVENT) && line.contains("\"data\":"))
}

/// Where a number is, and its metric.
const ROWS: &[Row] = &[
    ("sum_received.bits_per_second", "received_bits_per_s", "bit/s", Higher, "payload that arrived"),
    ("sum_sent.bits_per_second", "sent_bits_per_s", "bit/s", Higher, "payload that was sent"),
    ("sum_sent.retransmits", "retransmits", "1", Lower, "segments that were sent again"),
    (
        "sum_received_bidir_reverse.bits_per_second",
        "reverse_received_bits_per_s",
        "bit/s",
        Higher,
        "payload that arrived from the server (--bidir)",
    ),
    ("sum.jitter_ms", "jitter_ms", "ms", Lower, "how much the delay of datagrams varies (RFC 3550)"),
    ("sum.lost_percent", "lost_share", "share", Lower, "datagrams that did not arrive"),
    ("cpu_utilization_percent.host_total", "own_cpu_share", "share", Lower, "CPU time of this end per second"),
    ("cpu_utilization_percent.remote_total", OTHER_CPU, "share", Lower, "CPU time of the other end per second"),
];

const OTHER_CPU: &str = "other_cpu_share";

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    is_server: bool,
    rates: ValueRange,
}

impl Run {
    fn is_udp(&self) -> bool {
        self.sample.labels.get("protocol").is_some_and(|protocol| protocol == "UDP")
    }
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    if is_stream(&input.head(crate::HEAD_BYTES)?) {
        stream(input, &mut results)?;
        return Ok(results);
    }
    let document = input.json()?;
    let root = document.root();
    let (at_start, at_end) = (root.need("start")?, root.need("end")?);
    let mut run = Run::default();
    run.sample.void = root.text_of("error").map(str::to_owned);
    start(at_start, &mut run, &mut results)?;
    for interval in root.get("intervals").map(Node::items).transpose()?.into_iter().flatten() {
        run.rates.extend(rate(interval)?);
    }
    end(at_end, &mut run)?;
    finish(input, run, &mut results)?;
    Ok(results)
}

fn stream(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let mut run: Option<Run> = None;
    while let Some(line) = input.line()? {
        if is_between_events(&line) {
            continue;
        }
        let document = input.json_line(&line)?;
        let event = document.root();
        let (name, data) = (event.need("event")?.text()?, event.need("data")?);
        match name {
            "start" => {
                finish_any(input, run.take(), results)?;
                start(data, run.get_or_insert_default(), results)?;
            }
            "interval" => run.get_or_insert_default().rates.extend(rate(data)?),
            // A server that is stopped between clients says so after the last run, which is whole.
            "error" if run.is_some() || results.samples.is_empty() => {
                run.get_or_insert_default().sample.void.get_or_insert(data.text()?.to_owned());
            }
            "end" => {
                if let Some(mut run) = run.take() {
                    end(data, &mut run)?;
                    finish(input, run, results)?;
                }
            }
            _ => {}
        }
    }
    finish_any(input, run, results)
}

/// The document of `--json-stream-full-output`, which says the same again, and what iperf3 prints for people.
fn is_between_events(line: &str) -> bool {
    ["", "{", "}"].contains(&line) || ["\t", "iperf3: ", "warning: "].iter().any(|begin| line.starts_with(begin))
}

fn start(start: Node<'_>, run: &mut Run, results: &mut Results) -> Result<(), Problem> {
    if let Some(system) = start.text_of("system_info") {
        let words: Vec<&str> = system.split_whitespace().collect();
        if let (["Linux", name, release, ..], true) = (&words[..], results.facts.is_empty()) {
            results.facts.push(Fact::read("host.name", *name, "iperf3 -J"));
            results.facts.push(Fact::read("kernel.release", *release, "iperf3 -J"));
        }
    }
    if let Some(test) = start.get("test_start") {
        settings(test, &mut run.sample);
    }
    let begin_s = start.get("timestamp").map(|at| at.number_of("timesecs")).transpose()?.flatten();
    run.sample.begin_unix_ns = begin_s.map(|seconds| (seconds * 1e9) as i64);
    run.is_server = start.get("accepted_connection").is_some();
    Ok(())
}

fn end(end: Node<'_>, run: &mut Run) -> Result<(), Problem> {
    for (path, id, ..) in ROWS {
        if let Some(value) = path.split('.').try_fold(end, Node::get) {
            let value = value.number()?;
            let share = if id.ends_with("_share") { 100.0 } else { 1.0 };
            let is_of_client = run.is_server && (id.ends_with("bits_per_s") || *id == OTHER_CPU);
            run.sample.measurements.push(match value {
                0.0 if is_of_client => Measurement::absent(*id, "the server does not print what its client counted"),
                value => Measurement::new(*id, value / share),
            });
        } else if run.is_udp() && *id == "received_bits_per_s" {
            // Before version 3.8 or so, what arrived of UDP has no sum: it is not known.
            run.sample.measurements.push(Measurement::absent(*id, "the file does not say what arrived"));
        }
    }
    if let Some(sum) = end.get("sum_received").or_else(|| end.get("sum")) {
        run.sample.length_ns = sum.get("seconds").map(|seconds| seconds.length_ns(1e9)).transpose()?;
    }
    Ok(())
}

fn settings(test: Node<'_>, sample: &mut Sample) {
    for (key, label) in
        [("protocol", "protocol"), ("num_streams", "streams"), ("blksize", "block_bytes"), ("target_bitrate", "rate")]
    {
        sample.labels.extend(test.get(key).map(|value| (label.to_owned(), value.shown())));
    }
    for (key, direction) in [("reverse", "reverse"), ("bidir", "both")] {
        if test.get(key).is_some_and(|is_set| is_set.shown() == "1") {
            sample.labels.insert("direction".to_owned(), direction.to_owned());
        }
    }
}

/// The rate of an interval that counts.
fn rate(interval: Node<'_>) -> Result<Option<f64>, Problem> {
    match interval.get("sum").filter(|sum| !sum.is_set("omitted")) {
        Some(sum) => sum.number_of("bits_per_second"),
        None => Ok(None),
    }
}

fn finish_any(input: &Input<'_>, run: Option<Run>, results: &mut Results) -> Result<(), Problem> {
    run.map_or(Ok(()), |run| finish(input, run, results))
}

fn finish(input: &Input<'_>, mut run: Run, results: &mut Results) -> Result<(), Problem> {
    if let Some((least, most)) = run.rates.ends() {
        run.sample.notes.push(format!("{} intervals, of {least:.0} to {most:.0} bit/s", run.rates.count));
    }
    let caution = "What iperf3 sends by UDP is the rate of -b, and no result.".to_owned();
    if run.is_udp() && !results.cautions.contains(&caution) {
        results.cautions.push(caution);
    }
    input.keep(results, Some(run.sample.or_void("there is no result at its end: the run was cut")))
}
