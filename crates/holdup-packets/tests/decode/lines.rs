//! A segment as a line, as holdup reads it and as tshark does.

use crate::judge::Tshark;
use holdup_packets::capture::{Frames, Reader};
use holdup_packets::decode::{Decoded, Decoder, Limits};
use holdup_packets::segment::{Endpoint, Segment};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The segments of a capture, one line each. What follows a header that was cut is not compared.
pub(crate) fn ours(capture: &[u8]) -> Vec<String> {
    segments(capture).iter().map(line).collect()
}

/// The segments of a capture.
pub(crate) fn segments(capture: &[u8]) -> Vec<Segment> {
    let mut reader = Reader::new(capture).expect("a capture");
    let mut decoder = Decoder::new(Limits::default());
    let mut segments = Vec::new();
    while let Some(frame) = reader.next().expect("frames") {
        if let Decoded::Segment(segment) = decoder.decode(&frame) {
            segments.push(segment);
        }
    }
    segments
}

pub(crate) fn end(end: Endpoint) -> String {
    format!("{}:{}", IpAddr::from(end.address), end.port)
}

fn line(segment: &Segment) -> String {
    let mut line = format!("{} {} > {} seq {}", segment.frame, end(segment.from), end(segment.to), segment.seq);
    let _ = write!(line, " len {}", segment.payload_bytes.map_or("?".to_owned(), |bytes| bytes.to_string()));
    if segment.header_bytes < 20 {
        return line;
    }
    // A header that ends within its window has none.
    let window = if segment.header_captured_bytes >= 16 { segment.window.to_string() } else { String::new() };
    let _ = write!(line, " ack {} flags {:#06x} window {window}", segment.ack, segment.flags);
    if segment.header_captured_bytes < segment.header_bytes {
        return line;
    }
    let options = &segment.options;
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value}");
        }
    };
    add("mss", options.mss.map(|mss| mss.to_string()));
    add("shift", options.window_shift.map(|shift| shift.to_string()));
    add("sack-permitted", options.sack_permitted.then(String::new));
    add("times", options.timestamps.map(|(value, echo)| format!("{value},{echo}")));
    let sacks = &options.sacks[..usize::from(options.sack_count)];
    add("sacks", (!sacks.is_empty()).then(|| format!("{sacks:?}")));
    add("multipath", options.multipath.then(String::new));
    line
}

const FIELDS: &[&str] = &[
    "frame.number",
    "frame.protocols",
    "tcp.stream",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.len",
    "tcp.hdr_len",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.seq",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_perm",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.options.mptcp.subtype",
];

/// The segments that tshark sees in a capture: those that it gives a stream.
pub(crate) fn tsharks(tshark: &Tshark, capture: &[u8], cut_headers: &[u32]) -> Vec<String> {
    // In ICMP errors the number is in one field only. SACK blocks are as in the header.
    let rows = tshark.fields(capture, FIELDS, &["-o", "tcp.relative_sequence_numbers:FALSE"]);
    let is_read = |row: &&Vec<String>| !row[2].is_empty();
    rows.iter().filter(is_read).map(|row| tshark_line(row, cut_headers)).collect()
}

fn tshark_line(row: &[String], cut_headers: &[u32]) -> String {
    let last = |at: usize| row[at].rsplit(',').next().unwrap_or_default().to_owned();
    let some = |at: usize| (!row[at].is_empty()).then(|| last(at));
    let frame = &row[0];
    // The addresses are those of the IP header that is next to TCP.
    let before = row[1].split(":tcp").next().unwrap_or_default();
    let layer = before.rsplit(':').find(|layer| ["ip", "ipv6"].contains(layer));
    // What MPLS holds is not among the layers.
    let is_v6 = layer.map_or(row[3].is_empty(), |layer| layer == "ipv6");
    let (from, to) = if is_v6 { (last(5), last(6)) } else { (last(3), last(4)) };
    let mut line = format!("{frame} {from}:{} > {to}:{} seq {}", last(7), last(8), some(9).unwrap_or(last(15)));
    let _ = write!(line, " len {}", some(10).unwrap_or("?".to_owned()));
    let header: u32 = some(11).map_or(0, |bytes| bytes.parse().expect("a number"));
    if header < 20 {
        return line;
    }
    let _ = write!(line, " ack {} flags {} window {}", last(12), last(13), last(14));
    if cut_headers.contains(&frame.parse().expect("a number")) {
        return line;
    }
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value}");
        }
    };
    add("mss", some(16));
    add("shift", some(17));
    add("sack-permitted", some(18).map(|_| String::new()));
    add("times", some(19).map(|value| format!("{value},{}", last(20))));
    let sacks: Vec<(u32, u32)> = row[21]
        .split(',')
        .zip(row[22].split(','))
        .filter(|(left, _)| !left.is_empty())
        .map(|(left, right)| (left.parse().expect("a number"), right.parse().expect("a number")))
        .collect();
    add("sacks", (!sacks.is_empty()).then(|| format!("{sacks:?}")));
    add("multipath", some(23).map(|_| String::new()));
    line
}

/// The frames whose header of TCP was cut, which tshark cannot say.
pub(crate) fn cut_headers(capture: &[u8]) -> Vec<u32> {
    let is_cut = |segment: &&Segment| segment.header_captured_bytes < segment.header_bytes;
    segments(capture).iter().filter(is_cut).map(|segment| segment.frame).collect()
}
