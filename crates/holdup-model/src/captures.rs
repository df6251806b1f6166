//! What captures of packets hold, and what two of them say of each other.

use crate::outcome::{Estimate, FindingVerdict, Verdict};
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::AddAssign;

/// What kind of event a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkClass {
    /// Something went wrong on the path or at an endpoint: more of it is worse.
    Trouble,
    /// Caused by how the capture was made (missed, merged or reordered packets), not by the network.
    #[serde(alias = "capture")]
    CaptureArtefact,
    /// Part of the usual life of a connection (Wireshark's severity "Chat").
    #[serde(alias = "course")]
    Normal,
}

/// A mark, as reports name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Wireshark's field (`tcp.analysis.retransmission`).
    pub field: String,
    /// Its title.
    pub title: String,
    /// Its class.
    #[serde(alias = "tells")]
    pub class: MarkClass,
}

impl Mark {
    /// Its title without what stands in brackets before it, as sentences and tables have it.
    pub fn plain_title(&self) -> &str {
        self.title.strip_prefix("(suspected) ").unwrap_or(&self.title)
    }
}

/// How often a mark was seen, and by how much of what went by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MarkRate {
    /// How many segments have it.
    pub count: u64,
    /// For each million segments; `None` without any segment.
    pub per_million_segments: Option<f64>,
    /// Its interval, where there is one.
    pub per_million_segments_interval: Option<(f64, f64)>,
    /// For each GB (10⁹ bytes) of payload; `None` without any payload.
    pub per_gb: Option<f64>,
    /// Its interval, where there is one.
    pub per_gb_interval: Option<(f64, f64)>,
}

/// A mark of one capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkCount {
    /// The mark.
    pub mark: Mark,
    /// How often.
    pub rate: MarkRate,
}

/// What went by: of a capture, a connection, a host, a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Segments of TCP.
    pub segments: u64,
    /// Those with payload.
    pub data_segments: u64,
    /// Bytes of payload, those sent again counted again.
    pub payload_bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.segments += other.segments;
        self.data_segments += other.data_segments;
        self.payload_bytes += other.payload_bytes;
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Traffic>>(all: I) -> Traffic {
        all.fold(Traffic::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// Quantiles of one distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Its name, with the unit last (`ack_rtt_ns`).
    pub name: String,
    /// How it is called in a table.
    pub title: String,
    /// How many values.
    pub count: u64,
    /// Quantile (0 to 1), value, and whether fewer than 10 values lie beyond.
    pub quantiles: Vec<(f64, f64, bool)>,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureFlow {
    /// Its number (`tcp.stream`).
    pub stream: u32,
    /// Who sent its first segment: `address:port`.
    pub from: String,
    /// To whom.
    pub to: String,
    /// The frame that it began in.
    pub first_frame: u32,
    /// When, ns since the epoch.
    pub begin_unix_ns: i64,
    /// From its first segment to its last, ns.
    pub length_ns: u64,
    /// `tcp.completeness`.
    pub completeness: u8,
    /// From the SYN to the end of the handshake, ns.
    pub initial_rtt_ns: Option<u64>,
    /// From `from` to `to`, and back.
    pub directions: [CaptureDirection; 2],
}

/// One direction of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureDirection {
    /// What went by.
    pub traffic: Traffic,
    /// Bytes of frames on the wire.
    pub frame_bytes: u64,
    /// The largest number of bytes in flight.
    pub in_flight_bytes_max: u32,
    /// Wireshark's field and how often it was seen.
    pub marks: Vec<(String, u64)>,
}

/// A part of a capture: a connection, a host, a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapturePart {
    /// What it is.
    pub name: String,
    /// What went by; a segment is of both of its hosts.
    pub traffic: Traffic,
    /// How many marks of trouble its segments have.
    pub trouble: u64,
    /// Its marks with their counts, those of trouble first, the most frequent first.
    pub marks: Vec<(Mark, u64)>,
}

/// What the parts are that a capture was cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parts {
    /// Connections, those with the most trouble.
    Flow,
    /// Hosts, those with the most trouble.
    Host,
    /// Spans of time, all of them in order.
    Time,
}

/// A line of our own judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Its name, stable for ever.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How often.
    pub count: u64,
    /// For how long in all, ns, of what takes time.
    pub length_ns: Option<u64>,
}

/// One capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// Its file's name.
    pub name: String,
    /// What is in it, in a sentence or two.
    pub answer: String,
    /// Frames read.
    pub frames: u64,
    /// Frames that are no segment of TCP, or of which too little was captured.
    pub other_frames: u64,
    /// Connections.
    pub connections: u64,
    /// What went by in them.
    pub traffic: Traffic,
    /// Bytes of their frames on the wire.
    pub frame_bytes: u64,
    /// When the first frame was captured, ns since the epoch.
    pub begin_unix_ns: i64,
    /// From the first frame to the last, ns.
    pub length_ns: u64,
    /// What the intervals rest on.
    pub clusters: Option<Clusters>,
    /// Every mark that was seen, in the order of reports.
    pub marks: Vec<MarkCount>,
    /// Our own judgement, where it was asked for.
    pub judgement: Option<Vec<Judged>>,
    /// Round trips, sizes, gaps.
    pub distributions: Vec<Distribution>,
    /// What the parts are.
    pub by: Parts,
    /// The parts.
    pub parts: Vec<CapturePart>,
    /// How many parts there are in all.
    pub parts_in_all: u64,
    /// What was given up, what was cut off.
    pub notes: Vec<String>,
}

/// What the independent pieces are that an interval rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clusters {
    /// Connections.
    Connections,
    /// Spans of time of equal length.
    Spans,
}

/// B's rate by A's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateRatio {
    /// With its interval.
    pub ratio: Option<Estimate>,
    /// Where A has none: it is at least this.
    pub at_least: Option<f64>,
    /// Where B has none: it is at most this.
    pub at_most: Option<f64>,
    /// What the error rests on.
    pub clusters: Option<Clusters>,
    /// Why there is no interval.
    pub absent: Option<String>,
}

/// Which way a mark moved, for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// More of a problem.
    Worse,
    /// Less of it.
    Better,
    /// More of something harmless.
    More,
    /// Less of it.
    Less,
    /// The same within the margin.
    Same,
    /// Unknown.
    Undecided,
}

/// A mark in two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkComparison {
    /// The mark.
    pub mark: Mark,
    /// In the baseline.
    pub baseline: MarkRate,
    /// In the other one.
    pub other: MarkRate,
    /// By segments; the verdict is on this.
    pub per_segment: RateRatio,
    /// By bytes of payload.
    pub per_byte: RateRatio,
    /// p of "no difference", after Holm's correction over the rows.
    pub p_adjusted: Option<f64>,
    /// The answer.
    pub verdict: Verdict,
    /// Which way.
    pub moved: Moved,
    /// How many times as much traffic would probably decide it, where it is undecided and that can be said.
    pub traffic_needed: Option<f64>,
    /// What to bear in mind with this row.
    pub caveat: Option<String>,
}

/// A total of two captures, or what two totals come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TotalComparison {
    /// Its name, with the unit last (`payload_bytes`).
    pub name: String,
    /// How it is called in a table.
    pub title: String,
    /// In the baseline; `None` where it has no meaning.
    pub baseline: Option<f64>,
    /// In the other one.
    pub other: Option<f64>,
    /// The ratio of the two, where it does not depend on how long was captured.
    pub ratio: Option<RateRatio>,
}

/// A quantile of a distribution in two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantileComparison {
    /// The distribution, with the unit last (`inter_arrival_ns`).
    pub name: String,
    /// How it is called in a table.
    pub title: String,
    /// Between 0 and 1.
    pub quantile: f64,
    /// In the baseline.
    pub baseline: f64,
    /// In the other one.
    pub other: f64,
    /// True if a side has fewer than 10 values beyond it.
    pub thin: bool,
    /// B's by A's: that of the values above, its interval from the spans of time of each capture.
    pub shift: RateRatio,
}

/// Two captures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureComparison {
    /// The name of the first.
    pub baseline: String,
    /// The name of the other.
    pub other: String,
    /// What got worse first.
    pub answer: String,
    /// Whether something got worse.
    pub verdict: FindingVerdict,
    /// More sentences.
    pub details: Vec<String>,
    /// The margin of the verdicts, as a share.
    pub margin: f64,
    /// Totals.
    pub totals: Vec<TotalComparison>,
    /// Every mark that one of the two has.
    pub marks: Vec<MarkComparison>,
    /// Sizes, gaps and round trips.
    pub quantiles: Vec<QuantileComparison>,
    /// What to bear in mind with all of it.
    pub notes: Vec<String>,
}

/// What a row of counts says without totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsSay {
    /// The rate is higher for every traffic that was given.
    Higher,
    /// The rate is lower for every traffic that was given.
    Lower,
    /// It depends on the traffic.
    Depends,
}

/// A row of counts in two lists whose totals are unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountRow {
    /// The mark; of a row that is none of ours, its title alone.
    pub mark: Mark,
    /// In the baseline.
    pub baseline: u64,
    /// In the other one.
    pub other: u64,
    /// B's count by A's; `None` where A has none.
    pub ratio_of_counts: Option<f64>,
    /// The ratio of the rates, for the most and the least traffic of B that was given.
    pub ratio_of_rates: Option<(f64, f64)>,
    /// What that says.
    pub says: CountsSay,
    /// It holds as long as events come in bunches of at most this size.
    pub bunches_of_at_most: Option<f64>,
}

/// Two lists of counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountsComparison {
    /// The name of the first.
    pub baseline: String,
    /// The name of the other.
    pub other: String,
    /// What can be said.
    pub answer: String,
    /// Whether something got worse.
    pub verdict: FindingVerdict,
    /// B's segments by A's, from and to, as given; `None` where nothing is known of them.
    pub traffic: Option<(f64, f64)>,
    /// The rows.
    pub rows: Vec<CountRow>,
    /// What cannot be said.
    pub notes: Vec<String>,
}

/// What a point of a trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// The end of a segment with payload.
    Data,
    /// The same of one that was sent again.
    SentAgain,
    /// An acknowledgement from the other side.
    Ack,
}

/// A point of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracePoint {
    /// Since the connection's first segment, ns.
    pub at_ns: i64,
    /// Bytes from where the direction began.
    pub byte: i64,
    /// What it is.
    pub kind: PointKind,
}

/// One direction of a connection over time: what was sent, sent again, acknowledged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureTrace {
    /// The capture's name.
    pub capture: String,
    /// Its number (`tcp.stream`).
    pub stream: u32,
    /// Who sends: `address:port`.
    pub from: String,
    /// To whom.
    pub to: String,
    /// How many marks of trouble the connection has, both ways.
    pub trouble: u64,
    /// The points, in the order of the capture.
    pub points: Vec<TracePoint>,
    /// One of this number of segments and acknowledgements is kept; retransmitted ones are all kept, as long as there is room.
    pub one_of: u32,
}

/// What a capture brings beyond numbers: of a collector that watched, or of a file that was imported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureRecord {
    /// The capture as a whole, of a file. A collector reports the same as numbers. Neither this nor the comparison ever goes
    /// over a wire: both are made where the bundle is written.
    #[serde(skip)]
    pub capture: Option<Capture>,
    /// What it says against the first capture of the bundle, by all connections of both: a bundle need not keep all of them.
    #[serde(skip)]
    pub comparison: Option<CaptureComparison>,
    /// Connections in the order of their numbers; of very many, those with the most trouble, then the largest.
    pub flows: Vec<CaptureFlow>,
    /// Connections that were seen and are not kept.
    pub flows_beyond: u64,
    /// The worst connections over time, the worst first.
    pub traces: Vec<CaptureTrace>,
}
