//! tshark's values for each frame, and their comparison with ours.

#![allow(dead_code, reason = "each test that takes this in uses a part of it")]

use crate::judge::Tshark;
use holdup_packets::analyse::Analysis;
use holdup_packets::capture::{Frames as _, Reader};
use holdup_packets::decode::{self, Decoded, Decoder};
use holdup_packets::expert;
use holdup_packets::kinds::Kind;
use holdup_packets::segment::Segment;
use holdup_packets::wireshark::{DuplicateAck, Kinds, Limits, Marks, Table};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::num::{NonZeroI64, NonZeroU32};

/// Fields with values beside those of the kinds.
const VALUES: [&str; 12] = [
    "frame.number",
    "tcp.stream",
    "tcp.completeness",
    "tcp.analysis.duplicate_ack_num",
    "tcp.analysis.duplicate_ack_frame",
    "tcp.analysis.acks_frame",
    "tcp.analysis.ack_rtt",
    "tcp.analysis.initial_rtt",
    "tcp.analysis.rto",
    "tcp.analysis.rto_frame",
    "tcp.analysis.bytes_in_flight",
    "tcp.analysis.push_bytes_sent",
];

/// Protocols above TCP are switched off: their output and failures do not matter here.
const PROTOCOLS: [&str; 13] = [
    "--disable-all-protocols",
    "--enable-protocol",
    "eth",
    "--enable-protocol",
    "ip",
    "--enable-protocol",
    "ipv6",
    "--enable-protocol",
    "tcp",
    "--enable-protocol",
    "icmp",
    "--enable-protocol",
    "icmpv6",
];

/// tshark's values for each frame with enough of a TCP segment to belong to a connection.
pub(crate) fn marks_of(tshark: &Tshark, capture: &[u8]) -> Vec<(u32, Marks)> {
    let arguments = [&PROTOCOLS[..], &OF_CONNECTIONS].concat();
    tshark.fields(capture, &fields(), &arguments).iter().map(|row| line(row)).collect()
}

/// The same with all protocols that tshark knows, of a file that may be damaged.
pub(crate) fn marks_with_all_protocols(tshark: &Tshark, capture: &[u8]) -> Vec<(u32, Marks)> {
    // VNC begins connections anew in the middle.
    let arguments = [&["--disable-protocol", "vnc"], &OF_CONNECTIONS[..]].concat();
    tshark.fields_so_far(capture, &fields(), &arguments).iter().map(|row| line(row)).collect()
}

/// Numbers connections again in the order in which they come: some protocols have tshark count connections of which no segment is
/// to be compared.
pub(crate) fn number_again(marks: &mut [(u32, Marks)]) {
    let mut numbers = BTreeMap::new();
    for (_, marks) in marks {
        let next = numbers.len() as u32;
        marks.stream = *numbers.entry(marks.stream).or_insert(next);
    }
}

/// Of a field that stands twice in a frame the last one, and only frames that are of a connection.
const OF_CONNECTIONS: [&str; 4] = ["-E", "occurrence=l", "-Y", "tcp.stream"];

fn fields() -> Vec<&'static str> {
    VALUES.iter().copied().chain(Kind::ALL.iter().map(|kind| kind.field())).collect()
}

/// The segments of a capture.
pub(crate) fn decoded(capture: &[u8]) -> Vec<Segment> {
    let mut reader = Reader::new(capture).expect("a capture");
    let mut decoder = Decoder::new(decode::Limits::default());
    let mut segments = Vec::new();
    while let Some(frame) = reader.next().expect("a capture without faults") {
        if let Decoded::Segment(segment) = decoder.decode(&frame) {
            segments.push(segment);
        }
    }
    segments
}

/// Compares tshark's values with ours, for each frame and in sum, and panics with the first difference.
pub(crate) fn compare(tshark: &Tshark, capture: &[u8], uncounted: &[Kind], what: &str) {
    let segments = decoded(capture);
    if let Some(kept) = std::env::var_os("HOLDUP_KEEP") {
        std::fs::write(kept, capture).expect("the capture can be kept");
    }
    let theirs = marks_of(tshark, capture);
    let (ours, analysis) = our_marks(&segments);
    if let Some(text) = first_difference(&theirs, &ours, &segments) {
        panic!("{what}: {text}");
    }
    let (mut theirs, mut ours) = (expert_sums(tshark, capture), our_sums(&analysis));
    for kind in uncounted {
        theirs.remove(kind.field());
        ours.remove(kind.field());
    }
    if theirs != ours {
        panic!("{what}: sums, tshark {theirs:?}, ours {ours:?}");
    }
}

/// How often each kind stands in the sums of `-z expert`.
pub(crate) fn expert_sums(tshark: &Tshark, capture: &[u8]) -> BTreeMap<&'static str, u64> {
    let text = tshark.text(capture, &[&PROTOCOLS[..], &["-q", "-z", "expert"]].concat());
    // Without any finding tshark prints nothing.
    let Ok(expert) = expert::read(&text) else { return BTreeMap::new() };
    Kind::ALL.iter().map(|kind| (kind.field(), expert.get(*kind))).filter(|(_, n)| *n > 0).collect()
}

/// The same of ours.
pub(crate) fn our_sums(analysis: &Analysis) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for counts in analysis.flows.iter().flat_map(|flow| flow.directions).map(|direction| direction.counts) {
        for (kind, n) in counts.iter() {
            *sums.entry(kind.field()).or_insert(0) += n;
        }
    }
    sums
}

fn line(fields: &[String]) -> (u32, Marks) {
    let plain = |i: usize| fields[i].parse::<u32>().expect("a number");
    let number = |i: usize| (!fields[i].is_empty()).then(|| NonZeroU32::new(plain(i)).expect("not zero"));
    let time = |i: usize| (!fields[i].is_empty()).then(|| NonZeroI64::new(nanoseconds(&fields[i])).expect("not zero"));
    let present = |(_, field): &(_, &String)| !field.is_empty() && field.as_str() != "0";
    let kinds: Kinds = Kind::ALL.iter().zip(&fields[VALUES.len()..]).filter(present).map(|(kind, _)| *kind).collect();
    let completeness = fields[2].strip_prefix("0x").map_or_else(
        || fields[2].parse().expect("a number"),
        |digits| u8::from_str_radix(digits, 16).expect("a number"),
    );
    let marks = Marks {
        stream: plain(1),
        direction: 0,
        completeness,
        kinds,
        duplicate_ack: number(3).map(|number| DuplicateAck { first_frame: plain(4), number }),
        acks_frame: number(5),
        ack_rtt_ns: time(6),
        initial_rtt_ns: time(7),
        rto_ns: time(8),
        rto_frame: number(9),
        bytes_in_flight: number(10),
        push_bytes_sent: number(11),
    };
    (plain(0), marks)
}

/// Seconds with 9 digits after the point, as ns.
fn nanoseconds(text: &str) -> i64 {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (seconds, rest) = digits.split_once('.').expect("a point");
    // tshark prints invalid times (a second and more of nanoseconds) as text.
    let rest = rest.strip_prefix('(').map_or(rest, |words| words.split(' ').next().unwrap_or_default());
    assert!(rest.len() >= 9, "{text}");
    sign * (seconds.parse::<i64>().expect("seconds") * 1_000_000_000 + rest.parse::<i64>().expect("ns"))
}

/// Our values for the same segments, each and in sum.
pub(crate) fn our_marks(segments: &[Segment]) -> (Vec<(u32, Marks)>, Analysis) {
    let mut table = Table::new(Limits::default());
    let judge = |s: &Segment| {
        let mut marks = Marks { direction: 0, ..table.judge(s).expect("within the limits") };
        // tshark has this one only in its sums: it has no field.
        marks.kinds.remove(Kind::MssExceeded);
        (s.frame, marks)
    };
    (segments.iter().map(judge).collect(), table.finish())
}

/// The first difference, with its context.
pub(crate) fn first_difference(theirs: &[(u32, Marks)], ours: &[(u32, Marks)], segments: &[Segment]) -> Option<String> {
    let frames = |marks: &[(u32, Marks)]| marks.iter().map(|(frame, _)| *frame).collect::<BTreeSet<_>>();
    let apart: Vec<u32> = frames(theirs).symmetric_difference(&frames(ours)).copied().collect();
    assert!(apart.is_empty(), "frames that only one takes for segments: {apart:?}");
    let at = theirs.iter().zip(ours).position(|(a, b)| a != b)?;
    let stream = theirs[at].1.stream;
    let mut text = format!("frame {} of stream {stream}:\n", theirs[at].0);
    differences(&theirs[at].1, &ours[at].1, &mut text);
    let of_stream = |i: &usize| ours[*i].1.stream == stream || theirs[*i].1.stream == stream;
    let before: Vec<usize> = (0..=at).filter(of_stream).collect();
    for i in &before[before.len().saturating_sub(25)..] {
        text.push_str(&shown(&segments[*i], &ours[*i].1, segments[before[0]].at_ns));
    }
    Some(text)
}

fn differences(theirs: &Marks, ours: &Marks, text: &mut String) {
    let mut differ = |what: &str, a: String, b: String| {
        if a != b {
            writeln!(text, "  {what}: tshark {a}, ours {b}").expect("writing into a string");
        }
    };
    for kind in Kind::ALL {
        differ(kind.field(), theirs.kinds.has(*kind).to_string(), ours.kinds.has(*kind).to_string());
    }
    macro_rules! values {
        ($($field:ident)*) => { $(differ(stringify!($field), format!("{:?}", theirs.$field), format!("{:?}", ours.$field));)* };
    }
    values!(stream completeness duplicate_ack acks_frame ack_rtt_ns initial_rtt_ns rto_ns rto_frame bytes_in_flight push_bytes_sent);
}

/// One segment as a line.
fn shown(segment: &Segment, marks: &Marks, begin_ns: i64) -> String {
    let flags: String = [(1, 'F'), (2, 'S'), (4, 'R'), (8, 'P'), (16, 'A'), (32, 'U')]
        .iter()
        .filter(|(bit, _)| segment.has(*bit))
        .map(|(_, letter)| *letter)
        .collect();
    let options = &segment.options;
    let kinds: Vec<&str> = marks.kinds.iter().map(|kind| kind.field().rsplit('.').next().unwrap_or_default()).collect();
    format!(
        "  {:>5} {:>12.6} {}>{} {flags:<3} seq {} ack {} len {:?} win {} mss {:?} ws {:?} sacks {:?} {}\n",
        segment.frame,
        (segment.at_ns - begin_ns) as f64 / 1e6,
        segment.from.port,
        segment.to.port,
        segment.seq,
        segment.ack,
        segment.payload_bytes,
        segment.window,
        options.mss,
        options.window_shift,
        &options.sacks[..usize::from(options.sack_count)],
        kinds.join(" "),
    )
}
