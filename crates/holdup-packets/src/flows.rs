//! What is counted of one connection.

use crate::kinds::{Kind, MarkClass};
use crate::segment::Endpoint;
use holdup_model::captures::Traffic;

/// How often each kind was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts(Vec<(Kind, u64)>);

impl Counts {
    /// How often a kind was seen.
    pub fn get(&self, kind: Kind) -> u64 {
        self.0.iter().find(|(k, _)| *k == kind).map_or(0, |(_, n)| *n)
    }

    /// Counts one more, or many.
    pub fn add(&mut self, kind: Kind, n: u64) {
        match self.0.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, count)) => *count += n,
            None => self.0.push((kind, n)),
        }
    }

    /// All that were seen, which is faster than in the order of the catalogue.
    pub fn in_any_order(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        self.0.iter().copied()
    }

    /// All that were seen, in the order of the catalogue.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.iter().map(|kind| (*kind, self.get(*kind))).filter(|(_, n)| *n > 0)
    }
}

/// One direction of a connection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// Segments seen.
    pub segments: u64,
    /// Those with payload.
    pub data_segments: u64,
    /// Bytes of payload, those sent again counted again.
    pub payload_bytes: u64,
    /// Bytes of frames on the wire.
    pub frame_bytes: u64,
    /// The largest number of bytes in flight that was seen.
    pub in_flight_bytes_max: u32,
    /// What was seen in it.
    pub counts: Counts,
}

impl Direction {
    /// What went by.
    pub fn traffic(&self) -> Traffic {
        let Direction { segments, data_segments, payload_bytes, .. } = *self;
        Traffic { segments, data_segments, payload_bytes }
    }
}

/// A connection, as Wireshark numbers them (`tcp.stream`).
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its number, from 0, in the order in which they began.
    pub stream: u32,
    /// Who sent the first segment that was seen, and to whom.
    pub ends: [Endpoint; 2],
    /// The frame that it began in.
    pub first_frame: u32,
    /// When it began and when its last segment came, ns since the epoch.
    pub first_ns: i64,
    /// When its last segment came.
    pub last_ns: i64,
    /// `tcp.completeness`: 1 SYN, 2 SYN-ACK, 4 ACK, 8 data, 16 FIN, 32 RST.
    pub completeness: u8,
    /// From the SYN to the ACK that ends the handshake, ns; `None` where that was not seen whole.
    pub initial_rtt_ns: Option<u64>,
    /// From `ends[0]` to `ends[1]`, and back.
    pub directions: [Direction; 2],
}

impl Flow {
    /// What went by in both directions.
    pub fn traffic(&self) -> Traffic {
        self.directions.iter().map(Direction::traffic).sum()
    }

    /// Segments with a mark of trouble; one with several counts for each.
    pub fn trouble(&self) -> u64 {
        let marks = self.directions.iter().flat_map(|direction| direction.counts.in_any_order());
        marks.filter(|(kind, _)| kind.class() == MarkClass::Trouble).map(|(_, n)| n).sum()
    }
}

/// What had to be given up to stay within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// Segments of connections beyond the limit on their number; they are in no count.
    pub segments_beyond_flows: u64,
    /// Segments that were not kept as unacknowledged, because their direction had too many.
    pub unacknowledged: u64,
    /// Fragments of IP that were dropped before their datagram was whole.
    pub fragments: u64,
}
