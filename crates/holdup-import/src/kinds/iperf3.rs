//! iperf3's JSON.

use super::Kind;
use crate::json::Node;
use crate::number::{Row, metrics_of, range};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Fact, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "iperf3",
        summary: "iperf3's JSON (-J)",
        docs: "A file is a run; protocol, streams, direction and rate are arms. The throughput is what arrived; `sum_sent` counts what is still in buffers. Of UDP \
               the rate that is sent is that of `-b` and no result. Seconds of one run follow each other and are not independent, so they are no runs. \
               Until 3.15 all streams are of one thread, which may be the limit: the CPU time of both ends is read.",
        references: &["iperf 3.12, src/iperf_api.c:iperf_json_finish, src/iperf_client_api.c"],
    },
    looks_like: |head| {
        head.contains("\"start\"")
            && (head.contains("\"version\":\t\"iperf") || head.contains("\"iperf 3") || head.contains("\"cookie\""))
    },
    read,
    folder: None,
};

/// Where a number is, and its metric.
const ROWS: &[Row] = &[
    ("sum_received.bits_per_second", "received_bits_per_s", "bit/s", Higher, "payload that arrived"),
    ("sum_sent.bits_per_second", "sent_bits_per_s", "bit/s", Higher, "payload that was sent"),
    ("sum_sent.retransmits", "retransmits", "1", Lower, "segments that were sent again"),
    ("sum.jitter_ms", "jitter_ms", "ms", Lower, "how much the delay of datagrams varies (RFC 3550)"),
    ("sum.lost_percent", "lost_share", "share", Lower, "datagrams that did not arrive"),
    ("cpu_utilization_percent.host_total", "own_cpu_share", "share", Lower, "CPU time of this end per second"),
    ("cpu_utilization_percent.remote_total", "other_cpu_share", "share", Lower, "CPU time of the other end per second"),
];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let root = document.root();
    let (start, end) = (root.need("start")?, root.need("end")?);
    let mut sample = Sample { void: root.text_of("error").map(str::to_owned), ..Sample::default() };
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    if let Some(system) = start.text_of("system_info") {
        let words: Vec<&str> = system.split_whitespace().collect();
        if let ["Linux", name, release, ..] = words[..] {
            results.facts.push(Fact::read("host.name", name, "iperf3 -J"));
            results.facts.push(Fact::read("kernel.release", release, "iperf3 -J"));
        }
    }
    if let Some(test) = start.get("test_start") {
        settings(test, &mut sample);
    }
    let begin_s = start.get("timestamp").map(|at| at.number_of("timesecs")).transpose()?.flatten();
    sample.begin_unix_ns = begin_s.map(|seconds| (seconds * 1e9) as i64);
    let is_udp = sample.labels.get("protocol").is_some_and(|protocol| protocol == "UDP");
    for (path, id, ..) in ROWS {
        // Before version 3.8 or so, what arrived of UDP has no sum: it is not known.
        if let Some(value) = path.split('.').try_fold(end, Node::get) {
            let share = if id.ends_with("_share") { 100.0 } else { 1.0 };
            sample.measurements.push(Measurement::new(*id, value.number()? / share));
        } else if is_udp && *id == "received_bits_per_s" {
            sample.measurements.push(Measurement::absent(*id, "the file does not say what arrived"));
        }
    }
    if let Some(sum) = end.get("sum_received").or_else(|| end.get("sum")) {
        sample.length_ns = sum.number_of("seconds")?.map(|seconds| (seconds * 1e9) as u64);
    }
    let rates = root.get("intervals").map(rates).transpose()?.unwrap_or_default();
    if let Some((least, most)) = range(&rates) {
        sample.notes.push(format!("{} intervals, of {least:.0} to {most:.0} bit/s", rates.len()));
    }
    results.samples.push(sample.or_void("there is no result at its end: the run was cut"));
    if is_udp {
        results.cautions.push("What iperf3 sends by UDP is the rate of -b, and no result.".to_owned());
    }
    Ok(results)
}

fn settings(test: Node<'_>, sample: &mut Sample) {
    for (key, label) in
        [("protocol", "protocol"), ("num_streams", "streams"), ("blksize", "block_bytes"), ("target_bitrate", "rate")]
    {
        sample.labels.extend(test.get(key).map(|value| (label.to_owned(), value.shown())));
    }
    if test.get("reverse").is_some_and(|reverse| reverse.shown() == "1") {
        sample.labels.insert("direction".to_owned(), "reverse".to_owned());
    }
}

fn rates(intervals: Node<'_>) -> Result<Vec<f64>, Problem> {
    let sums = intervals.items()?.filter_map(|one| one.get("sum"));
    let sums = sums.filter(|sum| !sum.is_set("omitted"));
    Ok(sums.map(|sum| sum.number_of("bits_per_second")).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}
