//! The evidence of a capture in a bundle: totals, and the worst connections.

use crate::analyse::Flows;
use crate::flows::Counts;
use crate::summary::one_flow;
use holdup_model::captures::{CaptureFlow, Traffic};
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{EvidenceItem, Histogram};

/// Totals, under the names of the collector `capture`.
pub fn items(flows: &Flows) -> Vec<EvidenceItem> {
    let (mut traffic, mut counts) = (Traffic::default(), Counts::default());
    for direction in flows.iter().flat_map(|flow| flow.directions) {
        traffic += direction.traffic();
        direction.counts.in_any_order().for_each(|(kind, n)| counts.add(kind, n));
    }
    let Traffic { segments, payload_bytes, .. } = traffic;
    let mut items = vec![
        EvidenceItem::new("tcp_connections", "1", flows.len() as f64),
        EvidenceItem::new("tcp_segments", "1", segments as f64),
        EvidenceItem::new("tcp_payload_bytes", "bytes", payload_bytes as f64),
    ];
    if segments == 0 {
        items.push(EvidenceItem::absent("tcp_marks_per_million", "1", "no segments"));
    }
    for (kind, count) in counts.iter() {
        let rate = count as f64 * 1e6 / segments as f64;
        items.push(EvidenceItem::labelled("tcp_marks", kind.field(), "1", count as f64));
        items.push(EvidenceItem::labelled("tcp_marks_per_million", kind.field(), "1", rate));
    }
    items
}

/// Times, under the names of the collector, without empty ones.
pub fn histograms(ack_rtt_ns: &Histogram, rto_ns: &Histogram) -> Vec<EvidenceHistogram> {
    let named = [("tcp_ack_rtt_ns", ack_rtt_ns), ("tcp_rto_ns", rto_ns)];
    let filled = named.into_iter().filter(|(_, histogram)| histogram.count() > 0);
    filled.map(|(name, h)| EvidenceHistogram { name: name.to_owned(), label: None, histogram: h.into() }).collect()
}

/// At most `most` connections in order of number, those with the most trouble, then the largest, and the number of others.
pub fn worst_flows(flows: &Flows, most: usize) -> (Vec<CaptureFlow>, u64) {
    let mut kept = flows.top(most, |flow| (flow.trouble(), flow.traffic().segments));
    kept.sort_unstable_by_key(|flow| flow.stream);
    (kept.iter().map(one_flow).collect(), (flows.len() - kept.len()) as u64)
}
