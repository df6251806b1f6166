//! One network namespace: its packets are judged as they come.

use crate::reading::thread_cpu_ns;
use holdup_host::network::{Capturing, Packet, PacketRing, RingCounts};
use holdup_model::captures::CaptureTrace;
use holdup_packets::capture::{Frame, Link};
use holdup_packets::decode::{self, Decoded, Decoder};
use holdup_packets::flows::{Analysis, Flow};
use holdup_packets::live::Live;
use holdup_packets::wireshark::{self, Table};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Enough for the headers of IPv6, TCP with all its options and a tunnel around them.
pub(super) const CAPTURING: Capturing = Capturing { snap_bytes: 192, ring_bytes: 32 << 20 };

/// The loopback link, on which everything comes in.
const LOOPBACK: u32 = 1;

/// What passes one link.
struct OfLink {
    decoder: Decoder,
    table: Table,
    frames: u32,
    /// Whether each connection was opened from here.
    is_ours: Vec<bool>,
    live: Live,
}

impl OfLink {
    fn new() -> Self {
        OfLink {
            decoder: Decoder::new(decode::Limits::default()),
            table: Table::new(wireshark::Limits::default()),
            frames: 0,
            is_ours: Vec::new(),
            live: Live::default(),
        }
    }

    fn see(&mut self, packet: &Packet<'_>, link: Link) {
        self.frames = self.frames.saturating_add(1);
        let frame = Frame {
            number: self.frames,
            at_ns: packet.at_ns,
            link,
            interface: packet.link,
            captured: packet.bytes,
            wire_bytes: packet.length,
        };
        let Decoded::Segment(ref segment) = self.decoder.decode(&frame) else { return };
        let Some(marks) = self.table.judge(segment) else { return };
        if marks.stream as usize == self.is_ours.len() {
            self.is_ours.push(packet.is_outgoing || packet.link == LOOPBACK);
        }
        if self.is_ours.get(marks.stream as usize) == Some(&true) {
            self.live.see(&segment, &marks);
        }
    }
}

/// The connections of a link that are kept over time.
pub(super) const MOST_TRACES: usize = 3;

/// What passed one link.
pub(super) struct Passed {
    /// The connections that were opened from here.
    pub(super) flows: Vec<Flow>,
    /// The worst of them over time, the worst first.
    pub(super) traces: Vec<CaptureTrace>,
    /// How many of the worst had to give up their place to others.
    pub(super) untraced: usize,
    /// The memory that traces took, bytes.
    pub(super) trace_bytes: u64,
    /// Everything else, of all connections.
    pub(super) analysis: Analysis,
}

/// What was seen in one namespace.
#[derive(Default)]
pub(super) struct Place {
    links: BTreeMap<u32, OfLink>,
    pub(super) counts: RingCounts,
    pub(super) notes: Vec<String>,
    pub(super) cpu_ns: u64,
    pub(super) wakeups: u64,
    pub(super) bytes: u64,
}

impl Place {
    /// Judges what comes until it is to end.
    pub(super) fn watch(mut self, mut ring: PacketRing, ends: &AtomicBool) -> Self {
        loop {
            let is_last = ends.load(Ordering::Relaxed);
            self.wakeups += 1;
            ring.drain(&mut |packet| self.see(&packet));
            if is_last {
                break;
            }
            if let Err(why) = ring.wait(Duration::from_millis(20)) {
                self.notes.push(format!("the packet socket: {why}"));
                break;
            }
        }
        match ring.counts() {
            Ok(counts) => self.counts = counts,
            Err(why) => self.notes.push(format!("what the ring lost is not known: {why}")),
        }
        self.cpu_ns = thread_cpu_ns();
        self
    }

    fn see(&mut self, packet: &Packet<'_>) {
        let link = match packet.protocol {
            0x0800 => Link::Ipv4,
            0x86dd => Link::Ipv6,
            _ => return,
        };
        self.bytes += packet.bytes.len() as u64;
        self.links.entry(packet.link).or_insert_with(OfLink::new).see(packet, link);
    }

    /// What was seen, link by link.
    pub(super) fn finish(self) -> Vec<Passed> {
        let of = |of_link: OfLink| {
            let analysis = of_link.table.finish();
            let all = analysis.flows.iter().zip(of_link.is_ours);
            let flows: Vec<Flow> = all.filter_map(|(flow, is_ours)| is_ours.then_some(flow)).collect();
            let trace_bytes = of_link.live.memory_bytes();
            let (traces, untraced) = of_link.live.worst(flows.iter().cloned(), MOST_TRACES);
            Passed { flows, traces, untraced, trace_bytes, analysis }
        };
        self.links.into_values().map(of).collect()
    }
}
