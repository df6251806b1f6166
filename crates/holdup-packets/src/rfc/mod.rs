//! Our own judgement beside Wireshark's: losses before and behind the capture, missed packets, reordering, retransmissions, and
//! the causes of stalls.
//!
//! Wireshark uses sequence numbers and times alone. With timestamps (RFC 7323) or packet numbers (IPv4's identification) the
//! order of sending is known, and acknowledgements show what arrived, captured or not (RFC 9293, RFC 2018, RFC 2883).

mod causes;
mod direction;

pub use causes::{Finding, Stall};

use crate::segment::{ACK, FIN, RST, SYN, Segment};
use crate::wireshark::Marks;
use direction::Direction;

/// The shortest stall; four round trips if that is longer.
const STALL_NS: i64 = 200_000_000;

/// The findings in all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Findings {
    counts: [u64; Finding::ALL.len()],
    stalls: [(u64, u64); Stall::ALL.len()],
    /// Gaps beyond the limit.
    pub gaps_given_up: u64,
}

impl Findings {
    /// The count of a finding.
    pub fn get(&self, finding: Finding) -> u64 {
        self.counts[finding as usize]
    }

    /// The count and total length of a stall, ns.
    pub fn stalls(&self, stall: Stall) -> (u64, u64) {
        self.stalls[stall as usize]
    }

    #[must_use]
    pub(crate) fn with(mut self, others: &Findings) -> Self {
        for (mine, theirs) in self.counts.iter_mut().zip(&others.counts) {
            *mine += theirs;
        }
        for ((count, sum_ns), (more, more_ns)) in self.stalls.iter_mut().zip(&others.stalls) {
            (*count, *sum_ns) = (*count + more, sum_ns.saturating_add(*more_ns));
        }
        self.gaps_given_up += others.gaps_given_up;
        self
    }

    fn add(&mut self, finding: Finding, n: i64) {
        let count = &mut self.counts[finding as usize];
        *count = count.saturating_add_signed(n);
    }
}

#[derive(Debug, Default)]
struct Connection {
    directions: [Direction; 2],
    /// The last window of each end, bytes; `None` until its scale is known.
    windows: [Option<u32>; 2],
    shifts: [Option<u8>; 2],
    saw_syn: [bool; 2],
    last_ns: Option<i64>,
    is_reset: bool,
}

/// Judges the segments of a capture in order, with the marks that identify their connections.
#[derive(Debug, Default)]
pub struct Judge {
    connections: Vec<Connection>,
    findings: Findings,
}

impl Judge {
    /// Judges the next segment.
    pub fn judge(&mut self, segment: &Segment, marks: &Marks) {
        if segment.in_error || segment.is_fragment {
            return;
        }
        let Some(payload_bytes) = segment.payload_bytes else { return };
        let number = marks.stream as usize;
        if self.connections.len() <= number {
            self.connections.resize_with(number + 1, Connection::default);
        }
        let rtt_ns = marks.initial_rtt_ns.map_or(0, std::num::NonZeroI64::get);
        let from = usize::from(marks.direction);
        self.connections[number].take(segment, payload_bytes, from, rtt_ns, &mut self.findings);
    }

    /// The findings.
    pub fn finish(mut self) -> Findings {
        for direction in self.connections.iter().flat_map(|connection| &connection.directions) {
            self.findings.counts[Finding::Open as usize] += direction.open();
            self.findings.gaps_given_up += direction.gaps_given_up;
        }
        self.findings
    }
}

impl Connection {
    fn take(&mut self, segment: &Segment, payload_bytes: u32, from: usize, rtt_ns: i64, findings: &mut Findings) {
        let to = 1 - from;
        let length = payload_bytes + u32::from(segment.has(SYN)) + u32::from(segment.has(FIN));
        let is_keep_alive = payload_bytes <= 1
            && !segment.has(SYN | FIN | RST)
            && self.directions[from].next.is_some_and(|next| segment.seq.wrapping_add(1) == next);
        let mut is_new = true;
        if length > 0 && !segment.has(RST) && !is_keep_alive {
            self.directions[from].data(segment, length, rtt_ns, &mut |finding, n| {
                findings.add(finding, n);
                is_new = false;
            });
        }
        if !is_keep_alive
            && !self.is_reset
            && let Some((stall, ns)) = self.stall(segment, length, from, rtt_ns, is_new)
        {
            let (count, sum_ns) = &mut findings.stalls[stall as usize];
            (*count, *sum_ns) = (*count + 1, sum_ns.saturating_add(ns));
        }
        if segment.has(ACK) && !segment.has(RST) {
            self.directions[to].acknowledgement(segment, &mut |finding, n| findings.add(finding, n));
        }
        self.window(segment, from);
        self.is_reset |= segment.has(RST);
        self.last_ns = Some(self.last_ns.map_or(segment.at_ns, |last| last.max(segment.at_ns)));
    }

    /// The cause and length, ns, of a stall before a segment. `is_new` means that its data was not sent before and follows the
    /// previous data.
    fn stall(&self, segment: &Segment, length: u32, from: usize, rtt_ns: i64, is_new: bool) -> Option<(Stall, u64)> {
        let gap_ns = segment.at_ns - self.last_ns?;
        if gap_ns < STALL_NS.max(rtt_ns.saturating_mul(4)) {
            return None;
        }
        // The end whose data was awaited: the sender's, for a pure acknowledgement the other.
        let sender = if length > 0 { from } else { 1 - from };
        let direction = &self.directions[sender];
        let window = self.windows[1 - sender];
        let stall = if length > 0 && !is_new {
            Stall::Timeout
        } else if window == Some(0) {
            Stall::ZeroWindow
        } else if length > 0 {
            // Its data is new, so the data before it was in flight.
            let before = direction.acknowledged.map(|ack| segment.seq.wrapping_sub(ack));
            match (before.filter(|before| (*before as i32) > 0), window) {
                (Some(before), Some(window)) if before >= window => Stall::WindowFull,
                (Some(_), _) => Stall::Unacknowledged,
                (None, _) => Stall::Idle,
            }
        } else if direction.has_outstanding() {
            Stall::Unacknowledged
        } else {
            Stall::Idle
        };
        Some((stall, gap_ns as u64))
    }

    /// Windows after the handshake are scaled if both ends agreed in it (RFC 7323, 2.2).
    fn window(&mut self, segment: &Segment, from: usize) {
        let window = u32::from(segment.window);
        if segment.has(SYN) {
            self.shifts[from] = segment.options.window_shift;
            self.saw_syn[from] = true;
            self.windows[from] = Some(window);
            return;
        }
        self.windows[from] = match (self.saw_syn, self.shifts) {
            _ if window == 0 => Some(0),
            ([true, true], [Some(_), Some(_)]) => self.shifts[from].map(|shift| window << shift.min(14)),
            ([true, true], _) => Some(window),
            _ => None,
        };
    }
}
