//! The table of connections, and the judgement of each segment as in Wireshark 4.6 with its default preferences.
//!
//! A [`Table`] takes the segments of a capture in order and returns the [`Marks`] of each. It sees each segment once, as
//! `tshark` without `-2`: values that Wireshark computes in a second pass are not given. docs/packets.md has the rules.

mod emit_marks;
mod fast_path;
mod finish;
mod judge;
mod marks;
mod sacks;
mod state;
mod table;
mod tallies;
mod unacked;

pub(crate) use finish::{Judged, finish};
pub use marks::{DuplicateAck, Kinds, Marks};

use crate::flows::GivenUp;
use crate::kinds::Kind;
use crate::segment::{ACK, Address, Endpoint, FIN, RST, SYN, Segment};
use crate::spans::Spans;
use crate::spread::Fine;
use judge::{Findings, Judge};
use sacks::Sacks;
use state::{Connection, Key, MSS_UNKNOWN, SHIFT_NONE, SHIFT_UNKNOWN, Side, connection, side};
use std::num::NonZeroU32;
use table::Connections;
use tallies::Tallies;
use unacked::Unacked;

/// The part of a connection, in either direction.
#[inline(always)]
pub(crate) fn part(ends: [Endpoint; 2], parts: usize) -> usize {
    // Bits that are used neither for the slot nor for the tag.
    let bits = (Key::between(ends).ends.hash() >> 24) as u32;
    (bits as usize * parts) >> 32
}

/// Bits of [`Marks::completeness`].
mod complete {
    pub(super) const SYN: u8 = 1;
    pub(super) const SYN_ACK: u8 = 2;
    pub(super) const ACK: u8 = 4;
    pub(super) const DATA: u8 = 8;
    pub(super) const FIN: u8 = 16;
    pub(super) const RST: u8 = 32;
}

const HEADER_BYTES: u8 = 20;

/// Limits of a table; the excess is counted ([`GivenUp`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections, at most 16,777,214. Each takes 256 bytes (IPv6: 288), and more for its marks.
    pub flows: u32,
    /// Unacknowledged segments of all connections, 32 bytes each. A direction has at most 10,000, as in Wireshark.
    pub unacknowledged: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { flows: 1_000_000, unacknowledged: 8_000_000 }
    }
}

impl Limits {
    pub(crate) fn possible(self) -> Self {
        Limits { flows: self.flows.min(table::MOST), ..self }
    }
}

/// The connections of a capture.
#[derive(Debug)]
pub struct Table {
    limits: Limits,
    connections: Connections,
    unacked: Unacked,
    sacks: Sacks,
    tallies: Tallies,
    counters: Counters,
}

/// Counters of all connections together. Sizes, gaps and round trips are in the spans.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) segments: u64,
    pub(crate) rto_ns: Fine,
    pub(crate) spans: Spans,
    pub(crate) given_up: GivenUp,
}

impl Table {
    /// An empty table.
    pub fn new(limits: Limits) -> Self {
        Table {
            limits: limits.possible(),
            connections: Connections::default(),
            unacked: Unacked::default(),
            sacks: Sacks::default(),
            tallies: Tallies::default(),
            counters: Counters::default(),
        }
    }

    /// Judges the next segment; `None` for a connection beyond the limit.
    ///
    /// A segment in an ICMP error ([`Segment::in_error`]) gets marks as in Wireshark, but is not counted, as in the sums of
    /// `tshark -z expert`: it was not sent again.
    pub fn judge(&mut self, segment: &Segment) -> Option<Marks> {
        self.counters.segments += 1;
        self.judge_fast(segment).or_else(|| self.judge_any(segment))
    }

    /// [`Table::judge`] without marks: the compiler leaves out what is not counted.
    pub fn count(&mut self, segment: &Segment) {
        self.counters.segments += 1;
        if self.judge_fast(segment).is_none() {
            self.judge_any(segment);
        }
    }

    /// [`Table::judge`] on the fast path; `None` if that does not apply.
    #[inline(always)]
    fn judge_fast(&mut self, segment: &Segment) -> Option<Marks> {
        let length = fast_path::plain_payload(segment)?;
        let room = self.unacked.len() < self.limits.unacknowledged as usize;
        let Table { connections, unacked, sacks, tallies, counters, .. } = self;
        let (connection, stream, is_from_1) = connections.find_of(segment)?;
        let rtt_ns = fast_path::rtt_ns(connection)?;
        let direction = u8::from(is_from_1) ^ u8::from(connection.has(connection::BEGAN_AT_1));
        let Connection { sides: [a, b], completeness, effort, .. } = connection;
        let (sender, receiver) = if is_from_1 { (b, a) } else { (a, b) };
        let marks = Marks { stream, direction, completeness: *completeness, ..Marks::default() };
        sacks.forget(sender);
        // Two variants, each without the needs of the other.
        if length == 0 {
            if !fast_path::applies::<false>(segment, 0, sender, receiver) {
                return None;
            }
            let marks = fast_path::judge::<false>(segment, 0, rtt_ns, (sender, receiver), unacked, sacks, marks);
            *completeness |= complete::ACK;
            *effort = effort.saturating_sub(1);
            counters.count(segment, 0, sender, &marks, None);
            tallies.count(&mut sender.tally, marks.kinds);
            Some(marks)
        } else {
            if !room || !fast_path::applies::<true>(segment, length, sender, receiver) {
                return None;
            }
            let last_data_ns = sender.last_data_ns();
            let marks = fast_path::judge::<true>(segment, length, rtt_ns, (sender, receiver), unacked, sacks, marks);
            *completeness |= complete::DATA;
            *effort = effort.saturating_sub(1);
            counters.count(segment, length, sender, &marks, last_data_ns);
            tallies.count(&mut sender.tally, marks.kinds);
            Some(marks)
        }
    }

    /// [`Table::judge`] of any segment.
    #[inline(never)]
    fn judge_any(&mut self, segment: &Segment) -> Option<Marks> {
        let key = &Key::of(segment);
        let Some((number, is_new, is_reused)) = self.connection(key, segment) else {
            self.counters.given_up.segments_beyond_flows += 1;
            return None;
        };
        let connection = self.connections.get_mut(number);
        let last_data_ns = connection.sides[key.from].last_data_ns();
        let mut marks = Marks {
            stream: number,
            direction: (key.from as u8) ^ u8::from(connection.has(connection::BEGAN_AT_1)),
            completeness: connection.completeness,
            ..Marks::default()
        };
        let mut findings = Findings::default();
        if is_reused {
            findings.add(Kind::ReusedPorts);
        }
        findings.is_recorded |= !is_new && segment.flags & (SYN | ACK) == SYN;
        let steps_before = self.unacked.steps;
        let mut step = Step {
            segment,
            from: key.from,
            is_new,
            connection: &mut *connection,
            unacked: &mut self.unacked,
            unacked_most: self.limits.unacknowledged as usize,
            sacks: &mut self.sacks,
            findings,
            kinds: Kinds::NONE,
        };
        step.take(&mut marks);
        self.counters.given_up.unacknowledged += u64::from(step.findings.is_given_up);
        if connection.is_exhausted_by(self.unacked.steps - steps_before) {
            let before = self.unacked.len();
            connection.sides.iter_mut().for_each(|side| self.unacked.clear(&mut side.unacked));
            self.counters.given_up.unacknowledged += (before - self.unacked.len()) as u64;
        }
        if !segment.in_error {
            let payload_bytes = segment.payload_bytes.unwrap_or(0);
            let sender = &mut connection.sides[key.from];
            self.counters.count(segment, payload_bytes, sender, &marks, last_data_ns);
            sender.set(side::LAST_WAS_DATA, payload_bytes > 0);
            self.tallies.count(&mut sender.tally, marks.kinds);
        }
        Some(marks)
    }

    /// The connection of a segment, whether the segment begins it, and whether it reuses the endpoints of an earlier one.
    fn connection(&mut self, key: &Key, segment: &Segment) -> Option<(u32, bool, bool)> {
        let Some(number) = self.connections.find(key) else {
            return self.begin(key, segment).map(|number| (number, true, false));
        };
        let connection = self.connections.get_mut(number);
        connection.sides.iter_mut().for_each(|side| self.unacked.spill(side));
        if connection.has(connection::IS_OVER) {
            return None;
        }
        let sender = &mut connection.sides[key.from];
        if !segment.has(SYN) {
            return Some((number, false, false));
        }
        if !sender.has(side::HAS_BASE) {
            // Only the other end was seen before: the connection begins with this SYN.
            return Some((number, !segment.has(ACK), false));
        }
        if segment.seq != sender.base || connection.completeness & (complete::FIN | complete::RST) != 0 {
            for side in &mut connection.sides {
                self.unacked.clear(&mut side.unacked);
            }
            return self.begin(key, segment).map(|number| (number, true, true));
        }
        if !segment.has(ACK) {
            // A retransmitted SYN: segments in between, such as a reset with an odd number, no longer count.
            sender.next = sender.seen;
        }
        Some((number, false, false))
    }

    fn begin(&mut self, key: &Key, segment: &Segment) -> Option<u32> {
        if self.connections.len() < self.limits.flows as usize {
            return Some(self.connections.begin(key, segment));
        }
        if let Some(number) = self.connections.find(key) {
            self.connections.get_mut(number).flags |= connection::IS_OVER;
        }
        None
    }

    /// Sets the beginning of the spans, unless it is set: all parts of a capture begin together.
    pub(crate) fn begin_at(&mut self, at_ns: i64) {
        self.counters.spans.begin_at(at_ns);
    }

    pub(crate) fn first_ns(&self) -> Option<i64> {
        self.counters.spans.first_ns()
    }

    pub(crate) fn used(&self) -> Limits {
        Limits { flows: self.connections.len() as u32, unacknowledged: self.unacked.len() as u32 }
    }

    pub(crate) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }
}

impl Counters {
    /// Counts a judged segment. `last_data_ns` is the time of the previous segment if that had payload.
    #[inline(always)]
    fn count(
        &mut self,
        segment: &Segment,
        payload_bytes: u32,
        side: &mut Side,
        marks: &Marks,
        last_data_ns: Option<i64>,
    ) {
        side.segments += 1;
        side.frame_bytes += u64::from(segment.frame_bytes);
        let span = self.spans.at(segment.at_ns);
        span.segment(payload_bytes);
        if !marks.kinds.is_empty() {
            marks.kinds.iter().for_each(|kind| span.mark(kind));
        }
        if payload_bytes > 0 {
            side.data_segments += 1;
            side.payload_bytes += u64::from(payload_bytes);
            if let Some(last_ns) = last_data_ns {
                span.inter_arrival.record((segment.at_ns - last_ns).max(0) as u64);
            }
            side.in_flight_bytes_max = side.in_flight_bytes_max.max(marks.bytes_in_flight.map_or(0, NonZeroU32::get));
        }
        if let Some(ns) = marks.ack_rtt_ns
            && ns.get() > 0
        {
            span.ack_rtt.record(ns.get() as u64);
        }
        if let Some(ns) = marks.rto_ns
            && ns.get() > 0
        {
            self.rto_ns.record(ns.get() as u64);
        }
    }
}

/// The judgement of one segment.
struct Step<'a> {
    segment: &'a Segment,
    from: usize,
    is_new: bool,
    connection: &'a mut Connection,
    unacked: &'a mut Unacked,
    unacked_most: usize,
    sacks: &'a mut Sacks,
    findings: Findings,
    /// Marks beside the sequence number analysis.
    kinds: Kinds,
}

impl Step<'_> {
    /// In Wireshark's order: each step uses the state left by the steps before.
    fn take(&mut self, marks: &mut Marks) {
        self.sacks.forget(&self.connection.sides[self.from]);
        self.begin_numbers();
        match self.segment.payload_bytes {
            // Without the window there is no analysis.
            Some(_) if self.segment.header_captured_bytes < 16 => {}
            Some(length) if !self.segment.in_error => self.analyse(length),
            None if !self.segment.in_error && !self.segment.is_fragment => self.kinds.add(Kind::ShortSegment),
            _ => {}
        }
        if self.segment.header_bytes < HEADER_BYTES {
            self.kinds.add(Kind::BogusHeaderLength);
            marks.kinds = self.kinds;
            return;
        }
        self.complete();
        self.acknowledgement_number();
        self.flags();
        if self.segment.header_bytes > HEADER_BYTES {
            self.options();
        }
        if self.is_cut() {
            // Wireshark stops at the end of the captured bytes, and shows nothing of the rest.
            marks.kinds = self.kinds;
            return;
        }
        self.check_mss();
        emit_marks::emit_marks(&self.findings, self.connection.rtt_ns(), self.segment.at_ns, marks);
        marks.kinds = marks.kinds.with(self.kinds);
        if self.segment.has(SYN) {
            self.negotiate_scale();
        }
    }

    /// Sets the initial sequence numbers, if unknown.
    fn begin_numbers(&mut self) {
        let Segment { seq, ack, in_error, .. } = *self.segment;
        if in_error {
            return;
        }
        let (sender, receiver) = self.connection.sides(self.from);
        if !sender.has(side::HAS_BASE) {
            sender.base = if self.segment.has(SYN) { seq } else { seq.wrapping_sub(1) };
            sender.set(side::HAS_BASE, true);
        }
        if !receiver.has(side::HAS_BASE) && self.segment.has(ACK) {
            receiver.base = ack.wrapping_sub(1);
            receiver.set(side::HAS_BASE, true);
        }
    }

    fn analyse(&mut self, length: u32) {
        let rtt_ns = self.connection.rtt_ns();
        let (sender, receiver) = self.connection.sides(self.from);
        let blocks = self.sacks.of(receiver);
        let judge = Judge {
            segment: self.segment,
            length,
            sender,
            receiver,
            unacked: self.unacked,
            unacked_most: self.unacked_most,
            blocks,
            rtt_ns,
        };
        judge.judge(&mut self.findings);
    }

    fn complete(&mut self) {
        let has_payload = !self.segment.in_error && self.segment.payload_bytes.is_some_and(|bytes| bytes > 0);
        let mut seen = if self.is_new { 0 } else { self.connection.completeness };
        match (self.segment.has(SYN), self.segment.has(ACK)) {
            (true, false) if self.is_new && has_payload => seen |= complete::SYN | complete::DATA,
            (true, false) if self.is_new => seen |= complete::SYN,
            (true, true) => seen |= complete::SYN_ACK,
            (false, true) if has_payload => seen |= complete::DATA,
            (false, true) => seen |= complete::ACK,
            _ => {}
        }
        if self.segment.has(FIN) && self.segment.has(ACK) {
            seen |= complete::FIN;
        }
        if self.segment.has(RST) {
            seen |= complete::RST;
        }
        self.connection.completeness = seen;
    }

    fn acknowledgement_number(&mut self) {
        let Segment { ack, in_error, .. } = *self.segment;
        if !self.segment.has(ACK) {
            if ack != 0 {
                self.kinds.add(Kind::AckNonzero);
            }
        } else if self.segment.has(SYN) {
            let (_, receiver) = self.connection.sides(self.from);
            let acknowledged = if in_error { ack } else { ack.wrapping_sub(receiver.base) };
            if acknowledged > 1 {
                self.kinds.add(Kind::FastOpenAck);
            } else if self.connection.has(connection::OPENED_FAST) {
                self.kinds.add(Kind::FastOpenIgnored);
            }
        }
    }

    fn flags(&mut self) {
        let segment = self.segment;
        let at_ns = segment.at_ns;
        let has_rtt = self.connection.rtt_ns() != 0;
        if segment.has(SYN) {
            self.kinds.add(if segment.has(ACK) { Kind::SynAck } else { Kind::Syn });
            self.connection.sides[self.from].set(side::HAS_ONLY_SYN, true);
        }
        if segment.has(FIN) {
            self.kinds.add(Kind::Fin);
            let is_second = self.connection.has(connection::CLOSES << (1 - self.from));
            self.kinds.add(if is_second { Kind::FinPassive } else { Kind::FinActive });
            if !is_second {
                self.connection.flags |= connection::CLOSES << self.from;
            }
        }
        if segment.has(RST) {
            self.kinds.add(Kind::Reset);
        }
        if segment.flags & (SYN | ACK) == ACK {
            self.connection.sides[self.from].set(side::HAS_ONLY_SYN, false);
            let syn_at_ns = self.connection.syn_or_rtt_ns;
            if !has_rtt && syn_at_ns != 0 && at_ns != syn_at_ns {
                self.connection.syn_or_rtt_ns = at_ns - syn_at_ns;
                self.connection.flags |= connection::HAS_RTT;
            }
        } else if segment.flags & (SYN | ACK) == SYN && !has_rtt {
            self.connection.syn_or_rtt_ns = at_ns;
        }
    }

    fn options(&mut self) {
        let segment = self.segment;
        let options = &segment.options;
        let has_mss = options.mss.is_some() || options.mss_is_odd;
        let (sender, receiver) = self.connection.sides(self.from);
        if let Some(mss) = options.mss
            && segment.has(SYN)
        {
            sender.mss = mss as i16;
        }
        if let Some(shift) = options.window_shift {
            sender.shift = shift.min(14) as i8;
        }
        if options.sack_count > 0 || options.sacks_are_cut {
            self.sacks.read(segment, sender, receiver, &mut self.findings);
            if self.findings.is_duplicate_sack {
                self.kinds.add(Kind::DuplicateSack);
            }
        }
        if !segment.has(SYN) {
            self.add_if(has_mss, Kind::MssPresent);
            self.add_if(options.sack_permitted, Kind::SackPermittedPresent);
        } else if !options.are_odd && !self.is_cut() {
            self.add_if(!has_mss, Kind::MssAbsent);
            self.add_if(!options.sack_permitted, Kind::SackPermittedAbsent);
        }
        if options.fast_open_cookie && segment.flags & (SYN | ACK) == SYN {
            self.kinds.add(Kind::FastOpenSyn);
            if !segment.in_error && segment.payload_bytes.is_some_and(|bytes| bytes > 0) {
                self.connection.flags |= connection::OPENED_FAST;
            }
        }
    }

    fn is_cut(&self) -> bool {
        self.segment.header_captured_bytes < self.segment.header_bytes
    }

    fn add_if(&mut self, is_so: bool, kind: Kind) {
        if is_so {
            self.kinds.add(kind);
        }
    }

    /// The default MSS (RFC 9293, 3.7.1), and whether this segment exceeds the MSS of its own sender.
    fn check_mss(&mut self) {
        let (sender, receiver) = self.connection.sides(self.from);
        if self.is_new && sender.mss == MSS_UNKNOWN {
            let default = if matches!(self.segment.from.address, Address::V4(_)) { 536 } else { 1220 };
            (sender.mss, receiver.mss) = (default, default);
        }
        // Wireshark compares unsigned, so an MSS beyond 32,767 and an unknown one are never exceeded.
        let most = sender.mss as u32;
        let is_larger = self.segment.payload_bytes.is_some_and(|bytes| bytes > most);
        self.add_if(is_larger && !self.segment.in_error, Kind::MssExceeded);
    }

    /// Windows are scaled only if both SYNs have the option.
    fn negotiate_scale(&mut self) {
        let (sender, receiver) = self.connection.sides(self.from);
        if sender.shift == SHIFT_UNKNOWN {
            (sender.shift, receiver.shift) = (SHIFT_NONE, SHIFT_NONE);
        } else if self.segment.has(ACK) && receiver.shift == SHIFT_NONE {
            sender.shift = SHIFT_NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Options;

    /// Judges the next segment from port 1 or 2 to the other one.
    fn judge(table: &mut Table, from: u16, (seq, ack): (u32, u32), bytes: u32) {
        let end = |port| Endpoint { address: Address::V4(1), port };
        let frame = table.counters.segments as u32 + 1;
        table.count(&Segment {
            frame,
            at_ns: i64::from(frame) * 1000,
            from: end(from),
            to: end(3 - from),
            seq,
            ack,
            payload_bytes: Some(bytes),
            flags: ACK,
            window: 60_000,
            in_error: false,
            is_fragment: false,
            header_bytes: 20,
            header_captured_bytes: 20,
            ip_id: None,
            frame_bytes: 54 + bytes,
            options: Options::default(),
        });
    }

    /// Finding L9 of the attacks: each segment had all of its connection looked through.
    #[test]
    fn a_connection_out_of_order_is_given_up_before_it_takes_long() {
        let mut table = Table::new(Limits::default());
        judge(&mut table, 1, (100_000, 5000), 1);
        (1..10_000).for_each(|n| judge(&mut table, 1, (100_000 - 4 * n, 5000), 1));
        for n in 0..2_000 {
            judge(&mut table, 1, (99_998 - 4 * n, 5000), 1);
            judge(&mut table, 2, (5000, 50_000 + n), 0);
        }
        let steps_most = state::STEPS * (u64::from(state::MOST_EFFORT) + 2 * table.counters.segments);
        assert!(table.unacked.steps < steps_most, "{} of {steps_most}", table.unacked.steps);
        assert!(table.counters.given_up.unacknowledged > 1000);
    }

    #[test]
    fn a_path_with_much_in_flight_that_loses_a_segment_is_tracked() {
        let mut table = Table::new(Limits::default());
        judge(&mut table, 2, (5000, 1000), 0);
        (0..3_000).for_each(|n| judge(&mut table, 1, (1000 + n * 1000, 5000), 1000));
        judge(&mut table, 1, (1000, 5000), 1000);
        for n in 0..1_500 {
            judge(&mut table, 2, (5000, 1000), 0);
            judge(&mut table, 1, (3_001_000 + n * 1000, 5000), 1000);
        }
        assert!(table.unacked.steps > 3_000_000, "all are looked through: {}", table.unacked.steps);
        assert_eq!((table.unacked.len(), table.counters.given_up), (4_501, GivenUp::default()));
    }
}
