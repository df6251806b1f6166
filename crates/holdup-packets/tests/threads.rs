//! Threads change how long an analysis takes, and nothing else.

use crate::dice;
use crate::made::layers::Ipv4;
use crate::made::{Pcap, PcapNg, Tcp, link};
use crate::noise;
use crate::odd;
use dice::Dice;
use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Block, Chain, Cut, Frame, Frames as _, MOST_FRAMES, Reader};
use holdup_packets::segment::{ACK, Address, Endpoint, SYN};
use holdup_packets::wireshark::Limits;
use std::collections::VecDeque;
use std::io::{Cursor, Read, Write as _};

/// Connections that are interleaved, with frames from 60 bytes to the longest, some of them sent twice.
fn capture() -> Vec<u8> {
    let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
    let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };
    for i in 0..6_000_u32 {
        let client = Endpoint { address: Address::V4(0x0a00_0001), port: 1_000 + (i % 60) as u16 };
        let flags = if i < 60 { SYN } else { ACK };
        let payload_bytes = if i.is_multiple_of(7) { 65_000 } else { (i % 1_400) as usize };
        let segment = Tcp { seq: i * 100, ack: 77, flags, payload_bytes, ..Tcp::new(client, server) };
        let frame = segment.frame();
        for _ in 0..=u32::from(i.is_multiple_of(50)) {
            pcap.frame(i64::from(i) * 10_000, &frame);
        }
    }
    pcap.into_bytes()
}

/// Returns few bytes per read, and fails after a total.
struct Slow {
    bytes: Cursor<Vec<u8>>,
    most: usize,
    fails_after: u64,
}

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes.position() >= self.fails_after {
            return Err(std::io::Error::other("the disk is gone"));
        }
        let most = into.len().min(self.most);
        self.bytes.read(&mut into[..most])
    }
}

fn slow(bytes: &[u8], most: usize) -> Slow {
    Slow { bytes: Cursor::new(bytes.to_vec()), most, fails_after: u64::MAX }
}

fn with(threads: usize) -> Options {
    Options { threads, ..Options::default() }
}

fn chain(source: impl Read + Send + 'static) -> Chain<'static> {
    Chain::one(Reader::new(source).expect("a capture"))
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

/// Every frame: its number, time and bytes.
type Seen = Vec<(u32, i64, Vec<u8>)>;

fn seen(frame: &Frame<'_>) -> (u32, i64, Vec<u8>) {
    (frame.number, frame.at_ns, frame.captured.to_vec())
}

/// What a capture gives frame by frame, and what it says that is cut.
fn frames(mut chain: Chain<'_>) -> (Seen, Vec<(usize, Cut)>) {
    let mut all = Vec::new();
    while let Some(frame) = chain.next().expect("a whole capture") {
        all.push(seen(&frame));
    }
    (all, chain.cuts().to_vec())
}

/// The same in blocks, each followed by a frame by itself.
fn blocks(mut chain: Chain<'_>) -> (Seen, Vec<(usize, Cut)>) {
    let mut all = Vec::new();
    let mut block = Block::default();
    while chain.block(&mut block).expect("a whole capture") {
        assert!(!block.is_empty() && block.len() <= MOST_FRAMES);
        all.extend(block.frames().map(|frame| seen(&frame)));
        all.extend(chain.next().expect("a whole capture").map(|frame| seen(&frame)));
    }
    (all, chain.cuts().to_vec())
}

fn frames_in_blocks_are_the_same_however_they_come() {
    let bytes = capture();
    let (expected, cuts) = frames(chain(Cursor::new(bytes.clone())));
    assert_eq!((expected.len(), cuts), (6_120, Vec::new()));
    let sources = [slow(&bytes, usize::MAX), slow(&bytes, 1 << 20), slow(&bytes, 70_001), slow(&packed(&bytes), 5_000)];
    for source in sources {
        assert!(blocks(chain(source)).0 == expected);
    }
    // A capture that is cut loses the same.
    let half = &bytes[..bytes.len() / 2];
    let expected = frames(chain(Cursor::new(half.to_vec())));
    assert_eq!(expected.1.len(), 1);
    assert!(blocks(chain(slow(half, 10_000))) == expected);
}

fn frames_of_pcapng_in_blocks_are_the_same_with_other_blocks_between_them() {
    let mut capture = PcapNg::new();
    for section in 0..3 {
        if section > 0 {
            capture.section(section == 1);
        }
        let interface = capture.interface(link::RAW);
        for i in 0..5_000_u32 {
            capture.frame(interface, i64::from(i) * 1_000, &i.to_be_bytes().repeat(1 + i as usize % 60));
            if i.is_multiple_of(500) {
                capture.block(4, &[0; 16]);
            }
        }
    }
    let bytes = capture.into_bytes();
    let expected = frames(chain(Cursor::new(bytes.clone())));
    assert_eq!(expected.0.len(), 15_000);
    assert!(blocks(chain(Cursor::new(bytes))) == expected);
}

fn any_number_of_threads_counts_the_same() {
    let bytes = capture();
    for with_own in [false, true] {
        let alone = analyse(&mut chain(Cursor::new(bytes.clone())), &Options { with_own, ..with(1) });
        let alone = alone.expect("a whole capture");
        assert_eq!((alone.analysis.frames, alone.analysis.flows.len()), (6_120, 60));
        for threads in [2, 3, 5, 1_000] {
            let several = analyse(&mut chain(slow(&bytes, 200_000)), &Options { with_own, ..with(threads) });
            assert!(several.expect("a whole capture") == alone, "{threads} threads");
        }
    }
}

/// Segments that no TCP would send, a fifth of them in frames with faults.
fn noise_counts_the_same_with_any_number_of_threads() {
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let mut all = Vec::new();
        for i in 0..60_u16 {
            let address = |host: u16| match i % 3 {
                0 => Address::v6(0x2001_0db8 << 96 | u128::from(host)),
                _ => Address::V4(0x0a00_0000 + u32::from(host)),
            };
            let client = Endpoint { address: address(1 + i % 7), port: 1_000 + i };
            let server = Endpoint { address: address(100), port: 5432 };
            all.extend(noise::connection(&mut dice, [client, server], 150));
        }
        all.sort_by_key(|(at_ns, _)| *at_ns);
        let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
        for (at_ns, tcp) in &all {
            let (frame, wire_bytes) = match dice.chance(20) {
                true => odd::frame(&mut dice, tcp),
                false => (tcp.frame(), 0),
            };
            pcap.cut_frame(*at_ns, &frame, wire_bytes.max(frame.len() as u32));
        }
        let bytes = pcap.into_bytes();
        let of = |threads| {
            let options = Options { with_own: true, ..with(threads) };
            analyse(&mut chain(Cursor::new(bytes.clone())), &options).expect("a whole capture")
        };
        let one = of(1);
        assert!(one.analysis.segments > 8_000 && one.others.malformed + one.others.cut > 0, "{:?}", one.others);
        for threads in [2, 3] {
            assert!(of(threads) == one, "seed {seed}, {threads} threads");
        }
    }
}

/// With more connections than are kept, those that began first are.
fn limits_hold_for_all_threads_together() {
    let mut pcap = Pcap::new(link::ETHERNET);
    let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };
    for i in 0..90_000_u32 {
        let client = Endpoint { address: Address::V4(0x0a00_0003 + i % 45_000), port: 1_000 };
        let segment = Tcp { seq: i, flags: ACK, payload_bytes: 10, ..Tcp::new(client, server) };
        pcap.frame(i64::from(i) * 10_000, &segment.frame());
    }
    let bytes = pcap.into_bytes();
    for flows in [1, 10, 32_000, 40_000, 44_999, 100_000] {
        let limits = Limits { flows, ..Limits::default() };
        let of = |threads| analyse(&mut chain(Cursor::new(bytes.clone())), &Options { limits, ..with(threads) });
        let (one, several) = (of(1).expect("a whole capture"), of(3).expect("a whole capture"));
        assert_eq!(one.analysis.flows.len(), flows.min(45_000) as usize);
        assert_eq!(one.analysis.given_up.segments_beyond_flows > 0, flows < 45_000);
        assert!(one == several, "{flows}");
    }
}

/// Datagrams in fragments that are blocks apart, and some that never come together.
fn fragments_come_together_over_blocks() {
    let mut pcap = Pcap::new(link::RAW);
    let client = Endpoint { address: Address::V4(0x0a00_0001), port: 1_000 };
    let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };
    let mut late = VecDeque::new();
    for i in 0..20_000_u32 {
        let client = Endpoint { port: client.port + (i % 50) as u16, ..client };
        let segment = Tcp { seq: i * 100, flags: ACK, payload_bytes: 100, ..Tcp::new(client, server) };
        if i.is_multiple_of(10) {
            let header = Ipv4 { id: i as u16, ..Ipv4::new(0x0a00_0001, 0x0a00_0002, 6) };
            let mut parts = header.fragments(&segment.segment(), 80).into_iter();
            parts.next().into_iter().for_each(|first| pcap.frame(i64::from(i) * 1_000, &first));
            late.extend(parts);
        } else {
            pcap.frame(i64::from(i) * 1_000, &segment.packet());
        }
        if late.len() > 1_000
            && let Some(second) = late.pop_front()
        {
            pcap.frame(i64::from(i) * 1_000 + 1, &second);
        }
    }
    let bytes = pcap.into_bytes();
    let of = |threads| analyse(&mut chain(Cursor::new(bytes.clone())), &with(threads)).expect("a whole capture");
    let one = of(1);
    // The last thousand wait for their other part still.
    assert_eq!((one.analysis.segments, one.others.fragments), (19_000, 2_000));
    for threads in [2, 4] {
        assert!(of(threads) == one, "{threads}");
    }
}

fn a_source_that_fails_says_so_in_every_thread() {
    let bytes = capture();
    let fails = || Slow { fails_after: bytes.len() as u64 / 2, ..slow(&bytes, 4_096) };
    let of = |threads| analyse(&mut chain(fails()), &with(threads)).expect_err("it fails").to_string();
    assert!(of(1).contains("the disk is gone"));
    assert_eq!(of(1), of(2));
}

holdup_testkit::tests!(
    frames_in_blocks_are_the_same_however_they_come,
    frames_of_pcapng_in_blocks_are_the_same_with_other_blocks_between_them,
    any_number_of_threads_counts_the_same,
    noise_counts_the_same_with_any_number_of_threads,
    limits_hold_for_all_threads_together,
    fragments_come_together_over_blocks,
    a_source_that_fails_says_so_in_every_thread
);
