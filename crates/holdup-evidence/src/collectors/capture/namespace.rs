//! One network namespace: its packets are judged as they pass.

use crate::background::End;
use crate::reading::thread_cpu_ns;
use holdup_host::network::{Capturing, Packet, PacketRing, RingCounts};
use holdup_model::captures::CaptureTrace;
use holdup_packets::analyse::Analysis;
use holdup_packets::capture::{Frame, Link};
use holdup_packets::decode::{self, Decoded, Decoder};
use holdup_packets::flows::Flow;
use holdup_packets::live::Live;
use holdup_packets::segment::{ACK, Endpoint, SYN, Segment};
use holdup_packets::wireshark::{self, Table};
use std::collections::BTreeMap;
use std::net::IpAddr;
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

/// True if the connection of a first segment was opened from the side that it was captured on. Of one that was open before,
/// the end with the higher port is taken for the opener, as most are: both sides decide alike, so that it counts once.
fn is_opened_from(segment: &Segment, is_outgoing: bool) -> bool {
    let key = |end: &Endpoint| (end.port, IpAddr::from(end.address));
    let sender_opened = match (segment.has(SYN), segment.has(ACK)) {
        (true, is_accepting) => !is_accepting,
        (false, _) => key(&segment.from) > key(&segment.to),
    };
    sender_opened == is_outgoing
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
            self.is_ours.push(packet.link == LOOPBACK || is_opened_from(segment, packet.is_outgoing));
        }
        if self.is_ours.get(marks.stream as usize) == Some(&true) {
            self.live.add(segment, &marks);
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
    /// Connections among the worst whose trace was given up for another's.
    pub(super) untraced: usize,
    /// The memory that traces took, bytes.
    pub(super) trace_bytes: u64,
    /// Everything else, of all connections.
    pub(super) analysis: Analysis,
}

/// The packets of one namespace.
#[derive(Default)]
pub(super) struct NamespaceCapture {
    links: BTreeMap<u32, OfLink>,
    pub(super) counts: RingCounts,
    pub(super) notes: Vec<String>,
    pub(super) cpu_ns: u64,
    pub(super) wakeups: u64,
    pub(super) bytes: u64,
}

impl NamespaceCapture {
    /// Judges what comes until it is to end.
    pub(super) fn watch(mut self, mut ring: PacketRing, end: &End) -> Self {
        while !end.has_come() {
            self.wakeups += 1;
            ring.drain(&mut |packet| self.see(&packet));
            if let Err(why) = ring.wait(Duration::from_millis(20)) {
                self.notes.push(format!("the packet socket: {why}"));
                break;
            }
        }
        match ring.finish(&mut |packet| self.see(&packet)) {
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
            let is_ours = |flow: &Flow| of_link.is_ours.get(flow.stream as usize) == Some(&true);
            let flows = analysis.flows.iter().filter(is_ours).collect();
            let trace_bytes = of_link.live.memory_bytes();
            let (traces, untraced) = of_link.live.worst(&analysis.flows, MOST_TRACES, is_ours);
            Passed { flows, traces, untraced, trace_bytes, analysis }
        };
        self.links.into_values().map(of).collect()
    }
}

#[cfg(test)]
#[path = "../../../../holdup-packets/tests/made/mod.rs"]
mod made;

#[cfg(test)]
mod tests {
    use super::made::Tcp;
    use super::*;
    use holdup_packets::segment::Address;

    /// Whether the two sides of a connection take it for opened there: the client's, and the server's.
    fn taken(tcp: &Tcp, is_of_client: bool) -> (bool, bool) {
        let mut decoder = Decoder::new(decode::Limits::default());
        let packet = tcp.packet();
        let frame = Frame {
            number: 1,
            at_ns: 1,
            link: Link::Ipv4,
            interface: 2,
            captured: &packet,
            wire_bytes: packet.len() as u32,
        };
        let Decoded::Segment(segment) = decoder.decode(&frame) else { panic!("{frame:?}") };
        (is_opened_from(&segment, is_of_client), is_opened_from(&segment, !is_of_client))
    }

    #[test]
    fn a_connection_counts_on_the_side_of_its_opener_whichever_segment_is_seen_first() {
        let client = Endpoint { address: Address::V4(0x0a00_0001), port: 40_000 };
        let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };
        for flags in [SYN, ACK] {
            assert_eq!(taken(&Tcp { flags, ..Tcp::new(client, server) }, true), (true, false), "{flags}");
        }
        for flags in [SYN | ACK, ACK] {
            assert_eq!(taken(&Tcp { flags, ..Tcp::new(server, client) }, false), (true, false), "{flags}");
        }
        // A SYN decides against the ports.
        assert_eq!(taken(&Tcp { flags: SYN, ..Tcp::new(server, client) }, true), (true, false));
        // Ports that are the same leave the addresses.
        let twin = Endpoint { port: 40_000, ..server };
        let (of_client, of_server) = taken(&Tcp { flags: ACK, ..Tcp::new(client, twin) }, true);
        assert_ne!(of_client, of_server);
    }
}
