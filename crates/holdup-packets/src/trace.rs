//! Connections over time, for a picture: what one side sent, sent again, and had acknowledged.
//!
//! This is a second way through a capture, for connections that the first one chose.

use crate::capture::{Chain, Frames as _};
use crate::decode::{self, Decoded, Decoder};
use crate::flows::{Analysis, Flow};
use crate::kinds::Kind;
use crate::segment::{ACK, Segment};
use crate::summary::end;
use crate::wireshark::{Limits, Table};
use holdup_model::Problem;
use holdup_model::captures::{CaptureTrace, PointKind, TracePoint};

/// The most points that are kept of a connection.
pub const MOST_POINTS: usize = 4_000;

/// The connections with the most marks of trouble, at most so many; those without any are left out.
pub fn worst(analysis: &Analysis, most: usize) -> Vec<Flow> {
    let mut flows = analysis.flows.most(most, Flow::trouble);
    flows.retain(|flow| flow.trouble() > 0);
    flows
}

/// One connection while it is gone through.
pub(crate) struct Tracer {
    trace: CaptureTrace,
    first_ns: i64,
    /// 0 when the first end sends what is shown.
    direction: u8,
    /// The last sequence number, and the byte that it stands for.
    last: Option<(u32, i64)>,
    /// Points that could have been kept since the last one that was, of data and of acknowledgements: where these take turns,
    /// one count for both would keep one kind alone.
    skipped: [u32; 2],
    /// The most points that are kept.
    most: usize,
}

impl Tracer {
    fn new(name: &str, flow: &Flow) -> Self {
        let direction = u8::from(flow.directions[1].payload_bytes > flow.directions[0].payload_bytes);
        let ends = [&flow.ends[usize::from(direction)], &flow.ends[usize::from(1 - direction)]].map(end);
        let [from, to] = ends;
        let trace = CaptureTrace {
            capture: name.to_owned(),
            stream: flow.stream,
            from,
            to,
            trouble: flow.trouble(),
            points: Vec::new(),
            one_of: 1,
        };
        Tracer { trace, first_ns: flow.first_ns, direction, last: None, skipped: [0; 2], most: MOST_POINTS }
    }

    /// One of a connection of which nothing is known yet, from a moment on.
    pub(crate) fn live(direction: u8, at_ns: i64, most: usize) -> Self {
        let (capture, from, to) = (String::new(), String::new(), String::new());
        let trace = CaptureTrace { capture, stream: 0, from, to, trouble: 0, points: Vec::new(), one_of: 1 };
        Tracer { trace, first_ns: at_ns, direction, last: None, skipped: [0; 2], most }
    }

    /// The points of a live one, as those of a connection that began then.
    pub(crate) fn finish(&mut self, named: CaptureTrace, first_ns: i64) -> CaptureTrace {
        let mut points = std::mem::take(&mut self.trace.points);
        let late_ns = self.first_ns.saturating_sub(first_ns);
        points.iter_mut().for_each(|p| p.at_ns = p.at_ns.saturating_add(late_ns));
        CaptureTrace { points, one_of: self.trace.one_of, ..named }
    }

    /// The memory of its points, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.trace.points.capacity() * size_of::<TracePoint>()
    }

    pub(crate) fn see(&mut self, segment: &Segment, direction: u8, is_again: bool) {
        let (number, kind) = match (direction == self.direction, segment.payload_bytes) {
            (true, Some(bytes)) if bytes > 0 => {
                (segment.seq.wrapping_add(bytes), if is_again { PointKind::SentAgain } else { PointKind::Data })
            }
            (false, _) if segment.has(ACK) => (segment.ack, PointKind::Ack),
            _ => return,
        };
        // Sequence numbers wrap; the nearest to the last one is meant (RFC 9293, 3.4).
        let byte = self.last.map_or(0, |(last, byte)| byte.saturating_add(i64::from(number.wrapping_sub(last) as i32)));
        // An acknowledgement may be of anything; what is sent goes on from what was sent.
        if kind != PointKind::Ack || self.last.is_none() {
            self.last = Some((number, byte));
        }
        if kind != PointKind::SentAgain {
            let skipped = &mut self.skipped[usize::from(kind == PointKind::Ack)];
            *skipped += 1;
            if *skipped < self.trace.one_of {
                return;
            }
            *skipped = 0;
        }
        self.trace.points.push(TracePoint { at_ns: segment.at_ns.saturating_sub(self.first_ns), byte, kind });
        if self.trace.points.len() >= self.most {
            self.thin();
        }
    }

    /// Leaves out every second point of each kind, of those that were sent again only when there are no others to leave out.
    fn thin(&mut self) {
        self.trace.one_of = self.trace.one_of.saturating_mul(2);
        let again = self.trace.points.iter().filter(|p| p.kind == PointKind::SentAgain).count();
        let spare_again = again < self.most / 2;
        let mut counts = [0_u32; 3];
        self.trace.points.retain(|p| {
            let n = &mut counts[p.kind as usize];
            *n += 1;
            (spare_again && p.kind == PointKind::SentAgain) || n.is_multiple_of(2)
        });
    }
}

/// Goes through a capture again for some of its connections. Bytes count from the first number that is seen of each.
///
/// # Errors
/// As [`Frames::next`].
pub fn trace(frames: &mut Chain<'_>, name: &str, flows: &[Flow], limits: Limits) -> Result<Vec<CaptureTrace>, Problem> {
    let mut tracers: Vec<Tracer> = flows.iter().map(|flow| Tracer::new(name, flow)).collect();
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut table = Table::new(limits);
    while let Some(frame) = frames.next()? {
        let Decoded::Segment(segment) = decoder.decode(&frame) else { continue };
        let Some(marks) = table.judge(&segment) else { continue };
        if let Some(tracer) = tracers.iter_mut().find(|t| t.trace.stream == marks.stream) {
            tracer.see(&segment, marks.direction, marks.kinds.has(Kind::Retransmission));
        }
    }
    Ok(tracers.into_iter().map(|tracer| tracer.trace).collect())
}
