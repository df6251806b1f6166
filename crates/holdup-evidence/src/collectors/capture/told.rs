//! What the places saw, as evidence.

use super::place::{CAPTURING, Place};
use super::{Counters, META};
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::histogram::Histogram;
use holdup_model::{Collected, Coverage, EvidenceItem, SelfCost};
use holdup_packets::flows::Flow;
use holdup_packets::kinds::Kind;

/// All places together.
pub(super) fn told(places: Vec<Place>, moved: &Counters, mut notes: Vec<String>, mut cost: SelfCost) -> Collected {
    let (mut seen, mut lost) = (0, 0);
    let mut flows = Vec::new();
    let (mut ack_rtt_ns, mut rto_ns) = (Histogram::new(), Histogram::new());
    for place in places {
        seen += place.counts.packets.saturating_sub(place.counts.dropped);
        lost += place.counts.dropped;
        cost.cpu_ns += place.cpu_ns;
        cost.wakeups += place.wakeups;
        cost.bytes += place.bytes;
        cost.memory_bytes += CAPTURING.ring_bytes as u64;
        notes.extend(place.notes.iter().cloned());
        let (of_place, analyses) = place.finish();
        flows.extend(of_place);
        for analysis in analyses {
            ack_rtt_ns.add(&analysis.ack_rtt_ns);
            rto_ns.add(&analysis.rto_ns);
            let beyond = analysis.given_up.segments_beyond_flows;
            if beyond > 0 {
                notes.push(format!("{beyond} segments are of connections beyond the limit on their number"));
            }
        }
    }
    let histograms = [("tcp_ack_rtt_ns", &ack_rtt_ns), ("tcp_rto_ns", &rto_ns)]
        .into_iter()
        .filter(|(_, histogram)| histogram.count() > 0)
        .map(|(name, histogram)| EvidenceHistogram { name: name.to_owned(), label: None, histogram: histogram.into() })
        .collect();
    let mut items = of_flows(&flows);
    let moved = moved.iter().filter(|(_, count)| **count > 0);
    items.extend(moved.map(|(name, count)| EvidenceItem::labelled("tcp_kernel", name, "1", *count as f64)));
    Collected {
        collector: META.id.to_owned(),
        items,
        coverage: Coverage { seen, lost, notes },
        cost,
        histograms,
        ..Collected::default()
    }
}

fn of_flows(flows: &[Flow]) -> Vec<EvidenceItem> {
    let directions = || flows.iter().flat_map(|flow| &flow.directions);
    let segments: u64 = directions().map(|d| d.segments).sum();
    let payload_bytes: u64 = directions().map(|d| d.payload_bytes).sum();
    let mut items = vec![
        EvidenceItem::new("tcp_connections", "1", flows.len() as f64),
        EvidenceItem::new("tcp_segments", "1", segments as f64),
        EvidenceItem::new("tcp_payload_bytes", "bytes", payload_bytes as f64),
    ];
    if segments == 0 {
        items.push(EvidenceItem::absent("tcp_marks_per_million", "1", "no segment was seen"));
    }
    for kind in Kind::ALL {
        let count: u64 = directions().map(|d| d.counts.get(*kind)).sum();
        if count > 0 {
            let rate = count as f64 * 1e6 / segments as f64;
            items.push(EvidenceItem::labelled("tcp_marks", kind.field(), "1", count as f64));
            items.push(EvidenceItem::labelled("tcp_marks_per_million", kind.field(), "1", rate));
        }
    }
    items
}
