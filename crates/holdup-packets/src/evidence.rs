//! What a bundle keeps of connections: numbers of all together, and those that were worst one by one.

use crate::analyse::Flows;
use crate::flows::Counts;
use crate::summary::one_flow;
use holdup_model::captures::{CaptureFlow, Traffic};
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{EvidenceItem, Histogram};

/// The numbers of connections together, by the names that the collector `capture` documents.
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
        items.push(EvidenceItem::absent("tcp_marks_per_million", "1", "no segment was seen"));
    }
    for (kind, count) in counts.iter() {
        let rate = count as f64 * 1e6 / segments as f64;
        items.push(EvidenceItem::labelled("tcp_marks", kind.field(), "1", count as f64));
        items.push(EvidenceItem::labelled("tcp_marks_per_million", kind.field(), "1", rate));
    }
    items
}

/// The times of connections, by the names of the collector; those without any are left out.
pub fn histograms(ack_rtt_ns: &Histogram, rto_ns: &Histogram) -> Vec<EvidenceHistogram> {
    let named = [("tcp_ack_rtt_ns", ack_rtt_ns), ("tcp_rto_ns", rto_ns)];
    let seen = named.into_iter().filter(|(_, histogram)| histogram.count() > 0);
    seen.map(|(name, h)| EvidenceHistogram { name: name.to_owned(), label: None, histogram: h.into() }).collect()
}

/// At most so many connections in their order, and how many others there are. When there are more, those with the most
/// trouble are kept, then the largest.
pub fn worst_flows(flows: &Flows, most: usize) -> (Vec<CaptureFlow>, u64) {
    let mut kept = flows.top(most, |flow| (flow.trouble(), flow.traffic().segments));
    kept.sort_unstable_by_key(|flow| flow.stream);
    (kept.iter().map(one_flow).collect(), (flows.len() - kept.len()) as u64)
}
