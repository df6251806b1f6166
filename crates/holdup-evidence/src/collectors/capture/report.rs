//! The captures of all namespaces, as evidence.

use super::namespace::{CAPTURING, MOST_TRACES, NamespaceCapture, Passed};
use super::sockets;
use super::{Counters, META};
use holdup_model::captures::{CaptureRecord, CaptureTrace};
use holdup_model::histogram::Histogram;
use holdup_model::{Collected, Coverage, EvidenceItem, SelfCost};
use holdup_packets::analyse::Flows;
use holdup_packets::evidence;
use holdup_packets::flows::Flow;

/// The most connections that are kept of a trial.
const MOST_FLOWS: usize = 1_000;

/// All namespaces together.
pub(super) fn report(
    namespaces: Vec<NamespaceCapture>,
    moved: &Counters,
    sockets: sockets::Sum,
    mut notes: Vec<String>,
    mut cost: SelfCost,
) -> Collected {
    let (mut seen, mut lost) = (0, 0);
    let (mut flows, mut traces): (Vec<Flow>, Vec<CaptureTrace>) = (Vec::new(), Vec::new());
    let mut untraced = 0;
    let (mut ack_rtt_ns, mut rto_ns) = (Histogram::new(), Histogram::new());
    for namespace in namespaces {
        seen += namespace.counts.packets.saturating_sub(namespace.counts.dropped);
        lost += namespace.counts.dropped;
        cost.cpu_ns += namespace.cpu_ns;
        cost.wakeups += namespace.wakeups;
        cost.bytes += namespace.bytes;
        cost.memory_bytes += CAPTURING.ring_bytes as u64;
        notes.extend(namespace.notes.iter().cloned());
        let mut of_namespace = Vec::new();
        for passed in namespace.finish() {
            let Passed { flows: of_link, traces: mut of_worst, analysis, .. } = passed;
            untraced += passed.untraced;
            cost.memory_bytes += passed.trace_bytes;
            // Each link counts its connections from 0; together they have numbers of their own.
            let first = flows.len() as u32;
            for trace in &mut of_worst {
                let place = of_link.partition_point(|flow| flow.stream < trace.stream);
                trace.stream = first + place as u32;
            }
            of_namespace.extend(of_worst);
            flows.extend(of_link.into_iter().zip(first..).map(|(flow, stream)| Flow { stream, ..flow }));
            ack_rtt_ns.add(&analysis.ack_rtt_ns);
            rto_ns.add(&analysis.rto_ns);
            let beyond = analysis.given_up.segments_beyond_flows;
            if beyond > 0 {
                notes.push(format!("{beyond} segments are of connections beyond the limit on their number"));
            }
        }
        of_namespace.sort_by_key(|trace| std::cmp::Reverse(trace.trouble));
        of_namespace.truncate(MOST_TRACES);
        traces.extend(of_namespace);
    }
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.trouble));
    if untraced > 0 {
        notes.push(format!(
            "{untraced} of the worst connections are not kept over time: others had more trouble before"
        ));
    }
    notes.extend(sockets.notes());
    let flows: Flows = flows.into_iter().collect();
    let mut items = evidence::items(&flows);
    let moved = moved.iter().filter(|(_, count)| **count > 0);
    items.extend(moved.map(|(name, count)| EvidenceItem::labelled("tcp_kernel", name, "1", *count as f64)));
    items.extend(sockets.items());
    let (of_flows, flows_beyond) = evidence::worst_flows(&flows, MOST_FLOWS);
    let capture = CaptureRecord { flows: of_flows, flows_beyond, traces, ..CaptureRecord::default() };
    let mut histograms = evidence::histograms(&ack_rtt_ns, &rto_ns);
    histograms.extend(sockets.histograms());
    Collected {
        collector: META.id.to_owned(),
        items,
        coverage: Coverage { seen, lost, notes },
        cost,
        histograms,
        capture: Some(capture),
        ..Collected::default()
    }
}
