//! Our own judgement names what was done to a connection, and not what was not.

use holdup_packets::rfc::{Finding, Findings, Judge, Stall};
use holdup_packets::segment::{ACK, Address, Endpoint, FIN, Options, SYN, Segment};
use holdup_packets::wireshark::{Limits, Table};

const MS: i64 = 1_000_000;
const CLIENT: Endpoint = Endpoint { address: Address::V4(0x0a00_0001), port: 40_000 };
const SERVER: Endpoint = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };

/// Segments in the order in which they were captured.
struct Session {
    segments: Vec<Segment>,
    at_ns: i64,
    /// Where the client's bytes begin.
    base: u32,
    has_clock: bool,
    has_ids: bool,
}

impl Session {
    /// A connection that was opened in 2 ms.
    fn open(base: u32) -> Self {
        let mut s = Session { segments: Vec::new(), at_ns: MS, base, has_clock: true, has_ids: true };
        let shift = Options { window_shift: Some(0), ..Options::default() };
        s.add(0, Segment { seq: base.wrapping_sub(1), flags: SYN, options: shift, ..s.from(CLIENT) });
        s.add(1, Segment { seq: 999, ack: base, flags: SYN | ACK, options: shift, ..s.from(SERVER) });
        s.add(1, Segment { seq: base, ack: 1000, flags: ACK, ..s.from(CLIENT) });
        s
    }

    fn from(&self, from: Endpoint) -> Segment {
        Segment {
            frame: self.segments.len() as u32 + 1,
            at_ns: 0,
            from,
            to: if from == CLIENT { SERVER } else { CLIENT },
            seq: 1000,
            ack: 0,
            payload_bytes: Some(0),
            flags: ACK,
            window: 50_000,
            in_error: false,
            is_fragment: false,
            header_bytes: 32,
            header_captured_bytes: 32,
            ip_id: None,
            frame_bytes: 66,
            options: Options::default(),
        }
    }

    fn add(&mut self, after_ms: i64, segment: Segment) {
        self.at_ns += after_ms * MS;
        self.segments.push(Segment { at_ns: self.at_ns, ..segment });
    }

    /// `ms` later, the client's bytes from an offset on, as its packet number `id`.
    fn data(&mut self, after_ms: i64, offset: u32, length: u32, packet: u16) -> &mut Self {
        let options =
            Options { timestamps: self.has_clock.then_some((1_000 + u32::from(packet), 7)), ..Options::default() };
        let seq = self.base.wrapping_add(offset);
        let ip_id = self.has_ids.then_some(packet);
        let segment = Segment { seq, ack: 1000, payload_bytes: Some(length), ip_id, options, ..self.from(CLIENT) };
        self.add(after_ms, segment);
        self
    }

    /// The server acknowledges all below an offset, with blocks beyond.
    fn ack(&mut self, after_ms: i64, offset: u32, blocks: &[(u32, u32)]) -> &mut Self {
        let mut options = Options { sack_count: blocks.len() as u8, ..Options::default() };
        for (i, (begin, end)) in blocks.iter().enumerate() {
            options.sacks[i] = (self.base.wrapping_add(*begin), self.base.wrapping_add(*end));
        }
        self.add(after_ms, Segment { ack: self.base.wrapping_add(offset), options, ..self.from(SERVER) });
        self
    }

    /// The same with a window.
    fn ack_with_window(&mut self, after_ms: i64, offset: u32, window: u16) -> &mut Self {
        self.add(after_ms, Segment { ack: self.base.wrapping_add(offset), window, ..self.from(SERVER) });
        self
    }

    fn judged(&self) -> Findings {
        let (mut table, mut judge) = (Table::new(Limits::default()), Judge::default());
        for segment in &self.segments {
            let marks = table.judge(segment).expect("there is room");
            judge.judge(segment, &marks);
        }
        judge.finish()
    }

    /// That this was found, and nothing else.
    fn finds(&self, expected: &[(Finding, u64)]) {
        let findings = self.judged();
        for finding in Finding::ALL {
            let n = expected.iter().find(|(f, _)| f == finding).map_or(0, |(_, n)| *n);
            assert_eq!(findings.get(*finding), n, "{finding:?} of {findings:?}");
        }
    }

    /// That it stood still for this alone.
    fn stands_still(&self, expected: &[(Stall, u64)]) {
        let findings = self.judged();
        for stall in Stall::ALL {
            let ms = expected.iter().find(|(s, _)| s == stall).map_or(0, |(_, ms)| *ms);
            let (count, ns) = findings.stalls(*stall);
            assert_eq!((count > 0, ns / MS as u64), (ms > 0, ms), "{stall:?} of {findings:?}");
        }
    }
}

/// The same session at the begin of the numbers and around their wrap.
fn both(of: impl Fn(u32)) {
    [1, 500_000, u32::MAX - 1_500].into_iter().for_each(of);
}

fn a_transfer_without_trouble_has_no_finding() {
    both(|base| {
        let mut s = Session::open(base);
        s.data(1, 0, 1000, 1).data(0, 1000, 1000, 2).ack(1, 2000, &[]).data(1, 2000, 1000, 3).ack(1, 3000, &[]);
        let fin = Segment { seq: base.wrapping_add(3000), ack: 1000, flags: FIN | ACK, ..s.from(CLIENT) };
        s.add(1, fin);
        s.ack(1, 3001, &[]);
        s.finds(&[]);
        s.stands_still(&[]);
    });
}

fn what_is_missing_and_sent_later_was_lost_before_the_capture() {
    both(|base| {
        let mut s = Session::open(base);
        s.data(1, 0, 1000, 1).data(0, 2000, 1000, 3).ack(1, 1000, &[(2000, 3000)]).data(1, 1000, 1000, 4).ack(
            1,
            3000,
            &[],
        );
        s.finds(&[(Finding::LostBefore, 1)]);
    });
}

fn what_was_sent_before_what_follows_it_was_overtaken() {
    both(|base| {
        for (has_clock, has_ids) in [(true, true), (true, false), (false, true)] {
            let mut s = Session::open(base);
            (s.has_clock, s.has_ids) = (has_clock, has_ids);
            // 80 ms later: by time alone this is not reordered.
            s.data(1, 0, 1000, 1).data(0, 2000, 1000, 3).data(80, 1000, 1000, 2).ack(1, 3000, &[]);
            s.finds(&[(Finding::Reordered, 1)]);
        }
        // Without timestamps and numbers only the time is left.
        for (ms, finding) in [(0, Finding::Reordered), (80, Finding::LostBefore)] {
            let mut s = Session::open(base);
            (s.has_clock, s.has_ids) = (false, false);
            s.data(1, 0, 1000, 1).data(0, 2000, 1000, 3).data(ms, 1000, 1000, 2).ack(1, 3000, &[]);
            s.finds(&[(finding, 1)]);
        }
    });
}

fn what_comes_again_was_lost_behind_needless_or_doubled() {
    both(|base| {
        let mut lost = Session::open(base);
        lost.data(1, 0, 1000, 1).data(0, 1000, 1000, 2).ack(1, 1000, &[]).data(30, 1000, 1000, 3).ack(1, 2000, &[]);
        lost.finds(&[(Finding::LostBehind, 1)]);
        let mut known = Session::open(base);
        known.data(1, 0, 1000, 1).ack(1, 1000, &[]).data(30, 0, 1000, 2).ack(1, 1000, &[(0, 1000)]);
        known.finds(&[(Finding::Needless, 1)]);
        let mut reported_later = Session::open(base);
        reported_later.data(1, 0, 1000, 1).data(30, 0, 1000, 2).ack(1, 1000, &[]).ack(1, 1000, &[(0, 1000)]);
        reported_later.finds(&[(Finding::Needless, 1)]);
        let mut doubled = Session::open(base);
        doubled.data(1, 0, 1000, 1).data(0, 0, 1000, 1).ack(1, 1000, &[]);
        doubled.finds(&[(Finding::Doubled, 1)]);
        // Without its number a copied packet looks like a retransmission.
        doubled.segments.iter_mut().for_each(|s| s.ip_id = None);
        doubled.finds(&[(Finding::LostBehind, 1)]);
    });
}

fn copies_are_known_by_one_of_clock_and_number() {
    both(|base| {
        // The client's clock ticks twice a ms; a round trip takes two.
        let mut clock = Session::open(base);
        clock.has_ids = false;
        for packet in 0..6 {
            clock.data(1, u32::from(packet) * 1000, 1000, 2 * packet);
        }
        clock.data(0, 5000, 1000, 10).ack(1, 6000, &[(5000, 6000)]);
        clock.finds(&[(Finding::Doubled, 1)]);
        // A number that all packets have says nothing; one that its packets do not share does.
        for (first, finding) in [(1, Finding::Doubled), (2, Finding::LostBehind)] {
            let mut number = Session::open(base);
            number.has_clock = false;
            number.data(1, 0, 1000, first).data(0, 1000, 1000, 2).data(0, 1000, 1000, 2).ack(1, 2000, &[]);
            // The handshake's packets have none here.
            number.segments.iter_mut().take(3).for_each(|s| s.ip_id = Some(first));
            number.finds(&[(finding, 1)]);
        }
    });
}

fn overtaken_without_numbers_is_known_by_a_clock_that_ticks_faster_than_a_round_trip() {
    both(|base| {
        let mut s = Session::open(base);
        s.has_ids = false;
        for packet in 0..6 {
            s.data(1, u32::from(packet) * 1000, 1000, 2 * packet);
        }
        // Sent in the same tick as what overtook it, and captured much later.
        s.data(1, 7000, 1000, 12).data(30, 6000, 1000, 12).ack(1, 8000, &[]);
        s.finds(&[(Finding::Reordered, 1)]);
    });
}

fn a_dsack_above_a_gap_is_inside_the_second_block() {
    both(|base| {
        let mut s = Session::open(base);
        s.data(1, 0, 1000, 1).data(0, 2000, 1000, 3).data(0, 3000, 1000, 4).data(9, 2000, 1000, 5);
        s.ack(1, 1000, &[(2000, 3000), (2000, 4000)]).data(1, 1000, 1000, 6).ack(1, 4000, &[]);
        s.finds(&[(Finding::Needless, 1), (Finding::LostBefore, 1)]);
    });
}

fn what_is_acknowledged_and_was_never_seen_was_not_captured() {
    both(|base| {
        let mut middle = Session::open(base);
        middle.data(1, 0, 1000, 1).data(0, 2000, 1000, 3).ack(1, 3000, &[]);
        middle.finds(&[(Finding::NotCaptured, 1)]);
        let mut tail = Session::open(base);
        tail.data(1, 0, 1000, 1).ack(1, 2000, &[]).data(1, 2000, 1000, 3).ack(1, 3000, &[]);
        tail.finds(&[(Finding::NotCaptured, 1)]);
        // It arrived by what a block says, though what stands before it did not.
        let mut block = Session::open(base);
        block.data(1, 0, 1000, 1).data(0, 2000, 500, 3).ack(1, 0, &[(1000, 2500)]);
        block.finds(&[(Finding::NotCaptured, 1)]);
        // The capture has an acknowledgement before what it acknowledges.
        let mut swapped = Session::open(base);
        swapped.data(1, 0, 1000, 1).ack(1, 2000, &[]).data(0, 1000, 1000, 2).data(1, 2000, 1000, 3).ack(1, 3000, &[]);
        swapped.finds(&[(Finding::Reordered, 1)]);
        // No information.
        let mut open = Session::open(base);
        open.data(1, 0, 1000, 1).data(0, 2000, 1000, 3);
        open.finds(&[(Finding::Open, 1)]);
    });
}

fn standing_still_has_its_cause() {
    both(|base| {
        let mut timeout = Session::open(base);
        timeout.data(1, 0, 1000, 1).data(300, 0, 1000, 2).ack(1, 1000, &[]);
        timeout.stands_still(&[(Stall::Timeout, 300)]);
        let mut closed = Session::open(base);
        closed.data(1, 0, 1000, 1).ack_with_window(1, 1000, 0).ack_with_window(400, 1000, 50_000);
        closed.data(1, 1000, 1000, 2).ack(1, 2000, &[]);
        closed.stands_still(&[(Stall::ZeroWindow, 400)]);
        let mut full = Session::open(base);
        full.ack_with_window(1, 0, 2000).data(1, 0, 2000, 1).data(250, 2000, 1000, 2).ack(1, 3000, &[]);
        full.stands_still(&[(Stall::WindowFull, 250)]);
        let mut waits = Session::open(base);
        waits.data(1, 0, 1000, 1).ack(500, 1000, &[]).data(1, 1000, 10, 2).ack(1, 1010, &[]);
        waits.stands_still(&[(Stall::Unacknowledged, 500)]);
        let mut idle = Session::open(base);
        idle.data(1, 0, 1000, 1).ack(1, 1000, &[]).data(700, 1000, 1000, 2).ack(1, 2000, &[]);
        idle.stands_still(&[(Stall::Idle, 700)]);
        let mut soon = Session::open(base);
        soon.data(1, 0, 1000, 1).ack(1, 1000, &[]).data(150, 1000, 1000, 2).ack(1, 2000, &[]);
        soon.stands_still(&[]);
    });
}

/// Timestamps of a capture can be anything: a round trip may take 200 years.
fn a_round_trip_of_centuries_is_no_overflow() {
    both(|base| {
        let mut old = Session { segments: Vec::new(), at_ns: -(i64::MAX / 2), base, has_clock: true, has_ids: true };
        old.add(0, Segment { seq: base.wrapping_sub(1), flags: SYN, ..old.from(CLIENT) });
        old.at_ns = i64::MAX / 2 - 1_000 * MS;
        old.add(0, Segment { seq: 999, ack: base, flags: SYN | ACK, ..old.from(SERVER) });
        old.add(0, Segment { seq: base, ack: 1000, flags: ACK, ..old.from(CLIENT) });
        old.data(300, 0, 1000, 1).ack(1, 1000, &[]);
        old.stands_still(&[(Stall::Idle, (i64::MAX / MS) as u64 - 1_000)]);
    });
}

holdup_testkit::tests!(
    a_transfer_without_trouble_has_no_finding,
    what_is_missing_and_sent_later_was_lost_before_the_capture,
    what_was_sent_before_what_follows_it_was_overtaken,
    what_comes_again_was_lost_behind_needless_or_doubled,
    copies_are_known_by_one_of_clock_and_number,
    overtaken_without_numbers_is_known_by_a_clock_that_ticks_faster_than_a_round_trip,
    a_dsack_above_a_gap_is_inside_the_second_block,
    what_is_acknowledged_and_was_never_seen_was_not_captured,
    standing_still_has_its_cause,
    a_round_trip_of_centuries_is_no_overflow
);
