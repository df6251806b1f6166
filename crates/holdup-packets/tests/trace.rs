//! A connection over time.

use holdup_model::captures::PointKind;
use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::Reader;
use holdup_packets::made::{Pcap, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint};
use holdup_packets::trace::{MOST_POINTS, trace, worst};
use holdup_packets::wireshark::Limits;

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

#[test]
fn bytes_grow_where_numbers_wrap_and_what_was_sent_again_is_marked() {
    let bytes = capture(200, 10);
    let found = analyse(&mut Reader::new(&bytes[..]).expect("a capture"), &Options::default()).expect("is read");
    let flows = worst(&found.analysis, 3);
    assert_eq!(flows.len(), 1);
    let mut reader = Reader::new(&bytes[..]).expect("a capture");
    let traces = trace(&mut reader, "a", &flows, Limits::default()).expect("is read");
    let [one] = traces.as_slice() else { panic!("{} traces", traces.len()) };
    assert_eq!((one.from.as_str(), one.to.as_str(), one.one_of), ("0.0.0.1:1000", "0.0.0.2:2000", 1));
    let of = |kind| one.points.iter().filter(|p| p.kind == kind).count();
    assert_eq!([of(PointKind::Data), of(PointKind::SentAgain), of(PointKind::Ack)], [200, 20, 200]);
    let last = one.points.last().expect("points");
    assert_eq!((last.byte, last.at_ns), (199 * 100, 199_500_000));
    assert!(one.points.windows(2).all(|w| w[1].byte >= w[0].byte && w[1].at_ns >= w[0].at_ns));
}

#[test]
fn a_long_connection_is_thinned_and_keeps_what_was_sent_again() {
    let bytes = capture(20_000, 100);
    let found = analyse(&mut Reader::new(&bytes[..]).expect("a capture"), &Options::default()).expect("is read");
    let mut reader = Reader::new(&bytes[..]).expect("a capture");
    let traces = trace(&mut reader, "a", &worst(&found.analysis, 1), Limits::default()).expect("is read");
    assert!(traces[0].points.len() < MOST_POINTS && traces[0].one_of > 1, "{}", traces[0].points.len());
    assert_eq!(traces[0].points.iter().filter(|p| p.kind == PointKind::SentAgain).count(), 200);
}
