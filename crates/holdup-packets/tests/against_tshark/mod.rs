//! Packet by packet, our marks are those of tshark 4.6.
//!
//! Without a tshark of that version the tests say so and check nothing.
//! `HOLDUP_SEED=N` begins with another seed, `HOLDUP_ROUNDS=N` makes more captures, `HOLDUP_KEEP=FILE` keeps the last one.
//! `HOLDUP_CAPTURES=FOLDER` compares captures of others.

use crate::judge;
use crate::{dice, noise, odd, tshark};

mod cases;
mod sessions;

use crate::made::{Pcap, Tcp, link};
use dice::Dice;
use holdup_packets::capture::{Frames, Reader};
use holdup_packets::decode::{self, Decoded, Decoder};
use holdup_packets::kinds::Kind;
use holdup_packets::segment::{ACK, Address, Endpoint, Segment};
use holdup_testkit::ignore;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The time of the first frame, ns since the epoch.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;

/// Two ends with a number of their own, of IPv4 or IPv6, and in either order.
fn ends(number: u32) -> [Endpoint; 2] {
    let address = |host: u32| match number % 5 {
        0 => Address::v6(0x2001_0db8 << 96 | u128::from(host)),
        _ => Address::V4(0x0a00_0000 | host),
    };
    let (a, b) = match number % 3 {
        0 => (address(1), address(2)),
        1 => (address(2), address(1)),
        _ => (address(7), address(7)),
    };
    let port = 10_000 + (number % 20_000) as u16 * 2;
    [Endpoint { address: a, port }, Endpoint { address: b, port: if number.is_multiple_of(2) { port + 1 } else { 9 } }]
}

/// A capture of segments.
fn capture(frames: &[(i64, Tcp)]) -> Vec<u8> {
    let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
    for (at_ns, tcp) in frames {
        pcap.frame(*at_ns, &tcp.frame());
    }
    pcap.into_bytes()
}

/// The segments of what may be a capture, up to where it ends or is damaged.
fn decoded_so_far(capture: &[u8]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let Ok(mut reader) = Reader::new(capture) else { return segments };
    let mut decoder = Decoder::new(decode::Limits::default());
    while let Ok(Some(frame)) = reader.next() {
        if let Decoded::Segment(segment) = decoder.decode(&frame) {
            segments.push(segment);
        }
    }
    segments
}

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Connections laid over each other by time.
fn together(mut frames: Vec<(i64, Tcp)>) -> Vec<(i64, Tcp)> {
    // A connection's own order stays: times of a connection that go backwards are part of the test.
    let mut latest = std::collections::BTreeMap::new();
    let mut keyed: Vec<(i64, usize)> = Vec::new();
    for (i, (at_ns, tcp)) in frames.iter().enumerate() {
        let key = (tcp.from.min(tcp.to), tcp.from.max(tcp.to));
        let order = latest.entry(key).or_insert(*at_ns);
        *order = (*order).max(*at_ns);
        keyed.push((*order, i));
    }
    keyed.sort();
    let mut taken: Vec<Option<(i64, Tcp)>> = frames.drain(..).map(Some).collect();
    keyed.into_iter().map(|(_, i)| taken[i].take().expect("each once")).collect()
}

/// Captures made by dice, as many as are wanted, each compared.
fn rounds(uncounted: &[Kind], make: impl Fn(&mut Dice) -> Vec<u8>) {
    let tshark = judge::tshark();
    let first = number_of("HOLDUP_SEED", 1);
    for seed in first..first + number_of("HOLDUP_ROUNDS", 5) {
        tshark::compare(&tshark, &make(&mut Dice::new(seed)), uncounted, &format!("seed {seed}"));
    }
}

fn noise_is_judged_as_tshark_does() {
    rounds(&[], |dice| {
        let mut frames = Vec::new();
        for number in 0..500 {
            let length = dice.pick(&[5, 20, 60]);
            let begin_ns = BEGIN_NS + i64::from(dice.below(1_000_000_000));
            let made = noise::connection(dice, ends(number), length);
            frames.extend(made.into_iter().map(|(at_ns, tcp)| (begin_ns + at_ns, tcp)));
        }
        capture(&together(frames))
    });
}

fn sessions_with_faults_are_judged_as_tshark_does() {
    rounds(&[], |dice| {
        let mut frames = Vec::new();
        for number in 0..500 {
            let mut begin_ns = BEGIN_NS + i64::from(dice.below(1_000_000_000));
            let mut begins = [0, 0].map(|_: u32| sessions::begin_number(dice));
            let mut ends = ends(number);
            // Some ports are used again: soon or late, by the other end too, with the same numbers too.
            for _ in 0..dice.pick(&[1, 1, 1, 1, 2, 3]) {
                let made = sessions::session(dice, ends, begins);
                let last_ns = made.last().map_or(0, |(at_ns, _)| *at_ns);
                frames.extend(made.into_iter().map(|(at_ns, tcp)| (begin_ns + at_ns, tcp)));
                begin_ns += last_ns + dice.pick(&[-1_000_000, 0, 1_000_000, 5_000_000_000]);
                if dice.chance(70) {
                    begins = begins.map(|_| sessions::begin_number(dice));
                }
                if dice.chance(20) {
                    ends.reverse();
                }
            }
        }
        capture(&together(frames))
    });
}

/// Other people's captures, compared with all protocols of tshark. Frames that only one of the two takes for segments are left
/// out and listed. A damaged file is compared up to the damage.
fn captures_of_others_are_judged_as_tshark_does() {
    let Some(folder) = std::env::var_os("HOLDUP_CAPTURES") else {
        ignore("HOLDUP_CAPTURES names no folder of captures");
    };
    let tshark = judge::tshark();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let (mut of_tcp, mut compared, mut wrong) = (0, 0, String::new());
    for file in &files {
        let capture = std::fs::read(file).expect("a file");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut segments = decoded_so_far(&capture);
        let mut theirs = tshark::marks_with_all_protocols(&tshark, &capture);
        let mine: BTreeSet<u32> = segments.iter().map(|segment| segment.frame).collect();
        let of_tshark: BTreeSet<u32> = theirs.iter().map(|(frame, _)| *frame).collect();
        let both: BTreeSet<u32> = mine.intersection(&of_tshark).copied().collect();
        let apart: Vec<u32> = mine.symmetric_difference(&of_tshark).copied().collect();
        theirs.retain(|(frame, _)| both.contains(frame));
        segments.retain(|segment| both.contains(&segment.frame));
        tshark::number_again(&mut theirs);
        let (ours, _) = tshark::our_marks(&segments);
        println!(
            "{name}: {} segments compared, {} frames apart {:?}",
            both.len(),
            apart.len(),
            &apart[..apart.len().min(5)]
        );
        (of_tcp, compared) = (of_tcp + usize::from(!both.is_empty()), compared + both.len());
        if let Some(text) = tshark::first_difference(&theirs, &ours, &segments) {
            println!("{name}: {text}");
            writeln!(wrong, "{name}").expect("writing into a string");
        }
    }
    println!("{} files, {of_tcp} with TCP, {compared} segments compared", files.len());
    assert!(wrong.is_empty(), "different:\n{wrong}");
}

/// Kinds that tshark counts for each of several options of one header.
const TWICE: [Kind; 3] = [Kind::MssPresent, Kind::SackPermittedPresent, Kind::FastOpenSyn];

fn odd_headers_are_judged_as_tshark_does() {
    rounds(&TWICE, |dice| {
        let mut frames = Vec::new();
        for number in 0..500 {
            let made = noise::connection(dice, ends(number), 20);
            frames.extend(made.into_iter().map(|(at_ns, tcp)| (BEGIN_NS + at_ns, tcp)));
        }
        let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
        for (at_ns, tcp) in together(frames) {
            let (captured, wire_bytes) = odd::frame(dice, &tcp);
            pcap.cut_frame(at_ns, &captured, wire_bytes);
        }
        pcap.into_bytes()
    });
}

/// A connection of which much is unacknowledged: one end sends on, sometimes leaves something out, sends something again with
/// other bounds; the other one acknowledges now and then, with blocks or without.
fn long_list(dice: &mut Dice, ends: [Endpoint; 2], segments: usize, acks_percent: u32) -> Vec<(i64, Tcp)> {
    let base = dice.pick(&[1000, u32::MAX - 200_000, (1 << 31) - 100_000]);
    let (mut next, mut acked, mut at_ns) = (base, base, BEGIN_NS);
    let mut frames = Vec::new();
    for _ in 0..segments {
        at_ns += i64::from(dice.below(3_000_000));
        let open = next.wrapping_sub(acked);
        let mut tcp = Tcp::new(ends[0], ends[1]);
        (tcp.flags, tcp.window, tcp.ack) = (ACK, 65_000, 5000);
        if dice.chance(acks_percent) {
            acked = acked.wrapping_add(dice.below(open / 2 + 1));
            tcp = Tcp { flags: ACK, seq: 5000, ack: acked, ..Tcp::new(ends[1], ends[0]) };
            tcp.options.sack_count = dice.below(3) as u8;
            for block in &mut tcp.options.sacks[..2] {
                let first = acked.wrapping_add(dice.below(open + 1));
                *block = (first, first.wrapping_add(dice.below(3000)));
            }
        } else {
            tcp.payload_bytes = 1 + dice.below(100) as usize;
            match dice.below(20) {
                0 if open > 0 => tcp.seq = acked.wrapping_add(dice.below(open)),
                1 => tcp.seq = next.wrapping_add(dice.below(300)),
                _ => tcp.seq = next,
            }
            let end = tcp.seq.wrapping_add(tcp.payload_bytes as u32);
            next = if (end.wrapping_sub(next) as i32) > 0 { end } else { next };
        }
        frames.push((at_ns, tcp));
    }
    frames
}

fn long_lists_are_judged_as_tshark_does() {
    rounds(&[], |dice| {
        // More than the 10,000 segments that are kept, and lists that shrink and grow.
        let mut frames = long_list(dice, ends(1), 12_000, 0);
        frames.extend(long_list(dice, ends(1), 200, 30));
        for number in 2..12 {
            let acks_percent = dice.pick(&[1, 5, 30]);
            frames.extend(long_list(dice, ends(number), 2000, acks_percent));
        }
        capture(&together(frames))
    });
}

holdup_testkit::tests!(
    noise_is_judged_as_tshark_does,
    sessions_with_faults_are_judged_as_tshark_does,
    captures_of_others_are_judged_as_tshark_does,
    odd_headers_are_judged_as_tshark_does,
    long_lists_are_judged_as_tshark_does,
    cases::small_sessions_have_the_marks_that_tshark_gave,
    cases::tshark_gives_small_sessions_these_marks
);
