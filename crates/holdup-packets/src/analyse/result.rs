//! The result of an analysis. It stands above [`crate::wireshark`], which knows only the connections of one table.

use crate::flows::{Flow, GivenUp};
use crate::spans::Spans;
use crate::wireshark::{Judged, Table, finish as finish_tables};
use core::cmp::Reverse;
use holdup_model::histogram::Histogram;

/// The result of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Frames.
    pub frames: u64,
    /// TCP segments.
    pub segments: u64,
    /// Frames that are not TCP, or of which too little was captured.
    pub other_frames: u64,
    /// The earliest time of a frame, ns since the epoch.
    pub first_ns: i64,
    /// The latest time of a frame.
    pub last_ns: i64,
    /// All connections, in the order of their numbers.
    pub flows: Flows,
    /// `tcp.analysis.initial_rtt`, ns.
    pub initial_rtt_ns: Histogram,
    /// `tcp.analysis.ack_rtt`, ns.
    pub ack_rtt_ns: Histogram,
    /// `tcp.analysis.rto`, ns.
    pub rto_ns: Histogram,
    /// Payload bytes of segments with payload.
    pub payload_bytes: Histogram,
    /// Time between two data segments of one direction with no other segment of it between them, ns.
    pub inter_arrival_ns: Histogram,
    /// The same segments by spans of time.
    pub spans: Spans,
    /// What was dropped.
    pub given_up: GivenUp,
}

impl Table {
    /// What was counted. `frames`, `other_frames` and the times of the first and last frame are set by the reader of the capture.
    pub fn finish(self) -> Analysis {
        finish(vec![self])
    }
}

/// Merges tables, each of which judged all segments of its own connections. The result is the same as that of one table for all.
pub(super) fn finish(tables: Vec<Table>) -> Analysis {
    let (judged, counters, initial_rtt_ns) = finish_tables(tables);
    Analysis {
        frames: counters.segments,
        segments: counters.segments,
        other_frames: 0,
        first_ns: 0,
        last_ns: 0,
        flows: Flows(Source::Judged(judged)),
        initial_rtt_ns,
        ack_rtt_ns: counters.spans.sum(|span| &span.ack_rtt),
        rto_ns: counters.rto_ns.histogram(),
        payload_bytes: counters.spans.sum(|span| &span.payload),
        inter_arrival_ns: counters.spans.sum(|span| &span.inter_arrival),
        spans: counters.spans,
        given_up: counters.given_up,
    }
}

/// The connections of a capture, by number. Each is built on request, because most of a million are only counted.
#[derive(Debug, Clone)]
pub struct Flows(Source);

#[derive(Debug, Clone)]
enum Source {
    Listed(Vec<Flow>),
    Judged(Judged),
}

impl Flows {
    /// The number of connections.
    pub fn len(&self) -> usize {
        match &self.0 {
            Source::Listed(flows) => flows.len(),
            Source::Judged(judged) => judged.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A connection by its number, which must exist.
    pub fn get(&self, stream: u32) -> Flow {
        match &self.0 {
            Source::Listed(flows) => flows[stream as usize].clone(),
            Source::Judged(judged) => judged.flow(stream),
        }
    }

    /// All connections.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Flow> + '_ {
        (0..self.len() as u32).map(|stream| self.get(stream))
    }

    /// The `most` connections with the largest `of`, in descending order, the earlier first if equal.
    pub(crate) fn top<T: Ord + Copy>(&self, most: usize, of: impl Fn(&Flow) -> T) -> Vec<Flow> {
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
    /// In the order of their numbers, from 0.
    fn from_iter<I: IntoIterator<Item = Flow>>(flows: I) -> Self {
        Flows(Source::Listed(flows.into_iter().collect()))
    }
}

impl Default for Flows {
    fn default() -> Self {
        Flows(Source::Listed(Vec::new()))
    }
}

impl PartialEq for Flows {
    fn eq(&self, other: &Flows) -> bool {
        self.iter().eq(other.iter())
    }
}
