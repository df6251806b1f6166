//! Capture files are read as they were built: truncated ones end early, damage is reported with its offset, no bytes cause a
//! panic.

use crate::made::{Pcap, PcapNg, Tcp, link};
use holdup_packets::analyse::{Options, analyse};
use holdup_packets::capture::{Chain, Cut, Frames, Link, Reader};
use holdup_packets::decode::{Decoder, Limits};
use holdup_packets::segment::{ACK, Address, Endpoint};
use proptest::prelude::*;
use std::io::{Read, Write};

const AT_NS: i64 = 1_700_000_000_123_456_789;

fn tcp(payload_bytes: usize) -> Vec<u8> {
    let end = |address, port| Endpoint { address: Address::V4(address), port };
    Tcp { flags: ACK, payload_bytes, ..Tcp::new(end(1, 2), end(3, 4)) }.frame()
}

/// What was read of a frame: its number, time, interface and length on the wire, and how much of it was captured.
type Row = (u32, i64, u32, u32, usize);

/// All frames until the end or an error, and where it was cut.
fn read(bytes: &[u8]) -> (Vec<Row>, Option<Cut>, Option<String>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(problem) => return (Vec::new(), None, Some(problem.to_string())),
    };
    let (rows, problem) = drain(&mut reader);
    (rows, reader.cut(), problem)
}

fn drain(frames: &mut impl Frames) -> (Vec<Row>, Option<String>) {
    let mut rows = Vec::new();
    loop {
        match frames.next() {
            Ok(Some(f)) => rows.push((f.number, f.at_ns, f.interface, f.wire_bytes, f.captured.len())),
            Ok(None) => return (rows, None),
            Err(problem) => return (rows, Some(problem.to_string())),
        }
    }
}

fn pcaps() -> Vec<Pcap> {
    let plain = || Pcap::new(link::ETHERNET);
    vec![plain(), plain().big_endian(), plain().with_nanoseconds(), plain().big_endian().with_nanoseconds()]
}

fn pcap_in_each_order_and_unit() {
    for (i, mut made) in pcaps().into_iter().enumerate() {
        made.frame(AT_NS, &tcp(10));
        made.cut_frame(AT_NS + 5_000, &tcp(10)[..60], 9000);
        let unit_ns = if i < 2 { 1000 } else { 1 };
        let at_ns = AT_NS / unit_ns * unit_ns;
        let expect = vec![(1, at_ns, 0, 64, 64), (2, at_ns + 5_000, 0, 9000, 60)];
        assert_eq!(read(&made.into_bytes()), (expect, None, None), "{i}");
    }
}

fn pcap_with_an_interface_for_each_frame() {
    let mut made = Pcap::new(link::ETHERNET);
    made.frame(AT_NS, &tcp(0));
    let mut bytes = made.into_bytes();
    bytes[..4].copy_from_slice(&0xa1b2_cd34_u32.to_le_bytes());
    bytes.splice(40..40, [0; 8]);
    assert_eq!(read(&bytes), (vec![(1, AT_NS / 1000 * 1000, 0, 54, 54)], None, None));
}

fn the_highest_bits_of_a_link_layer_are_of_its_checksum() {
    let mut bytes = Pcap::new(link::LINUX_SLL | 0x2400_0000).into_bytes();
    bytes.extend([0; 16]);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().link, Link::CookedV1);
}

fn pcapng_with_sections_interfaces_and_all_kinds_of_frames() {
    let mut made = PcapNg::new();
    made.interface(link::ETHERNET);
    made.interface_with(link::RAW, 60, Some(9), Some(-3600));
    made.frame(0, AT_NS, &tcp(1));
    // Name resolution, statistics, secrets, custom, systemd, unknown; the first longer than the buffer.
    made.block(4, &vec![7; 1 << 20]);
    for kind in [5, 10, 0xbad, 9, 0x7777] {
        made.block(kind, &[1; 9]);
    }
    made.cut_frame(1, AT_NS, &tcp(20)[..60], 74, &[1, 0, 3, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0]);
    made.old_frame(0, AT_NS, &tcp(2));
    made.simple_frame(&tcp(3), 57);
    made.section(true);
    made.interface_with(link::ETHERNET, 0, Some(0x80 | 20), None);
    made.interface_with(link::ETHERNET, 0, Some(12), None);
    made.interface_with(link::ETHERNET, 0, Some(3), Some(1_000_000_000));
    for interface in 0..3 {
        made.frame(interface, AT_NS / 1_000_000_000 * 1_000_000_000 + 500_000_000, &tcp(0));
    }
    made.old_frame(2, AT_NS / 1_000_000_000 * 1_000_000_000, &tcp(0));
    made.simple_frame(&tcp(3), 57);
    let us = AT_NS / 1000 * 1000;
    let s = AT_NS / 1_000_000_000 * 1_000_000_000;
    let expect = vec![
        (1, us, 0, 55, 55),
        (2, AT_NS, 1, 74, 60),
        (3, us, 0, 56, 56),
        (4, 0, 0, 57, 57),
        (5, s + 500_000_000, 2, 54, 54),
        // 64 bits of picoseconds end in July 1970, and the block holds what is left of the time.
        (6, ((i128::from(s + 500_000_000) * 1000) as u64 / 1000) as i64, 3, 54, 54),
        (7, s + 500_000_000, 4, 54, 54),
        (8, s, 4, 54, 54),
        (9, 0, 2, 57, 57),
    ];
    assert_eq!(read(&made.into_bytes()), (expect, None, None));
}

fn times_beyond_all_calendars_can_be_subtracted() {
    let mut pcapng = PcapNg::new();
    pcapng.section(false);
    for offset_s in [i64::MIN, i64::MAX] {
        let interface = pcapng.interface_with(link::ETHERNET, 0, Some(9), Some(offset_s));
        // The same bytes twice: the time since the first transmission.
        pcapng.frame(interface, 0, &tcp(100));
    }
    let bytes = pcapng.into_bytes();
    let mut reader = Reader::new(&bytes[..]).expect("a capture");
    let mut times = Vec::new();
    while let Some(frame) = reader.next().expect("a whole capture") {
        times.push(frame.at_ns);
    }
    assert_eq!(times.len(), 2);
    assert!(times[1].checked_sub(times[0]).is_some_and(|apart| apart > 0), "{times:?}");
    let mut chain = Chain::one(Reader::new(&bytes[..]).expect("a capture"));
    let analysed = analyse(&mut chain, &Options { with_own: true, ..Options::default() }).expect("a whole capture");
    assert_eq!(analysed.analysis.segments, 2);
}

fn a_cut_capture_keeps_what_was_whole() {
    let mut pcap = Pcap::new(link::ETHERNET);
    let mut pcapng = PcapNg::new();
    pcapng.interface(link::ETHERNET);
    for i in 0..3 {
        pcap.frame(i, &tcp(100));
        pcapng.frame(0, i, &tcp(100));
    }
    for (bytes, head, each) in [(pcap.into_bytes(), 24, 16 + 154), (pcapng.into_bytes(), 28 + 20, 28 + 156 + 4)] {
        assert_eq!(bytes.len(), head + 3 * each);
        for length in head..=bytes.len() {
            let (frames, cut, problem) = read(&bytes[..length]);
            let whole = (length - head) / each;
            let offset = head + whole * each;
            let expect = (length > offset).then(|| Cut { offset: offset as u64, lost_bytes: (length - offset) as u64 });
            assert_eq!((frames.len(), cut, problem), (whole, expect, None), "at {length}");
        }
    }
}

fn damage_is_reported_with_its_offset() {
    let mut pcap = Pcap::new(link::ETHERNET);
    let mut pcapng = PcapNg::new();
    pcapng.interface(link::ETHERNET);
    for i in 0..3 {
        pcap.frame(i, &tcp(0));
        pcapng.frame(0, i, &tcp(0));
    }
    let (pcap, pcapng) = (pcap.into_bytes(), pcapng.into_bytes());
    let second = 48 + 28 + 56 + 4;
    let cases: [(&[u8], usize, u32, usize, &str); 8] = [
        (&pcap, 24 + 70 + 8, 300_000, 1, "offset 94: a frame of 300000 bytes"),
        (&pcapng, second + 4, 13, 1, "offset 136: a block of 13 bytes"),
        (&pcapng, second + 4, 8, 1, "offset 136: a block of 8 bytes"),
        (&pcapng, second + 4, 84, 1, "offset 136: a block of 84 bytes that ends with the length"),
        (&pcapng, second + 4, 0x7fff_fff0, 1, "offset 136: a block of 2147483632 bytes, more than"),
        (&pcapng, second + 8, 3, 1, "offset 136: a frame of interface 3"),
        (&pcapng, second + 20, 57, 1, "offset 136: a frame of 57 bytes in a block that has room for 56"),
        (&pcapng, 8, 0x1234_5678, 0, "offset 0: a section without a byte-order magic"),
    ];
    for (bytes, at, value, frames, expect) in cases {
        let mut bytes = bytes.to_vec();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let (rows, _, problem) = read(&bytes);
        let problem = problem.unwrap_or_default();
        assert!(
            rows.len() == frames && problem.contains(expect) && problem.contains("\nhint: "),
            "{expect}: {problem}"
        );
    }
    for (bytes, expect) in [
        (&b""[..], "it is empty"),
        (b"abc", "it is empty, or shorter"),
        (b"hello there", "it begins with 68 65 6c 6c"),
        (&pcap[..20], "the file header is incomplete"),
        (b"BZh91AY&SY", "compressed with bzip2"),
    ] {
        let problem = read(bytes).2.unwrap_or_default();
        assert!(problem.contains(expect) && problem.contains("\nhint: "), "{expect}: {problem}");
    }
}

fn after_an_error_there_is_no_frame() {
    let mut made = Pcap::new(link::ETHERNET);
    made.frame(0, &tcp(0));
    let mut bytes = made.into_bytes();
    bytes[32..36].fill(0xff);
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert!(reader.next().is_err());
    assert_eq!(reader.next(), Ok(None));

    // Skipped blocks are checked at their end, and a complete frame follows.
    let mut made = PcapNg::new();
    made.interface(link::ETHERNET);
    made.block(5, &[0; 8]);
    made.frame(0, 0, &tcp(0));
    let mut bytes = made.into_bytes();
    bytes[28 + 20 + 16] ^= 4;
    let mut reader = Reader::new(&bytes[..]).unwrap();
    assert!(reader.next().is_err());
    assert_eq!(reader.next(), Ok(None));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).expect("memory can be written");
    writer.finish().expect("memory can be written")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn packed_captures_are_read_whole_in_parts_and_cut() {
    let mut made = Pcap::new(link::ETHERNET);
    for i in 0..5000 {
        made.frame(i * 1000, &tcp(i as usize % 1400));
    }
    let bytes = made.into_bytes();
    let whole = read(&bytes);
    assert_eq!(whole.0.len(), 5000);
    let (head, tail) = bytes.split_at(300_000);
    let skippable = [&[0x52, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], &[1, 2, 3]].concat();
    for (name, packed) in [
        ("gzip", gzip(&bytes)),
        ("gzip of two members", [gzip(head), gzip(tail)].concat()),
        ("zstd", zstd(&bytes)),
        ("zstd of two frames, one to be skipped", [skippable, zstd(head), zstd(tail)].concat()),
    ] {
        assert!(packed.len() < bytes.len());
        assert_eq!(read(&packed), whole, "{name}");
        for length in [1, 10, 100, 1000, 5000, 20_000, 100_000].map(|cut| packed.len().saturating_sub(cut)) {
            let (frames, cut, problem) = read(&packed[..length]);
            // A header that is cut is no capture yet.
            if problem.as_ref().is_some_and(|problem| problem.contains("not whole") || problem.contains("is empty")) {
                continue;
            }
            assert!(cut.is_some() && problem.is_none(), "{name} cut at {length}: {cut:?}, {problem:?}");
            assert_eq!(frames, whole.0[..frames.len()], "{name} cut at {length}");
        }
    }
    let mut wrong = gzip(&bytes);
    let middle = wrong.len() / 2;
    wrong[middle..middle + 8].fill(0xff);
    assert!(read(&wrong).2.is_some(), "damaged gzip");
}

fn a_chain_counts_on() {
    let file = |frames: i64, is_pcapng: bool, cut: usize| {
        let mut pcapng = PcapNg::new();
        let mut pcap = Pcap::new(link::ETHERNET);
        let (_, second) = (pcapng.interface(link::ETHERNET), pcapng.interface(link::ETHERNET));
        for i in 0..frames {
            pcapng.frame(second, i * 1000, &tcp(0));
            pcap.frame(i * 1000, &tcp(0));
        }
        let bytes = if is_pcapng { pcapng.into_bytes() } else { pcap.into_bytes() };
        bytes[..bytes.len() - cut].to_vec()
    };
    let files = [file(2, true, 0), file(0, false, 0), file(2, false, 3), file(1, true, 0)];
    let mut chain = Chain::new(files.iter().map(|bytes| Reader::new(&bytes[..])));
    let (rows, problem) = drain(&mut chain);
    let numbers: Vec<(u32, u32)> = rows.iter().map(|frame| (frame.0, frame.2)).collect();
    assert_eq!((numbers, problem), (vec![(1, 1), (2, 1), (3, 3), (4, 5)], None));
    assert_eq!(chain.cuts(), [(2, Cut { offset: 24 + 70, lost_bytes: 67 })]);

    let mut broken = file(2, false, 0);
    broken[94 + 8..94 + 12].fill(0xff);
    let files = [broken, file(1, false, 0)];
    let mut chain = Chain::new(files.iter().map(|bytes| Reader::new(&bytes[..])));
    assert!(drain(&mut chain).1.is_some());
    assert_eq!(drain(&mut chain), (vec![(2, 0, 1, 54, 54)], None), "the next file is read after a damaged one");
}

fn frames_longer_than_the_buffer_and_short_reads() {
    struct Drops<R>(R);
    impl<R: Read> Read for Drops<R> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let most = into.len().min(7);
            self.0.read(&mut into[..most])
        }
    }
    let mut made = PcapNg::new();
    made.interface_with(link::RAW, 1 << 20, None, None);
    for i in 0..3 {
        made.frame(0, i * 1000, &vec![1; 500_000]);
    }
    let bytes = made.into_bytes();
    let rows = drain(&mut Reader::new(Drops(&bytes[..])).unwrap());
    let expect = (0..3).map(|i| (i + 1, i64::from(i) * 1000, 0, 500_000, 500_000)).collect();
    assert_eq!(rows, (expect, None));
}

/// Reads and decodes all there is; returns how many frames there were.
fn go_through(bytes: &[u8]) -> usize {
    let Ok(mut reader) = Reader::new(bytes) else { return 0 };
    let mut decoder = Decoder::new(Limits { datagrams: 4, fragments: 4, age_frames: 10 });
    let mut frames = 0;
    while let Ok(Some(frame)) = reader.next() {
        assert!(frame.captured.len() <= bytes.len().max(1 << 24));
        let _ = decoder.decode(&frame);
        frames += 1;
    }
    frames
}

fn seeds() -> Vec<Vec<u8>> {
    let mut pcapng = PcapNg::new();
    for number in [link::ETHERNET, link::RAW, link::LINUX_SLL, link::NULL] {
        pcapng.interface_with(number, 0, Some(9), Some(5));
        for _ in 0..4 {
            pcapng.frame(pcapng_interface(number), 0, &tcp(40));
        }
    }
    let mut pcap = Pcap::new(link::ETHERNET);
    for i in 0..10 {
        pcap.frame(i, &tcp(i as usize));
    }
    let pcap = pcap.into_bytes();
    vec![pcapng.into_bytes(), gzip(&pcap), zstd(&pcap), pcap]
}

/// The interface that [`seeds`] describes for a link layer.
fn pcapng_interface(number: u32) -> u32 {
    [link::ETHERNET, link::RAW, link::LINUX_SLL, link::NULL].iter().position(|n| *n == number).unwrap_or(0) as u32
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    fn any_bytes_are_frames_or_a_problem(magic in 0..8_usize, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let magics: [&[u8]; 8] = [
            &[0xd4, 0xc3, 0xb2, 0xa1], &[0xa1, 0xb2, 0x3c, 0x4d], &[0x34, 0xcd, 0xb2, 0xa1],
            &[10, 13, 13, 10, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a], &[10, 13, 13, 10, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d],
            &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], &[],
        ];
        go_through(&[magics[magic], &bytes].concat());
    }

    fn changed_captures_are_frames_or_a_problem(
        seed in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = seeds().swap_remove(seed);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        go_through(&bytes);
    }
}

fn the_seeds_are_read() {
    for (i, seed) in seeds().iter().enumerate() {
        assert!(go_through(seed) >= 10, "{i}");
    }
}

holdup_testkit::tests!(
    pcap_in_each_order_and_unit,
    pcap_with_an_interface_for_each_frame,
    the_highest_bits_of_a_link_layer_are_of_its_checksum,
    pcapng_with_sections_interfaces_and_all_kinds_of_frames,
    times_beyond_all_calendars_can_be_subtracted,
    a_cut_capture_keeps_what_was_whole,
    damage_is_reported_with_its_offset,
    after_an_error_there_is_no_frame,
    packed_captures_are_read_whole_in_parts_and_cut,
    a_chain_counts_on,
    frames_longer_than_the_buffer_and_short_reads,
    any_bytes_are_frames_or_a_problem,
    changed_captures_are_frames_or_a_problem,
    the_seeds_are_read
);
