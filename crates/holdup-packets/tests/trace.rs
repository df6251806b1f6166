//! A connection over time.

use crate::made::{Pcap, Tcp, link};
use holdup_model::captures::PointKind;
use holdup_packets::analyse::Analysis;
use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Chain, Frames as _, Reader};
use holdup_packets::decode::{self, Decoded, Decoder};
use holdup_packets::live::{self, Live, SLOTS};
use holdup_packets::segment::{ACK, Address, Endpoint};
use holdup_packets::trace::{MOST_POINTS, trace, worst};
use holdup_packets::wireshark::{Limits, Table};

/// Data whose numbers wrap, one of `again_every` segments sent again.
fn capture(segments: u32, again_every: u32) -> Vec<u8> {
    let end = |host: u32, port| Endpoint { address: Address::V4(host), port };
    let (a, b) = (end(1, 1000), end(2, 2000));
    let mut capture = Pcap::new(link::ETHERNET).with_nanoseconds();
    let first = u32::MAX - 5_000;
    for i in 0..segments {
        let (at, seq) = (i64::from(i) * 1_000_000, first.wrapping_add(i * 100));
        let data = Tcp { seq, ack: 7, flags: ACK, payload_bytes: 100, ..Tcp::new(a, b) };
        capture.frame(at, &data.frame());
        if i % again_every == 0 {
            capture.frame(at + 400_000, &data.frame());
        }
        let ack = Tcp { seq: 7, ack: seq.wrapping_add(100), flags: ACK, ..Tcp::new(b, a) };
        capture.frame(at + 500_000, &ack.frame());
    }
    capture.into_bytes()
}

fn bytes_grow_where_numbers_wrap_and_what_was_sent_again_is_marked() {
    let bytes = capture(200, 10);
    let found =
        analyse(&mut Chain::one(Reader::new(&bytes[..]).expect("a capture")), &Options::default()).expect("is read");
    let flows = worst(&found.analysis, 3);
    assert_eq!(flows.len(), 1);
    let mut frames = Chain::one(Reader::new(&bytes[..]).expect("a capture"));
    let traces = trace(&mut frames, "a", &flows, Limits::default()).expect("is read");
    let [one] = traces.as_slice() else { panic!("{} traces", traces.len()) };
    assert_eq!((one.from.as_str(), one.to.as_str(), one.one_of), ("0.0.0.1:1000", "0.0.0.2:2000", 1));
    let of = |kind| one.points.iter().filter(|p| p.kind == kind).count();
    assert_eq!([of(PointKind::Data), of(PointKind::SentAgain), of(PointKind::Ack)], [200, 20, 200]);
    let last = one.points.last().expect("points");
    assert_eq!((last.byte, last.at_ns), (199 * 100, 199_500_000));
    assert!(one.points.windows(2).all(|w| w[1].byte >= w[0].byte && w[1].at_ns >= w[0].at_ns));
}

fn a_long_connection_is_thinned_and_keeps_what_was_sent_again() {
    let bytes = capture(20_000, 100);
    let found =
        analyse(&mut Chain::one(Reader::new(&bytes[..]).expect("a capture")), &Options::default()).expect("is read");
    let mut frames = Chain::one(Reader::new(&bytes[..]).expect("a capture"));
    let traces = trace(&mut frames, "a", &worst(&found.analysis, 1), Limits::default()).expect("is read");
    assert!(traces[0].points.len() < MOST_POINTS && traces[0].one_of > 1, "{}", traces[0].points.len());
    let of = |kind| traces[0].points.iter().filter(|p| p.kind == kind).count();
    assert_eq!(of(PointKind::SentAgain), 200);
    // Data and acknowledgements take turns, and both are still there.
    let one_of = traces[0].one_of as usize;
    assert!(of(PointKind::Data).abs_diff(20_000 / one_of) <= 1 && of(PointKind::Ack).abs_diff(20_000 / one_of) <= 1);
}

/// Judges a capture as it comes, with traces of the worst.
fn live(bytes: &[u8]) -> (Analysis, Live) {
    let mut frames = Chain::one(Reader::new(bytes).expect("a capture"));
    let (mut decoder, mut table, mut live) =
        (Decoder::new(decode::Limits::default()), Table::new(Limits::default()), Live::default());
    while let Some(frame) = frames.next().expect("a frame") {
        let Decoded::Segment(segment) = decoder.decode(&frame) else { continue };
        let marks = table.judge(&segment).expect("it is counted");
        live.add(&segment, &marks);
    }
    (table.finish(), live)
}

fn a_trace_that_is_kept_while_judging_is_that_of_a_second_way() {
    let bytes = capture(200, 10);
    let (analysis, live) = live(&bytes);
    let mut frames = Chain::one(Reader::new(&bytes[..]).expect("a capture"));
    let second = trace(&mut frames, "", &worst(&analysis, 3), Limits::default()).expect("is read");
    assert!(live.memory_bytes() > 0);
    assert_eq!(live.worst(&analysis.flows, 3, |_| true), (second, 0));
    let (analysis, live) = self::live(&capture(20_000, 100));
    let (traces, _) = live.worst(&analysis.flows, 1, |_| true);
    assert!(traces[0].points.len() < live::MOST_POINTS && traces[0].one_of > 1);
    assert_eq!(traces[0].points.iter().filter(|p| p.kind == PointKind::SentAgain).count(), 200);
}

/// Concurrent connections, each of which sends `times` segments and retransmits as often as its number.
fn many(connections: u32, rounds: u32, again: impl Fn(u32, u32) -> bool) -> Vec<u8> {
    let server = Endpoint { address: Address::V4(2), port: 80 };
    let mut capture = Pcap::new(link::ETHERNET).with_nanoseconds();
    for round in 0..rounds {
        for c in 0..connections {
            let client = Endpoint { address: Address::V4(0x0a00_0000 + c), port: 1000 };
            let at = i64::from(round) * 1_000_000_000 + i64::from(c) * 1_000;
            let data = Tcp { seq: 1 + round * 100, ack: 7, flags: ACK, payload_bytes: 100, ..Tcp::new(client, server) };
            capture.frame(at, &data.frame());
            if again(c, round) {
                capture.frame(at + 500, &data.frame());
            }
        }
    }
    capture.into_bytes()
}

fn the_worst_of_many_more_than_there_is_room_for_are_kept() {
    let connections = 40 * SLOTS as u32;
    // Trouble begins for a few after all have begun, most of it for the last one.
    let is_again = |c: u32, round: u32| c.is_multiple_of(1_000) && round > 1 && round <= 2 + c / 1_000;
    let (analysis, live) = live(&many(connections, 9, is_again));
    let most = 3;
    assert!(live.memory_bytes() < 2 << 20, "{}", live.memory_bytes());
    let (traces, without) = live.worst(&analysis.flows, most, |_| true);
    let streams: Vec<u32> = traces.iter().map(|t| t.stream).collect();
    assert_eq!((streams, without), (vec![5_000, 4_000, 3_000], 0));
    // The part before the trouble is missing, as the time shows.
    assert_eq!(traces[1].points[0].at_ns, 2_000_000_500);
    assert_eq!(traces[1].points.iter().filter(|p| p.kind == PointKind::SentAgain).count(), 5);
    assert_eq!(traces[1].points.iter().filter(|p| p.kind == PointKind::Data).count(), 6);
    // The last to begin had a place from then on.
    assert_eq!((traces[0].points[0].at_ns, traces[0].points.len()), (0, 9 + 6));
}

fn short_connections_one_after_the_other_are_traced_from_their_begin() {
    let server = Endpoint { address: Address::V4(2), port: 80 };
    let mut capture = Pcap::new(link::ETHERNET).with_nanoseconds();
    for c in 0..20 * SLOTS as u32 {
        let client = Endpoint { address: Address::V4(0x0a00_0000 + c), port: 1000 };
        for i in 0..10 {
            let at = i64::from(c) * 10_000_000 + i64::from(i) * 1_000;
            let data = Tcp { seq: 1 + i * 100, ack: 7, flags: ACK, payload_bytes: 100, ..Tcp::new(client, server) };
            capture.frame(at, &data.frame());
            if i > 5 && c == 2_000 {
                capture.frame(at + 500, &data.frame());
            }
        }
    }
    let (analysis, live) = live(&capture.into_bytes());
    let (traces, without) = live.worst(&analysis.flows, 3, |_| true);
    let [one] = traces.as_slice() else { panic!("{} traces", traces.len()) };
    assert_eq!((one.stream, one.points[0].at_ns, one.points.len(), without), (2_000, 0, 14, 0));
}

holdup_testkit::tests!(
    bytes_grow_where_numbers_wrap_and_what_was_sent_again_is_marked,
    a_long_connection_is_thinned_and_keeps_what_was_sent_again,
    a_trace_that_is_kept_while_judging_is_that_of_a_second_way,
    the_worst_of_many_more_than_there_is_room_for_are_kept,
    short_connections_one_after_the_other_are_traced_from_their_begin
);
