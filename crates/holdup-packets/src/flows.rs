//! The counters of one connection.

use crate::kinds::{Kind, MarkClass};
use crate::segment::Endpoint;
use holdup_model::captures::Traffic;

/// The count of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts(Vec<(Kind, u64)>);

impl Counts {
    /// The count of a kind.
    pub fn get(&self, kind: Kind) -> u64 {
        self.0.iter().find(|(k, _)| *k == kind).map_or(0, |(_, n)| *n)
    }

    /// Adds to the count of a kind.
    pub fn add(&mut self, kind: Kind, n: u64) {
        match self.0.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, count)) => *count += n,
            None => self.0.push((kind, n)),
        }
    }

    /// All counts in any order, which is faster.
    pub fn in_any_order(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        self.0.iter().copied()
    }

    /// All counts in the order of the catalogue.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        Kind::ALL.iter().map(|kind| (*kind, self.get(*kind))).filter(|(_, n)| *n > 0)
    }
}

/// One direction of a connection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// Segments.
    pub segments: u64,
    /// Those with payload.
    pub data_segments: u64,
    /// Payload bytes, retransmissions included.
    pub payload_bytes: u64,
    /// Frame bytes on the wire.
    pub frame_bytes: u64,
    /// The maximum of `tcp.analysis.bytes_in_flight`.
    pub in_flight_bytes_max: u32,
    /// Its marks.
    pub counts: Counts,
}

impl Direction {
    /// Its traffic.
    pub fn traffic(&self) -> Traffic {
        let Direction { segments, data_segments, payload_bytes, .. } = *self;
        Traffic { segments, data_segments, payload_bytes }
    }
}

/// A connection (`tcp.stream`).
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Its number, from 0, in order of their first segments.
    pub stream: u32,
    /// Sender and receiver of its first captured segment.
    pub ends: [Endpoint; 2],
    /// The frame of its first segment.
    pub first_frame: u32,
    /// The time of its first segment, ns since the epoch.
    pub first_ns: i64,
    /// The time of its last segment.
    pub last_ns: i64,
    /// `tcp.completeness`: 1 SYN, 2 SYN-ACK, 4 ACK, 8 data, 16 FIN, 32 RST.
    pub completeness: u8,
    /// From the SYN to the ACK of the handshake, ns; `None` if that was not captured completely.
    pub initial_rtt_ns: Option<u64>,
    /// From `ends[0]` to `ends[1]`, and back.
    pub directions: [Direction; 2],
}

impl Flow {
    /// The traffic in both directions.
    pub fn traffic(&self) -> Traffic {
        self.directions.iter().map(Direction::traffic).sum()
    }

    /// The number of marks of trouble.
    pub fn trouble(&self) -> u64 {
        let marks = self.directions.iter().flat_map(|direction| direction.counts.in_any_order());
        marks.filter(|(kind, _)| kind.class() == MarkClass::Trouble).map(|(_, n)| n).sum()
    }
}

/// What was dropped to stay within limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// Segments of connections beyond the limit; they are in no other count.
    pub segments_beyond_flows: u64,
    /// Segments that could not be tracked until their acknowledgement: beyond a limit, or of a connection that is so out of order that
    /// looking through them would take too long.
    pub unacknowledged: u64,
    /// IP fragments that were dropped before their datagram was complete.
    pub fragments: u64,
}
