//! Captures as people and machines read them.

#[path = "../../holdup-packets/tests/common/world.rs"]
#[allow(dead_code, unreachable_pub, reason = "each user takes its part")]
mod world;

use holdup_model::captures::{CaptureTrace, Parts, PointKind, TracePoint};
use holdup_packets::compare::{Options, compare, compare_counts};
use holdup_packets::expert;
use holdup_packets::flows::Analysis;
use holdup_packets::kinds::Kind;
use holdup_packets::summary::summarise;
use holdup_report::{TerminalOptions, counts_terminal, packets_html, packets_terminal};
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

#[test]
fn a_page_is_whole_and_holds_nothing_of_a_name_that_acts() {
    let [a, b] = sides();
    let bad = "<script>alert(1)</script>";
    let comparisons = compare(("full.pcap", &a), &[(bad, &b)], &Options::default());
    let summaries = [summarise("full.pcap", &a, Parts::Flow, 3), summarise(bad, &b, Parts::Flow, 3)];
    let point = |at_ns, byte, kind| TracePoint { at_ns, byte, kind };
    let trace = CaptureTrace {
        capture: bad.to_owned(),
        stream: 3,
        from: "10.0.0.1:1".to_owned(),
        to: "10.0.0.2:2".to_owned(),
        points: vec![
            point(0, 1000, PointKind::Data),
            point(i64::MIN, i64::MIN, PointKind::Ack),
            point(9, 1000, PointKind::SentAgain),
            point(i64::MAX, i64::MAX, PointKind::Ack),
        ],
        one_of: 2,
    };
    let empty = CaptureTrace { points: Vec::new(), ..trace.clone() };
    let page = packets_html(&summaries, &comparisons, &[trace, empty]);
    assert!(!page.contains("<script") && !page.contains("NaN") && !page.contains("inf\""), "{page}");
    assert_eq!((page.matches("<svg").count(), page.matches("class=\"again\"").count()), (2, 1));
    assert!(page.contains("One of 2 segments"), "{page}");
    assert_eq!(page.matches("<table>").count(), 5);
}
