//! One direction of a connection: captured bytes, gaps and retransmissions.

use super::causes::Finding;
use crate::segment::Segment;
use crate::sequence::{is_after, is_before, is_from, is_up_to};
use std::collections::VecDeque;

/// Data segments that are remembered to recognise copies.
const REMEMBERED: usize = 256;
/// Gaps, and retransmissions without a verdict, per direction.
const MOST_GAPS: usize = 64;
/// Wireshark's threshold for reordering, without timestamps, identification and round trip.
const REORDERED_NS: i64 = 3_000_000;

/// The tick length is estimated from this number of ticks on.
const FEW_TICKS: i64 = 4;

/// Evidence of when a segment was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at_ns: i64,
    /// TSval.
    clock: Option<u32>,
    ip_id: Option<u16>,
}

impl Sent {
    fn of(segment: &Segment) -> Self {
        let clock = segment.options.timestamps.map(|(value, _)| value);
        // 0 from senders that do not number packets (RFC 6864, 4.1).
        Sent { at_ns: segment.at_ns, clock, ip_id: segment.ip_id.filter(|id| *id != 0) }
    }

    /// True if this was sent before the other: by timestamp (RFC 7323), packet number, or the delay of its capture.
    fn is_before(self, other: Sent, pace: Pace) -> bool {
        if let (Some(mine), Some(others)) = (self.clock, other.clock)
            && mine != others
        {
            return is_before(mine, others);
        }
        if let (Some(mine), Some(others)) = (self.ip_id, other.ip_id)
            && mine != others
        {
            return (mine.wrapping_sub(others) as i16) < 0;
        }
        // RACK's reordering window (RFC 8985, 6.2).
        let most_ns = if pace.rtt_ns > 0 { pace.rtt_ns / 4 } else { REORDERED_NS };
        self.is_simultaneous(other, pace) || self.at_ns - other.at_ns < most_ns
    }

    /// True if the two were sent within one timestamp tick that is shorter than a round trip, so that neither reacts to the
    /// other.
    fn is_simultaneous(self, other: Sent, pace: Pace) -> bool {
        self.clock.is_some() && self.clock == other.clock && pace.tick_ns.is_some_and(|tick| pace.rtt_ns >= 2 * tick)
    }
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Of the handshake; 0 if unknown.
    rtt_ns: i64,
    /// The tick of the sender's timestamps, if known.
    tick_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    first_ns: i64,
    first: u32,
    newest: u32,
    tick_ns: Option<i64>,
}

/// A captured data segment.
#[derive(Debug, Clone, Copy)]
struct Observed {
    seq: u32,
    end: u32,
    sent: Sent,
}

/// Missing bytes before captured ones.
#[derive(Debug, Clone, Copy)]
struct Gap {
    begin: u32,
    end: u32,
    after: Sent,
}

#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The number after the highest captured byte.
    pub(super) next: Option<u32>,
    pub(super) acknowledged: Option<u32>,
    clock: Option<Clock>,
    seen: VecDeque<Observed>,
    gaps: Vec<Gap>,
    /// Retransmissions that a D-SACK may still reclassify.
    again: VecDeque<(u32, u32)>,
    /// Acknowledged but not captured, with the time of the acknowledgement.
    missed: VecDeque<(u32, u32, i64)>,
    /// Gaps beyond the limit.
    pub(super) gaps_given_up: u64,
}

impl Direction {
    /// Adds a segment with data, SYN or FIN, of `length` sequence numbers.
    pub(super) fn data(&mut self, segment: &Segment, length: u32, rtt_ns: i64, report: &mut dyn FnMut(Finding, i64)) {
        let (seq, end) = (segment.seq, segment.seq.wrapping_add(length));
        let sent = Sent::of(segment);
        let pace = Pace { rtt_ns, tick_ns: self.tick_ns(sent) };
        let next = *self.next.get_or_insert(seq);
        if is_from(seq, next) {
            if seq != next {
                self.open_gap(Gap { begin: next, end: seq, after: sent });
            }
        } else if let Some(after) = self.fill(seq, end) {
            let is_reordered = sent.is_before(after, pace);
            report(if is_reordered { Finding::Reordered } else { Finding::LostBefore }, 1);
        } else if self.was_missed(seq, end, sent.at_ns) {
            report(Finding::NotCaptured, -1);
            report(Finding::Reordered, 1);
        } else {
            report(self.again(seq, end, sent, pace), 1);
        }
        if is_after(end, next) {
            self.next = Some(end);
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(Observed { seq, end, sent });
    }

    /// Estimates the tick from the first and the newest timestamp; older ones arrived late.
    fn tick_ns(&mut self, sent: Sent) -> Option<i64> {
        let newest = sent.clock?;
        let clock = self.clock.get_or_insert(Clock { first_ns: sent.at_ns, first: newest, newest, tick_ns: None });
        if is_after(newest, clock.newest) {
            let ticks = i64::from(newest.wrapping_sub(clock.first));
            clock.newest = newest;
            clock.tick_ns = (ticks >= FEW_TICKS).then(|| (sent.at_ns - clock.first_ns) / ticks);
        }
        clock.tick_ns
    }

    fn open_gap(&mut self, gap: Gap) {
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(gap);
        } else {
            self.gaps_given_up += 1;
        }
    }

    /// Removes bytes from the gaps; returns the segment after the first gap that they fill.
    fn fill(&mut self, seq: u32, end: u32) -> Option<Sent> {
        let mut after = None;
        let mut left = Vec::new();
        self.gaps.retain_mut(|gap| {
            if !is_before(seq, gap.end) || !is_after(end, gap.begin) {
                return true;
            }
            after.get_or_insert(gap.after);
            if is_before(end, gap.end) {
                left.push(Gap { begin: end, ..*gap });
            }
            gap.end = seq;
            is_before(gap.begin, gap.end)
        });
        for gap in left {
            self.open_gap(gap);
        }
        after
    }

    /// True if a segment follows directly on its own acknowledgement: the capture has the two in the wrong order.
    fn was_missed(&mut self, seq: u32, end: u32, at_ns: i64) -> bool {
        let is_of = |m: &(u32, u32, i64)| is_up_to(m.0, seq) && is_from(m.1, end) && at_ns - m.2 < REORDERED_NS;
        let Some(place) = self.missed.iter().position(is_of) else { return false };
        let (begin, up_to, acknowledged_ns) = self.missed[place];
        // The rest may follow; earlier bytes will not.
        self.missed.remove(place);
        if is_before(end, up_to) && begin == seq {
            self.missed.push_front((end, up_to, acknowledged_ns));
        }
        true
    }

    fn miss(&mut self, begin: u32, end: u32, at_ns: i64) {
        if self.missed.len() == MOST_GAPS {
            self.missed.pop_front();
        }
        self.missed.push_back((begin, end, at_ns));
    }

    /// Classifies a segment whose bytes were all captured before.
    fn again(&mut self, seq: u32, end: u32, sent: Sent, pace: Pace) -> Finding {
        let original = self.seen.iter().rev().find(|seen| is_up_to(seen.seq, seq) && is_from(seen.end, end));
        let is_same = |seen: &Observed| {
            (seen.seq, seen.end) == (seq, end)
                && match (seen.sent.ip_id.zip(sent.ip_id), seen.sent.clock.zip(sent.clock)) {
                    (Some((first, second)), Some(clocks)) => first == second && clocks.0 == clocks.1,
                    // The number counts if other packets have other numbers.
                    (Some((first, second)), None) => {
                        first == second && self.seen.iter().any(|s| s.sent.ip_id != sent.ip_id)
                    }
                    (None, _) => sent.is_simultaneous(seen.sent, pace),
                }
        };
        if original.is_some_and(is_same) {
            return Finding::Doubled;
        }
        if self.acknowledged.is_some_and(|acknowledged| is_up_to(end, acknowledged)) {
            return Finding::Needless;
        }
        if self.again.len() == MOST_GAPS {
            self.again.pop_front();
        }
        self.again.push_back((seq, end));
        Finding::LostBehind
    }

    /// Adds an acknowledgement with its SACK blocks.
    pub(super) fn acknowledgement(&mut self, segment: &Segment, report: &mut dyn FnMut(Finding, i64)) {
        let ack = segment.ack;
        let blocks = &segment.options.sacks[..usize::from(segment.options.sack_count)];
        // A D-SACK is a first block below the acknowledgement or inside the second block (RFC 2883, 4).
        let is_inside = |begin, end| blocks.get(1).is_some_and(|&(b, e)| is_up_to(b, begin) && is_from(e, end));
        if let Some(&(begin, end)) = blocks.first()
            && is_after(end, begin)
            && (is_up_to(end, ack) || is_inside(begin, end))
        {
            let place = self.again.iter().position(|again| is_up_to(begin, again.0) && is_from(end, again.1));
            if let Some(place) = place {
                self.again.remove(place);
                report(Finding::LostBehind, -1);
                report(Finding::Needless, 1);
            }
        }
        for &(begin, end) in blocks.iter().filter(|(begin, end)| is_after(*end, *begin) && is_after(*end, ack)) {
            self.arrived(begin, end, segment.at_ns, report);
        }
        if self.acknowledged.is_none_or(|before| is_after(ack, before)) {
            self.acknowledged = Some(ack);
            if let Some(gap) = self.gaps.iter().min_by_key(|gap| gap.begin.wrapping_sub(ack) as i32) {
                let begin = gap.begin;
                self.arrived(begin, ack, segment.at_ns, report);
            }
            if let Some(next) = self.next
                && is_after(ack, next)
            {
                report(Finding::NotCaptured, 1);
                self.miss(next, ack, segment.at_ns);
                self.next = Some(ack);
            }
        }
    }

    /// Records that bytes arrived: gaps in them were not captured.
    fn arrived(&mut self, begin: u32, end: u32, at_ns: i64, report: &mut dyn FnMut(Finding, i64)) {
        let mut missed = Vec::new();
        self.gaps.retain_mut(|gap| {
            if !is_from(gap.begin, begin) || !is_after(end, gap.begin) {
                return true;
            }
            let up_to = if is_before(end, gap.end) { end } else { gap.end };
            missed.push((gap.begin, up_to));
            gap.begin = up_to;
            gap.begin != gap.end
        });
        for (begin, end) in missed {
            report(Finding::NotCaptured, 1);
            self.miss(begin, end, at_ns);
        }
    }

    /// Unexplained gaps.
    pub(super) fn open(&self) -> u64 {
        self.gaps.len() as u64
    }

    /// True if data is in flight.
    pub(super) fn has_outstanding(&self) -> bool {
        match (self.next, self.acknowledged) {
            (Some(next), Some(acknowledged)) => is_after(next, acknowledged),
            _ => false,
        }
    }
}
