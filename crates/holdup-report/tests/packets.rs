//! Captures as people and machines read them.

#[path = "../../holdup-packets/tests/common/world.rs"]
#[allow(dead_code, unreachable_pub, reason = "each user takes its part")]
mod world;

use holdup_model::captures::Parts;
use holdup_packets::compare::{Options, compare, compare_counts};
use holdup_packets::expert;
use holdup_packets::flows::Analysis;
use holdup_packets::kinds::Kind;
use holdup_packets::summary::summarise;
use holdup_report::{TerminalOptions, counts_terminal, packets_terminal};
use world::{World, make};

const FULL: &str = include_str!("../../holdup-packets/tests/fixtures/uperf-lazy-2026/full.txt");
const LAZY: &str = include_str!("../../holdup-packets/tests/fixtures/uperf-lazy-2026/lazy.txt");

fn sides() -> [Analysis; 2] {
    let a = World::new(1)
        .with(Kind::Retransmission, 0.001)
        .with(Kind::DuplicateAck, 0.01)
        .with(Kind::LostSegment, 0.002)
        .with(Kind::WindowFull, 0.003)
        .with(Kind::Syn, 0.000_5);
    let b = World { segments: 1200, ..World::new(2) }
        .with(Kind::Retransmission, 0.01)
        .with(Kind::FastRetransmission, 0.004)
        .with(Kind::DuplicateAck, 0.03)
        .with(Kind::LostSegment, 0.000_5)
        .with(Kind::WindowFull, 0.003)
        .with(Kind::Syn, 0.000_8);
    [make(&a), make(&b)]
}

fn options(width: usize) -> TerminalOptions {
    TerminalOptions { width, color: false }
}

#[test]
fn two_captures_read_well() {
    let [a, b] = sides();
    let comparisons = compare(("full.pcap", &a), &[("lazy.pcap", &b)], &Options::default());
    insta::assert_snapshot!("two_captures_at_100", packets_terminal(&[], &comparisons, &options(100)));
    insta::assert_snapshot!("two_captures_at_80", packets_terminal(&[], &comparisons, &options(80)));
    insta::assert_snapshot!("two_captures_at_120", packets_terminal(&[], &comparisons, &options(120)));
}

#[test]
fn one_capture_reads_well() {
    let [_, b] = sides();
    let by = |parts| packets_terminal(&[summarise("lazy.pcap", &b, parts, 3)], &[], &options(100));
    insta::assert_snapshot!("one_capture", by(Parts::Flow));
    insta::assert_snapshot!("one_capture_by_host", by(Parts::Host));
    insta::assert_snapshot!("one_capture_by_time", by(Parts::Time));
}

#[test]
fn counts_read_well() {
    let [full, lazy] = [FULL, LAZY].map(|text| expert::read(text).expect("counts"));
    let told =
        |traffic| counts_terminal(&compare_counts(("full.txt", &full), ("lazy.txt", &lazy), traffic), &options(100));
    insta::assert_snapshot!("counts_alone", told(None));
    let with_traffic = told(Some((0.25, 1.0)));
    insta::assert_snapshot!("counts_with_traffic", with_traffic);
    // The page shows it.
    let page = include_str!("../../../docs/packets.md");
    for line in with_traffic.lines().filter(|l| l.contains('×')) {
        assert!(page.contains(line), "docs/packets.md lacks: {line}");
    }
}
