//! The traffic of two captures, total and per second.

use super::marks::{nothing, over_spans};
use super::pieces::{FEWEST, Pieces};
use holdup_model::captures::{RateRatio, TotalComparison, Traffic};
use holdup_stats::{Cluster, rate_unpaired};

type Count = fn(&Traffic) -> u64;

pub(super) fn rows(a: &Pieces<'_>, b: &Pieces<'_>) -> Vec<TotalComparison> {
    let row = |name: &str, title: &str, value: &dyn Fn(&Pieces<'_>) -> Option<f64>, ratio: Option<RateRatio>| {
        TotalComparison { name: name.to_owned(), title: title.to_owned(), baseline: value(a), other: value(b), ratio }
    };
    let per_s = |count: Count| {
        move |p: &Pieces<'_>| {
            let length_s = p.length_s();
            (length_s > 0.0).then(|| count(&p.traffic) as f64 / length_s)
        }
    };
    let segments: Count = |t| t.segments;
    let bytes: Count = |t| t.payload_bytes;
    let in_all = |count: Count| move |p: &Pieces<'_>| Some(count(&p.traffic) as f64);
    let by_time = |count: Count| Some(ratio([a, b], &|p| by_time(p, count)));
    let size = |p: &Pieces<'_>| {
        (p.traffic.data_segments > 0).then(|| p.traffic.payload_bytes as f64 / p.traffic.data_segments as f64)
    };
    vec![
        row("length_s", "length", &|p| Some(p.length_s()), None),
        row("connections", "connections", &|p| Some(p.analysis.flows.len() as f64), None),
        row("segments", "segments", &in_all(segments), None),
        row("data_segments", "segments with payload", &in_all(|t| t.data_segments), None),
        row("payload_bytes", "payload", &in_all(bytes), None),
        row("segments_per_s", "segments per second", &per_s(segments), by_time(segments)),
        row("payload_bytes_per_s", "payload per second", &per_s(bytes), by_time(bytes)),
        row("payload_bytes_per_data_segment", "mean payload (bytes)", &size, Some(ratio([a, b], &sizes))),
    ]
}

/// Spans with their lengths; the last ends with the capture.
fn by_time(p: &Pieces<'_>, count: Count) -> Vec<Cluster> {
    let length = p.analysis.spans.length_ns();
    let reached = (p.length_s() * 1e9) as u64;
    let work = |i: usize| length.min(reached.saturating_sub(length.saturating_mul(i as u64)).max(1));
    let spans = p.analysis.spans.iter().enumerate();
    spans.map(|(i, span)| Cluster { events: count(&span.traffic()) as f64, work: work(i) as f64 }).collect()
}

fn sizes(p: &Pieces<'_>) -> Vec<Cluster> {
    let cluster = |t: Traffic| Cluster { events: t.payload_bytes as f64, work: t.data_segments as f64 };
    p.analysis.spans.iter().map(|span| cluster(span.traffic())).collect()
}

fn ratio(sides: [&Pieces<'_>; 2], clusters: &dyn Fn(&Pieces<'_>) -> Vec<Cluster>) -> RateRatio {
    let [a, b] = sides.map(clusters);
    if a.len().min(b.len()) < FEWEST {
        return nothing(format!("fewer than {FEWEST} spans of time on a side"));
    }
    over_spans(rate_unpaired(&a, &b))
}
