//! What it costs to go over the frames of a capture in memory, and to make segments of them:
//! `cargo bench -p holdup-packets --bench read`. Medians over the rounds; the capture is larger than any cache, and is copied
//! into the reader's buffer as a file would be, which `copy alone` measures.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

#[path = "../tests/made/mod.rs"]
mod made;

use crate::made::layers::{self, Ipv4};
use crate::made::{Pcap, PcapNg, Tcp, link};
use holdup_packets::capture::{BUFFER_BYTES, Frames, Reader};
use holdup_packets::decode::{Decoded, Decoder, Limits};
use holdup_packets::segment::{ACK, Address, Endpoint, Options, PSH};
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

const ROUNDS: usize = 9;
/// About how large a capture is made.
const BYTES: usize = 256 << 20;
/// Where small frames are cut, as `tcpdump -s 96` does.
const CUT: usize = 96;

struct Made {
    name: &'static str,
    bytes: Vec<u8>,
}

/// Frames of a bulk transfer, 250 flows in turn: data of a size with timestamps, every third an acknowledgement, some with a
/// block of SACK.
fn frames(payload_bytes: usize, is_v6: bool) -> Vec<Vec<u8>> {
    let address = |low: u32| if is_v6 { Address::v6(u128::from(low)) } else { Address::V4(0x0a00_0000 | low) };
    (0..1000)
        .map(|i: u32| {
            let client = Endpoint { address: address(1 + i % 250), port: 40_000 + (i % 250) as u16 };
            let server = Endpoint { address: address(1), port: 5432 };
            let is_ack = i % 3 == 2;
            let mut options = Options { timestamps: Some((i, i)), ..Options::default() };
            if is_ack && i % 9 == 2 {
                (options.sack_count, options.sacks[0]) = (1, (i, i + 1448));
            }
            let (from, to) = if is_ack { (server, client) } else { (client, server) };
            let payload_bytes = if is_ack { 0 } else { payload_bytes };
            Tcp { seq: i * 1448, ack: i, flags: ACK | PSH, options, payload_bytes, ..Tcp::new(from, to) }.frame()
        })
        .collect()
}

fn pcap(frames: &[Vec<u8>], cut: usize) -> Vec<u8> {
    let mut made = Pcap::new(link::ETHERNET);
    let (mut length, mut at_ns) = (0, 0);
    for frame in frames.iter().cycle() {
        if length > BYTES {
            break;
        }
        made.cut_frame(at_ns, &frame[..frame.len().min(cut)], frame.len() as u32);
        length += 16 + frame.len().min(cut);
        at_ns += 1000;
    }
    made.into_bytes()
}

fn pcapng(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut made = PcapNg::new();
    let interface = made.interface_with(link::ETHERNET, 0, Some(9), None);
    let (mut length, mut at_ns) = (0, 0);
    for frame in frames.iter().cycle() {
        if length > BYTES {
            break;
        }
        made.frame(interface, at_ns, frame);
        length += 32 + frame.len();
        at_ns += 1000;
    }
    made.into_bytes()
}

fn made() -> Vec<Made> {
    let (large, small, v6) = (frames(1448, false), frames(64, false), frames(64, true));
    let vxlan: Vec<Vec<u8>> = small
        .iter()
        .map(|frame| {
            let udp = layers::udp(50_000, 4789, &layers::vxlan(7, frame));
            layers::ethernet(layers::ETHER_IPV4, &Ipv4::new(1, 2, layers::UDP).around(&udp))
        })
        .collect();
    let all = usize::MAX;
    vec![
        Made { name: "pcap, full frames", bytes: pcap(&large, all) },
        Made { name: "pcap, cut to 96 bytes", bytes: pcap(&large, CUT) },
        Made { name: "pcap, small frames", bytes: pcap(&small, all) },
        Made { name: "pcap, small frames, IPv6", bytes: pcap(&v6, all) },
        Made { name: "pcap, small frames, VXLAN", bytes: pcap(&vxlan, all) },
        Made { name: "pcapng, small frames", bytes: pcapng(&small) },
    ]
}

/// Copies a capture through a buffer as large as the reader's.
fn copy(bytes: &[u8]) -> u64 {
    let (mut source, mut buffer, mut read) = (bytes, vec![0; BUFFER_BYTES], 0);
    loop {
        match black_box(source.read(&mut buffer)).unwrap_or(0) {
            0 => return read,
            n => read += n as u64 + u64::from(black_box(&buffer)[0]),
        }
    }
}

/// Goes over the frames; how many there are.
fn walk(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes).expect("a capture");
    let mut frames = 0;
    while let Some(frame) = reader.next().expect("a frame") {
        black_box(frame.at_ns);
        frames += 1;
    }
    frames
}

/// Makes segments of the frames; how many there are.
fn decode(bytes: &[u8]) -> u64 {
    let mut reader = Reader::new(bytes).expect("a capture");
    let mut decoder = Decoder::new(Limits::default());
    let mut segments = 0;
    while let Some(frame) = reader.next().expect("a frame") {
        if let Decoded::Segment(ref segment) = decoder.decode(&frame) {
            black_box(segment);
            segments += 1;
        }
    }
    segments
}

/// The median time of a pass, s.
fn median(pass: impl Fn() -> u64) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            black_box(pass());
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn main() {
    for Made { name, bytes } in made() {
        let frames = walk(&bytes) as f64;
        assert_eq!(frames as u64, decode(&bytes), "{name}: each frame has a segment");
        let (copied, walked, decoded) = (median(|| copy(&bytes)), median(|| walk(&bytes)), median(|| decode(&bytes)));
        let ns = |s: f64| s * 1e9 / frames;
        println!(
            "{name:26} copy alone {:5.1} ns/frame, walk {:5.1}, walk and decode {:5.1} ({:.1} million frames/s, {:.2} GB/s)",
            ns(copied),
            ns(walked),
            ns(decoded),
            frames / decoded / 1e6,
            bytes.len() as f64 / decoded / 1e9
        );
    }
}
