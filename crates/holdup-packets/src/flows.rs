//! What was counted of the connections of a capture.

use crate::kinds::{Kind, Tells};
use crate::segment::Endpoint;
use crate::spans::Spans;
use crate::wireshark::Judged;
use core::cmp::Reverse;
use holdup_model::captures::Traffic;
use holdup_model::histogram::Histogram;

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
        marks.filter(|(kind, _)| kind.tells() == Tells::Trouble).map(|(_, n)| n).sum()
    }
}

/// The connections of a capture, in the order of their numbers. They are made when they are asked for: of a million of them most
/// are only counted.
#[derive(Debug, Clone)]
pub struct Flows(Kept);

#[derive(Debug, Clone)]
enum Kept {
    Listed(Vec<Flow>),
    Judged(Judged),
}

impl Flows {
    pub(crate) fn judged(judged: Judged) -> Self {
        Flows(Kept::Judged(judged))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::Listed(flows) => flows.len(),
            Kept::Judged(judged) => judged.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One by its number, which must be one of them.
    pub fn get(&self, stream: u32) -> Flow {
        match &self.0 {
            Kept::Listed(flows) => flows[stream as usize].clone(),
            Kept::Judged(judged) => judged.flow(stream),
        }
    }

    /// All, one after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Flow> + '_ {
        (0..self.len() as u32).map(|stream| self.get(stream))
    }

    /// Those with the most of something, at most so many, the most first; of those with the same, the earlier first.
    pub(crate) fn most<T: Ord + Copy>(&self, most: usize, of: impl Fn(&Flow) -> T) -> Vec<Flow> {
        let mut all: Vec<(Reverse<T>, u32)> = self.iter().map(|flow| (Reverse(of(&flow)), flow.stream)).collect();
        if most < all.len() {
            all.select_nth_unstable(most);
            all.truncate(most);
        }
        all.sort_unstable();
        all.into_iter().map(|(_, stream)| self.get(stream)).collect()
    }
}

impl FromIterator<Flow> for Flows {
    /// They must come in the order of their numbers, from 0.
    fn from_iter<I: IntoIterator<Item = Flow>>(flows: I) -> Self {
        Flows(Kept::Listed(flows.into_iter().collect()))
    }
}

impl Default for Flows {
    fn default() -> Self {
        Flows(Kept::Listed(Vec::new()))
    }
}

impl PartialEq for Flows {
    fn eq(&self, other: &Flows) -> bool {
        self.iter().eq(other.iter())
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

/// What a capture held.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Frames read.
    pub frames: u64,
    /// Segments of TCP among them.
    pub segments: u64,
    /// Frames that are something else, or of which too little was captured to tell.
    pub other_frames: u64,
    /// When the first and the last frame were captured, ns since the epoch.
    pub first_ns: i64,
    /// The last.
    pub last_ns: i64,
    /// All connections, in the order of their numbers.
    pub flows: Flows,
    /// Initial round trips, ns.
    pub initial_rtt_ns: Histogram,
    /// From a segment to its acknowledgement (`tcp.analysis.ack_rtt`), ns.
    pub ack_rtt_ns: Histogram,
    /// From a segment to its retransmission (`tcp.analysis.rto`), ns.
    pub rto_ns: Histogram,
    /// Payload of the segments that have some, bytes.
    pub payload_bytes: Histogram,
    /// Between two data segments of one direction, between which that direction sent nothing else, ns.
    pub inter_arrival_ns: Histogram,
    /// The segments of the connections above, by spans of time.
    pub spans: Spans,
    /// What was given up.
    pub given_up: GivenUp,
}
