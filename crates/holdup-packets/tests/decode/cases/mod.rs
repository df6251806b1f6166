//! Frames by hand, each with the segments that tshark 4.6 sees in them.

mod fragments;
mod packets;
mod tunnels;

use crate::decode::lines::{cut_headers, ours, segments, tsharks};
use crate::judge::tshark;
use crate::made::layers::{self, Ipv4, Ipv6};
use crate::made::{PcapNg, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint, Options, PSH};

/// A frame: what was on the wire, and how much of it was captured.
type Cut = (Vec<u8>, usize);

struct Case {
    name: &'static str,
    link: u32,
    frames: Vec<Cut>,
    /// Of each segment: its frame, the length of its payload (`None`: not known), the captured bytes of its header.
    expect: Vec<(u32, Option<u32>, u8)>,
}

const V4: (u32, u32) = (0x0a00_0001, 0x0a00_0002);
const V6: (u128, u128) = (0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2);

fn tcp4() -> Tcp {
    let end = |address, port| Endpoint { address: Address::V4(address), port };
    let options = Options { timestamps: Some((7, 8)), ..Options::default() };
    let (from, to) = (end(V4.0, 40_000), end(V4.1, 5432));
    Tcp { seq: 1000, ack: 2000, flags: ACK | PSH, window: 512, options, payload_bytes: 100, ..Tcp::new(from, to) }
}

fn tcp6() -> Tcp {
    let end = |address, port| Endpoint { address: Address::v6(address), port };
    Tcp { from: end(V6.0, 40_000), to: end(V6.1, 5432), ..tcp4() }
}

/// IP around the segment of [`tcp4`].
fn ip4() -> Ipv4 {
    Ipv4 { id: 77, ..Ipv4::new(V4.0, V4.1, layers::TCP) }
}

fn ip6(next: u8) -> Ipv6 {
    Ipv6::new(V6.0, V6.1, next)
}

fn tunnel(protocol: u8) -> Ipv4 {
    Ipv4::new(0xc0a8_0001, 0xc0a8_0002, protocol)
}

fn whole(frame: Vec<u8>) -> Cut {
    let length = frame.len();
    (frame, length)
}

fn ether4(packet: &[u8]) -> Vec<u8> {
    layers::ethernet(layers::ETHER_IPV4, packet)
}

fn ether6(packet: &[u8]) -> Vec<u8> {
    layers::ethernet(layers::ETHER_IPV6, packet)
}

fn one(name: &'static str, link: u32, frame: Vec<u8>) -> Case {
    Case { name, link, frames: vec![whole(frame)], expect: vec![(1, Some(100), 32)] }
}

fn none(name: &'static str, link: u32, frame: Vec<u8>) -> Case {
    Case { expect: vec![], ..one(name, link, frame) }
}

fn expecting(case: Case, expect: &[(u32, Option<u32>, u8)]) -> Case {
    Case { expect: expect.to_vec(), ..case }
}

pub(crate) fn a_connection_is_with_the_end_of_a_route() {
    let (frames, expect) = packets::routed();
    let mut capture = PcapNg::new();
    capture.interface(link::ETHERNET);
    for frame in &frames {
        capture.frame(0, 0, frame);
    }
    let capture = capture.into_bytes();
    let mut ends = Vec::new();
    let ours: Vec<usize> = segments(&capture)
        .iter()
        .map(|segment| {
            ends.iter().position(|end| *end == segment.to).unwrap_or_else(|| {
                ends.push(segment.to);
                ends.len() - 1
            })
        })
        .collect();
    assert_eq!(ours, expect.iter().map(|stream| *stream as usize).collect::<Vec<_>>());
    let rows = tshark().fields(&capture, &["tcp.stream"], &[]);
    let theirs: Vec<String> = rows.into_iter().flatten().collect();
    assert_eq!(theirs, expect.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// Cases as one capture. Their fragments would meet, so each that has some is a separate capture.
fn capture(cases: &[&Case]) -> Vec<u8> {
    let mut capture = PcapNg::new();
    for (i, case) in cases.iter().enumerate() {
        capture.interface(case.link);
        for (frame, captured) in &case.frames {
            capture.cut_frame(i as u32, 0, &frame[..*captured], frame.len() as u32, &[]);
        }
    }
    capture.into_bytes()
}

fn all() -> Vec<Case> {
    [
        tunnels::links(),
        packets::lengths(),
        packets::cuts(),
        packets::extensions(),
        tunnels::tunnels(),
        tunnels::errors(),
        fragments::fragments(),
        packets::options(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) fn each_is_read_as_expected() {
    let mut wrong = String::new();
    for case in all() {
        let found: Vec<(u32, Option<u32>, u8)> = segments(&capture(&[&case]))
            .iter()
            .map(|segment| (segment.frame, segment.payload_bytes, segment.header_captured_bytes))
            .collect();
        if found != case.expect {
            wrong += &format!("{}: {found:?}, expected {:?}\n", case.name, case.expect);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

pub(crate) fn tshark_reads_each_the_same() {
    let tshark = tshark();
    let all = all();
    let (alone, together): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.frames.len() > 1);
    let mut wrong = String::new();
    for cases in alone.iter().map(std::slice::from_ref).chain([&together[..]]) {
        let capture = capture(cases);
        let (ours, theirs) = (ours(&capture), tsharks(&tshark, &capture, &cut_headers(&capture)));
        let of = |lines: &[String], frame: usize| -> Vec<String> {
            lines.iter().filter(|line| line.starts_with(&format!("{frame} "))).cloned().collect()
        };
        let mut first = 1;
        for case in cases {
            for frame in first..first + case.frames.len() {
                let (ours, theirs) = (of(&ours, frame), of(&theirs, frame));
                if ours != theirs {
                    wrong += &format!("{}:\n  holdup {ours:?}\n  tshark {theirs:?}\n", case.name);
                }
            }
            first += case.frames.len();
        }
    }
    assert!(wrong.is_empty(), "{}\n{wrong}", tshark.version);
}
