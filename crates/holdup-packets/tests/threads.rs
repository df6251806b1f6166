//! Threads change how long an analysis takes, and nothing else.

use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Chain, Frames as _, Reader};
use holdup_packets::made::{Pcap, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint, SYN};
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

/// Gives at most so many bytes at once, and fails after so many in all.
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

fn with_threads() -> Options {
    Options { with_threads: true, ..Options::default() }
}

/// Every frame: its number, time and bytes.
type Seen = Vec<(u32, i64, Vec<u8>)>;

/// What a reader gives, and what it says that is cut.
fn frames(mut reader: Reader<'_>) -> (Seen, Option<(u64, u64)>) {
    let mut seen = Vec::new();
    while let Some(frame) = reader.next().expect("a whole capture") {
        seen.push((frame.number, frame.at_ns, frame.captured.to_vec()));
    }
    (seen, reader.cut().map(|cut| (cut.offset, cut.lost_bytes)))
}

#[test]
fn frames_that_are_read_ahead_are_the_same_however_they_come() {
    let bytes = capture();
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&bytes).expect("memory");
    let packed = packed.finish().expect("memory");
    let expected = frames(Reader::new(Cursor::new(bytes.clone())).expect("a capture"));
    assert_eq!((expected.0.len(), expected.1), (6_120, None));
    for source in [slow(&bytes, usize::MAX), slow(&bytes, 1 << 20), slow(&bytes, 70_001), slow(&packed, 5_000)] {
        let ahead = frames(Reader::ahead(source).expect("a capture"));
        assert!(ahead == expected);
    }
    // A capture that is cut loses the same.
    let half = &bytes[..bytes.len() / 2];
    let expected = frames(Reader::new(Cursor::new(half.to_vec())).expect("a capture"));
    assert!(expected.1.is_some());
    assert!(frames(Reader::ahead(slow(half, 10_000)).expect("a capture")) == expected);
}

#[test]
fn an_analysis_with_threads_counts_the_same() {
    let bytes = capture();
    let alone =
        analyse(&mut Chain::one(Reader::new(Cursor::new(bytes.clone())).expect("a capture")), &Options::default());
    let alone = alone.expect("a whole capture");
    assert_eq!((alone.analysis.frames, alone.analysis.flows.len()), (6_120, 60));
    let mut ahead = Chain::one(Reader::ahead(Cursor::new(bytes)).expect("a capture"));
    assert!(analyse(&mut ahead, &with_threads()).expect("a whole capture") == alone);
}

#[test]
fn a_source_that_fails_says_so_in_every_thread() {
    let bytes = capture();
    let fails = || Slow { fails_after: bytes.len() as u64 / 2, ..slow(&bytes, 4_096) };
    let here =
        analyse(&mut Chain::one(Reader::new(fails()).expect("a capture")), &Options::default()).expect_err("it fails");
    let mut ahead = Chain::one(Reader::ahead(fails()).expect("a capture"));
    let ahead = analyse(&mut ahead, &with_threads()).expect_err("it fails");
    assert_eq!((here.to_string(), ahead.to_string().contains("the disk is gone")), (ahead.to_string(), true));
}

#[test]
fn a_reader_that_is_dropped_early_holds_nobody_up() {
    let mut reader = Reader::ahead(slow(&capture(), 1_000)).expect("a capture");
    assert!(reader.next().expect("a frame").is_some());
}
