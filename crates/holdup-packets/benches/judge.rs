//! What one segment costs to judge: `cargo bench -p holdup-packets --bench judge [-- PART_OF_A_NAME]`.
//!
//! Segments are made beforehand, in blocks that stay in the cache as those of a reader do; only the judgement is timed, as CPU
//! time of the thread. Each
//! line has the median over the rounds, in ns for a segment.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

use holdup_packets::segment::{ACK, Address, Endpoint, Options, PSH, SYN, Segment};
use holdup_packets::wireshark::{Limits, Table};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

const ROUNDS: usize = 7;
/// Segments per batch.
const BLOCK: usize = 256;

/// An established connection: what each end has sent.
#[derive(Clone, Copy)]
struct Talk {
    next: [u32; 2],
    /// A segment of end 0 that was lost and is yet to be sent again.
    lost: Option<u32>,
    age: u32,
}

struct Load {
    name: &'static str,
    flows: usize,
    segments: usize,
    /// Payload of data segments, bytes.
    payload: u32,
    /// Both ends send payload in turn, or one sends and the other acknowledges every second segment.
    is_talk: bool,
    /// Lost segments in 1,000.
    lost: u32,
}

const LOADS: [Load; 7] = [
    Load { name: "bulk, 1 flow", flows: 1, segments: 2_000_000, payload: 1448, is_talk: false, lost: 0 },
    Load { name: "bulk, 50 flows", flows: 50, segments: 2_000_000, payload: 1448, is_talk: false, lost: 0 },
    Load { name: "bulk, 50 flows, 1 % lost", flows: 50, segments: 2_000_000, payload: 1448, is_talk: false, lost: 10 },
    Load { name: "questions, 1,730 flows", flows: 1730, segments: 2_000_000, payload: 100, is_talk: true, lost: 0 },
    Load { name: "questions, 10,000 flows", flows: 10_000, segments: 2_000_000, payload: 100, is_talk: true, lost: 0 },
    Load {
        name: "questions, 100,000 flows",
        flows: 100_000,
        segments: 2_000_000,
        payload: 100,
        is_talk: true,
        lost: 0,
    },
    Load { name: "the same, 1 % lost", flows: 100_000, segments: 2_000_000, payload: 100, is_talk: true, lost: 10 },
];

fn random(state: &mut u64) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u32
}

/// The next segment of a connection.
fn segment(load: &Load, number: usize, talk: &mut Talk, at_ns: i64, frame: u32, dice: &mut u64) -> Segment {
    let end = |host: u32, port| Endpoint { address: Address::V4(0x0a00_0000 | host), port };
    let ends = [end(2 + number as u32 / 20_000, 20_000 + (number % 20_000) as u16), end(1, 5432)];
    let age = talk.age;
    talk.age += 1;
    let (from, flags, mut length) = match age {
        0 => (0, SYN, 0),
        1 => (1, SYN | ACK, 0),
        2 => (0, ACK, 0),
        _ if load.is_talk => (age as usize % 2, ACK | PSH, load.payload),
        _ => (usize::from(age.is_multiple_of(3)), ACK, if age.is_multiple_of(3) { 0 } else { load.payload }),
    };
    let mut seq = talk.next[from];
    let mut ack = talk.next[1 - from];
    if from == 1
        && let Some(lost) = talk.lost
    {
        ack = lost;
        length = 0;
    }
    if from == 0 && age > 2 {
        match talk.lost {
            Some(lost) if age.is_multiple_of(7) => (seq, talk.lost) = (lost, None),
            None if random(dice) % 1000 < load.lost => {
                talk.lost = Some(seq);
                seq = seq.wrapping_add(length);
                talk.next[0] = seq.wrapping_add(length);
            }
            _ => talk.next[0] = seq.wrapping_add(length),
        }
    } else {
        talk.next[from] = seq.wrapping_add(length + u32::from(flags & SYN != 0));
    }
    let options = Options { timestamps: Some((age, age)), ..Options::default() };
    let options = if flags & SYN != 0 {
        Options { mss: Some(1460), window_shift: Some(7), sack_permitted: true, ..options }
    } else {
        options
    };
    Segment {
        frame,
        at_ns,
        from: ends[from],
        to: ends[1 - from],
        seq,
        ack: if flags & ACK == 0 { 0 } else { ack },
        payload_bytes: Some(length),
        flags,
        window: 501,
        in_error: false,
        is_fragment: false,
        header_bytes: if flags & SYN != 0 { 40 } else { 32 },
        header_captured_bytes: if flags & SYN != 0 { 40 } else { 32 },
        ip_id: Some(0),
        frame_bytes: 66 + length,
        options,
    }
}

/// What this thread has taken of the CPU: what others do on the machine does not count, but for the caches.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// One round: the time of the judgement alone, and how many marks there were.
fn round(load: &Load) -> (Duration, u64) {
    let mut dice = 0x1234_5678_9abc_def1;
    let mut talks: Vec<Talk> =
        (0..load.flows).map(|i| Talk { next: [i as u32 * 77 + 1, i as u32 * 99 + 1], lost: None, age: 0 }).collect();
    let mut table = Table::new(Limits::default());
    let mut block = Vec::with_capacity(BLOCK);
    let (mut spent, mut marks) = (Duration::ZERO, 0);
    let mut frame = 0;
    while (frame as usize) < load.segments {
        block.clear();
        for _ in 0..BLOCK {
            frame += 1;
            let number = random(&mut dice) as usize % load.flows;
            block.push(segment(load, number, &mut talks[number], i64::from(frame) * 5_000, frame, &mut dice));
        }
        let begun = cpu_time();
        for segment in &block {
            marks += u64::from(!black_box(table.judge(segment)).expect("within the limits").kinds.is_empty());
        }
        spent += cpu_time() - begun;
    }
    black_box(table.finish());
    (spent, marks)
}

fn main() {
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    for load in LOADS.iter().filter(|load| only.as_ref().is_none_or(|only| load.name.contains(only))) {
        let mut rounds: Vec<(Duration, u64)> = (0..ROUNDS).map(|_| round(load)).collect();
        rounds.sort();
        let (median, marks) = rounds[ROUNDS / 2];
        let each_ns = median.as_nanos() as f64 / load.segments as f64;
        let marked = marks as f64 * 100.0 / load.segments as f64;
        println!("{:<28} {each_ns:6.1} ns for a segment, {marked:.2} % marked", load.name);
    }
}
