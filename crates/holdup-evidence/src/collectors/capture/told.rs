//! What the places saw, as evidence.

use super::place::{CAPTURING, Place};
use super::{Counters, META};
use holdup_model::histogram::Histogram;
use holdup_model::{Collected, Coverage, EvidenceItem, SelfCost};
use holdup_packets::kept;

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
    let mut items = kept::items(&flows.into_iter().collect());
    let moved = moved.iter().filter(|(_, count)| **count > 0);
    items.extend(moved.map(|(name, count)| EvidenceItem::labelled("tcp_kernel", name, "1", *count as f64)));
    Collected {
        collector: META.id.to_owned(),
        items,
        coverage: Coverage { seen, lost, notes },
        cost,
        histograms: kept::histograms(&ack_rtt_ns, &rto_ns),
        ..Collected::default()
    }
}
