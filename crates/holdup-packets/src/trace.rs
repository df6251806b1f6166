//! Connections over time, for a time–sequence picture: data, retransmissions and acknowledgements.
//!
//! This is a second pass over a capture, for connections chosen by the first.

use crate::analyse::{Analysis, Flows};
use crate::capture::{Chain, Frames as _};
use crate::decode::{self, Decoded, Decoder};
use crate::flows::Flow;
use crate::kinds::Kind;
use crate::segment::{ACK, Segment};
use crate::summary::end;
use crate::wireshark::{Limits, Table};
use holdup_model::Problem;
use holdup_model::captures::{CaptureTrace, PointKind, TracePoint};

/// The largest number of points of a connection.
pub const MOST_POINTS: usize = 4_000;

/// The `most` connections with the most marks of trouble, without those that have none.
pub fn worst(analysis: &Analysis, most: usize) -> Vec<Flow> {
    worst_of(&analysis.flows, most, |_| true)
}

pub(crate) fn worst_of(flows: &Flows, most: usize, is_asked: impl Fn(&Flow) -> bool) -> Vec<Flow> {
    let trouble = |flow: &Flow| if is_asked(flow) { flow.trouble() } else { 0 };
    let mut worst = flows.top(most, trouble);
    worst.retain(|flow| trouble(flow) > 0);
    worst
}

/// Records one direction of a connection and its acknowledgements.
pub(crate) struct Tracer {
    points: Vec<TracePoint>,
    /// One of this number of points is recorded.
    one_of: u32,
    first_ns: i64,
    /// 0 for the direction of the first segment.
    direction: u8,
    /// The last sequence number and its byte offset.
    last: Option<(u32, i64)>,
    /// Points skipped since the last one, of data and of acknowledgements: if they alternate, one counter would select only one
    /// kind.
    skipped: [u32; 2],
    most: usize,
}

/// The direction that is shown: the one with more payload.
pub(crate) fn shown(flow: &Flow) -> u8 {
    u8::from(flow.directions[1].payload_bytes > flow.directions[0].payload_bytes)
}

impl Tracer {
    pub(crate) fn new(direction: u8, at_ns: i64, most: usize) -> Self {
        Tracer { points: Vec::new(), one_of: 1, first_ns: at_ns, direction, last: None, skipped: [0; 2], most }
    }

    pub(crate) fn finish(&mut self, capture: &str, flow: &Flow) -> CaptureTrace {
        let (from, to) = (usize::from(self.direction), usize::from(1 - self.direction));
        let mut points = std::mem::take(&mut self.points);
        let late_ns = self.first_ns.saturating_sub(flow.first_ns);
        points.iter_mut().for_each(|p| p.at_ns = p.at_ns.saturating_add(late_ns));
        CaptureTrace {
            capture: capture.to_owned(),
            stream: flow.stream,
            from: end(&flow.ends[from]),
            to: end(&flow.ends[to]),
            trouble: flow.trouble(),
            points,
            one_of: self.one_of,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.points.capacity() * size_of::<TracePoint>()
    }

    pub(crate) fn add(&mut self, segment: &Segment, direction: u8, is_retransmission: bool) {
        let (number, kind) = match (direction == self.direction, segment.payload_bytes) {
            (true, Some(bytes)) if bytes > 0 => (
                segment.seq.wrapping_add(bytes),
                if is_retransmission { PointKind::SentAgain } else { PointKind::Data },
            ),
            (false, _) if segment.has(ACK) => (segment.ack, PointKind::Ack),
            _ => return,
        };
        // Sequence numbers wrap: take the nearest to the last one (RFC 9293, 3.4).
        let byte = self.last.map_or(0, |(last, byte)| byte.saturating_add(i64::from(number.wrapping_sub(last) as i32)));
        // An acknowledgement may have any number; data continues from data.
        if kind != PointKind::Ack || self.last.is_none() {
            self.last = Some((number, byte));
        }
        if kind != PointKind::SentAgain {
            let skipped = &mut self.skipped[usize::from(kind == PointKind::Ack)];
            *skipped += 1;
            if *skipped < self.one_of {
                return;
            }
            *skipped = 0;
        }
        self.points.push(TracePoint { at_ns: segment.at_ns.saturating_sub(self.first_ns), byte, kind });
        if self.points.len() >= self.most {
            self.thin();
        }
    }

    /// Drops every second point of each kind; of retransmissions only if there is nothing else to drop.
    fn thin(&mut self) {
        self.one_of = self.one_of.saturating_mul(2);
        let retransmissions = self.points.iter().filter(|p| p.kind == PointKind::SentAgain).count();
        let spare_retransmissions = retransmissions < self.most / 2;
        let mut counts = [0_u32; 3];
        self.points.retain(|p| {
            let n = &mut counts[p.kind as usize];
            *n += 1;
            (spare_retransmissions && p.kind == PointKind::SentAgain) || n.is_multiple_of(2)
        });
    }
}

/// Traces some connections of a capture. Bytes count from the first number of each.
pub fn trace(frames: &mut Chain<'_>, name: &str, flows: &[Flow], limits: Limits) -> Result<Vec<CaptureTrace>, Problem> {
    let of = |flow: &Flow| Tracer::new(shown(flow), flow.first_ns, MOST_POINTS);
    let mut tracers: Vec<Tracer> = flows.iter().map(of).collect();
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut table = Table::new(limits);
    while let Some(frame) = frames.next()? {
        let Decoded::Segment(ref segment) = decoder.decode(&frame) else { continue };
        let Some(marks) = table.judge(segment) else { continue };
        if let Some(i) = flows.iter().position(|flow| flow.stream == marks.stream) {
            tracers[i].add(segment, marks.direction, marks.kinds.has(Kind::Retransmission));
        }
    }
    Ok(tracers.iter_mut().zip(flows).map(|(tracer, flow)| tracer.finish(name, flow)).collect())
}
