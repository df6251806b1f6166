//! The summary of one capture: rates of marks, the connections with most trouble, round trips.

use crate::analyse::Analysis;
use crate::compare::{Pieces, rate};
use crate::compare::{cluster_types, mark, quantiles};
use crate::flows::{Counts, Flow};
use crate::kinds::{Kind, MarkClass};
use crate::rfc;
use crate::segment::Endpoint;
use crate::words::{number, percent};
use core::net::{IpAddr, SocketAddr};
use holdup_model::captures::{
    Capture, CaptureDirection, CaptureFlow, CapturePart, Judged, Mark, MarkCount, Parts, Traffic,
};
use holdup_model::text::{count, list};
use std::collections::BTreeMap;

const NAMED: usize = 3;

/// The first sentence names a connection with at least this share of the trouble.
const CONCENTRATED: f64 = 0.1;

/// Summarises a capture, with its `most` worst parts.
pub fn summarise(name: &str, analysis: &Analysis, by: Parts, most: usize) -> Capture {
    let pieces = Pieces::of(analysis);
    let marks: Vec<MarkCount> = Kind::ALL
        .iter()
        .filter(|kind| pieces.count(**kind) > 0)
        .map(|kind| MarkCount { mark: mark(*kind), rate: rate(&pieces, *kind) })
        .collect();
    let mut parts = match by {
        Parts::Flow => flows(analysis, most),
        Parts::Host => hosts(analysis),
        Parts::Time => spans(analysis),
    };
    let parts_in_all = if by == Parts::Flow { analysis.flows.len() } else { parts.len() } as u64;
    if by != Parts::Time {
        // Stable: with equal trouble, the earlier one comes first.
        parts.sort_by_key(|part| std::cmp::Reverse((part.trouble, part.traffic.segments)));
        parts.truncate(most);
    }
    Capture {
        name: name.to_owned(),
        answer: answer(&pieces, &marks, by, &parts),
        frames: analysis.frames,
        other_frames: analysis.other_frames,
        connections: analysis.flows.len() as u64,
        traffic: pieces.traffic,
        frame_bytes: pieces.frame_bytes,
        begin_unix_ns: analysis.first_ns,
        length_ns: (pieces.length_s() * 1e9) as u64,
        clusters: cluster_types(&[&pieces], crate::compare::Base::Segments).first().copied(),
        marks,
        judgement: None,
        distributions: quantiles::ALL.iter().filter_map(|named| quantiles::distribution(named, analysis)).collect(),
        by,
        parts,
        parts_in_all,
        notes: notes(analysis),
    }
}

/// The findings and stalls of our own judgement that occurred.
pub fn judgement(findings: &rfc::Findings) -> Vec<Judged> {
    let line = |id: &str, title: &str, count: u64, length_ns: Option<u64>| Judged {
        id: id.to_owned(),
        title: title.to_owned(),
        count,
        length_ns,
    };
    let found = rfc::Finding::ALL.iter().map(|f| line(f.id(), f.title(), findings.get(*f), None));
    let stalls = rfc::Stall::ALL.iter().map(|stall| {
        let (count, length_ns) = findings.stalls(*stall);
        line(stall.id(), stall.title(), count, Some(length_ns))
    });
    found.chain(stalls).filter(|line| line.count > 0).collect()
}

/// All connections, for JSON.
pub fn all_flows(analysis: &Analysis) -> impl Iterator<Item = CaptureFlow> + '_ {
    analysis.flows.iter().map(|flow| one_flow(&flow))
}

pub(crate) fn one_flow(flow: &Flow) -> CaptureFlow {
    CaptureFlow {
        stream: flow.stream,
        from: end(&flow.ends[0]),
        to: end(&flow.ends[1]),
        first_frame: flow.first_frame,
        begin_unix_ns: flow.first_ns,
        length_ns: flow.last_ns.saturating_sub(flow.first_ns).max(0) as u64,
        completeness: flow.completeness,
        initial_rtt_ns: flow.initial_rtt_ns,
        directions: [0, 1].map(|i| {
            let d = &flow.directions[i];
            CaptureDirection {
                traffic: d.traffic(),
                frame_bytes: d.frame_bytes,
                in_flight_bytes_max: d.in_flight_bytes_max,
                marks: d.counts.iter().map(|(kind, n)| (kind.field().to_owned(), n)).collect(),
            }
        }),
    }
}

/// `10.0.0.1:5201`, `[fe80::1]:5201`.
pub(crate) fn end(endpoint: &Endpoint) -> String {
    SocketAddr::new(endpoint.address.into(), endpoint.port).to_string()
}

fn part(name: String, traffic: Traffic, counts: impl Iterator<Item = (Kind, u64)>) -> CapturePart {
    let mut marks: Vec<(Mark, u64)> = counts.filter(|(_, n)| *n > 0).map(|(kind, n)| (mark(kind), n)).collect();
    marks.sort_by_key(|(mark, n)| (mark.class, std::cmp::Reverse(*n)));
    let trouble = marks.iter().filter(|(mark, _)| mark.class == MarkClass::Trouble).map(|(_, n)| n).sum();
    CapturePart { name, traffic, trouble, marks }
}

fn both(flow: &Flow) -> Counts {
    let mut sum = Counts::default();
    flow.directions.iter().flat_map(|d| d.counts.iter()).for_each(|(kind, n)| sum.add(kind, n));
    sum
}

/// Only the worst get names: there may be a million connections.
fn flows(analysis: &Analysis, most: usize) -> Vec<CapturePart> {
    let part_of = |flow: &Flow| {
        let name = format!("#{} {} → {}", flow.stream, end(&flow.ends[0]), end(&flow.ends[1]));
        part(name, flow.traffic(), both(flow).iter())
    };
    let worst = analysis.flows.top(most, |flow| (flow.trouble(), flow.traffic().segments));
    worst.iter().map(part_of).collect()
}

/// A connection belongs to both hosts, a mark to the sender of its segment.
fn hosts(analysis: &Analysis) -> Vec<CapturePart> {
    let mut all: BTreeMap<IpAddr, (Traffic, Counts)> = BTreeMap::new();
    for flow in analysis.flows.iter() {
        for (from, direction) in flow.ends.iter().zip(&flow.directions) {
            let (sum, counts) = all.entry(from.address.into()).or_default();
            *sum += direction.traffic();
            direction.counts.in_any_order().for_each(|(kind, n)| counts.add(kind, n));
        }
    }
    all.into_iter().map(|(host, (sum, counts))| part(host.to_string(), sum, counts.iter())).collect()
}

fn spans(analysis: &Analysis) -> Vec<CapturePart> {
    let length_s = analysis.spans.length_ns() as f64 / 1e9;
    let part_of = |(i, span): (usize, &crate::spans::Span)| {
        let name = format!("from {} s", number(i as f64 * length_s));
        part(name, span.traffic(), Kind::ALL.iter().map(|kind| (*kind, span.get(*kind))))
    };
    analysis.spans.iter().enumerate().map(part_of).collect()
}

fn answer(pieces: &Pieces<'_>, marks: &[MarkCount], by: Parts, parts: &[CapturePart]) -> String {
    let what = format!(
        "{} segments in {}",
        number(pieces.traffic.segments as f64),
        count(pieces.analysis.flows.len(), "connection")
    );
    let mut trouble: Vec<&MarkCount> = marks.iter().filter(|m| m.mark.class == MarkClass::Trouble).collect();
    trouble.sort_by_key(|m| std::cmp::Reverse(m.rate.count));
    if trouble.is_empty() {
        return format!("{what}: none has a mark of trouble.");
    }
    let rates: Vec<String> = trouble
        .iter()
        .take(NAMED)
        .map(|m| format!("{} {}", m.mark.plain_title(), number(m.rate.per_million_segments.unwrap_or(0.0))))
        .collect();
    let sum: u64 = trouble.iter().map(|m| m.rate.count).sum();
    let mut out = match trouble.len() {
        1 => format!("{what}; the only mark of trouble per million segments: {}.", rates.join("")),
        _ => format!("{what}; most frequent marks of trouble per million segments: {}.", list(&rates)),
    };
    if by == Parts::Flow
        && pieces.analysis.flows.len() > 1
        && let Some(worst) = parts.first()
        && worst.trouble as f64 >= CONCENTRATED * sum as f64
    {
        out.push_str(&format!(" {} of these marks are in {}.", percent(worst.trouble as f64 / sum as f64), worst.name));
    }
    out
}

fn notes(analysis: &Analysis) -> Vec<String> {
    let mut notes = Vec::new();
    let given = &analysis.given_up;
    let parts = [
        (given.segments_beyond_flows, "segment", "of connections beyond --max-flows or --max-memory are not counted"),
        (
            given.unacknowledged,
            "segment",
            "could not be tracked until their acknowledgement (too much is out of order, or --max-memory too small); some marks may be missing",
        ),
        (given.fragments, "fragment", "of IP never formed a datagram"),
    ];
    for (n, noun, what) in parts {
        if n > 0 {
            notes.push(format!("{} {what}.", count(usize::try_from(n).unwrap_or(usize::MAX), noun)));
        }
    }
    if analysis.other_frames > 0 {
        notes.push(format!(
            "{} not TCP, or too truncated to decide.",
            if analysis.other_frames == 1 {
                "1 frame is".to_owned()
            } else {
                format!("{} frames are", number(analysis.other_frames as f64))
            }
        ));
    }
    notes
}
