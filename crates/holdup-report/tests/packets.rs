//! Captures as people and machines read them.

use crate::common;
use crate::world;
use holdup_model::captures::CaptureRecord;
use holdup_model::captures::{CaptureTrace, Parts, PointKind, TracePoint};
use holdup_model::{BundleData, Collected};
use holdup_packets::analyse::Analysis;
use holdup_packets::compare::{Options, compare, compare_counts};
use holdup_packets::evidence::worst_flows;
use holdup_packets::expert;
use holdup_packets::kinds::Kind;
use holdup_packets::summary::summarise;
use holdup_report::{TerminalOptions, counts_terminal, html, json, markdown, packets_html, packets_terminal, terminal};
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
    TerminalOptions { width, color: false, details: true }
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
    let result =
        |traffic| counts_terminal(&compare_counts(("full.txt", &full), ("lazy.txt", &lazy), traffic), &options(100));
    insta::assert_snapshot!("counts_alone", result(None));
    let with_traffic = result(Some((0.25, 1.0)));
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
        trouble: 1,
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

/// Two connections over time, the second one worse.
fn traces(capture: &str) -> Vec<CaptureTrace> {
    let point = |at_ns, byte, kind| TracePoint { at_ns, byte, kind };
    let trace = |stream, trouble| CaptureTrace {
        capture: capture.to_owned(),
        stream,
        from: format!("10.0.0.1:{}", 40_000 + stream),
        to: "10.0.0.2:5201".to_owned(),
        trouble,
        points: vec![point(0, 1448, PointKind::Data), point(1_000_000, 1448, PointKind::SentAgain)],
        one_of: 1,
    };
    vec![trace(4, 9), trace(2, 12)]
}

/// A bundle as `holdup import pcap` writes it: an arm for each capture.
fn imported(captures: &[(&str, &Analysis)]) -> BundleData {
    let mut bundle = common::demo();
    let comparisons = compare(captures[0], &captures[1..], &Options::default());
    bundle.head.target = "import".to_owned();
    bundle.plan.name = "import".to_owned();
    bundle.plan.question = "What got worse?".to_owned();
    bundle.plan.workloads.truncate(1);
    (bundle.plan.metrics, bundle.metrics) = (Vec::new(), Vec::new());
    bundle.schedule.arms.truncate(captures.len());
    bundle.schedule.trials.truncate(captures.len());
    bundle.trials.truncate(captures.len());
    for (i, (name, analysis)) in captures.iter().enumerate() {
        let (flows, flows_beyond) = worst_flows(&analysis.flows, 5);
        bundle.schedule.arms[i].label = (*name).to_owned();
        let trial = &mut bundle.trials[i];
        (trial.arm, trial.measurements, trial.histograms) = (i as u32, Vec::new(), Vec::new());
        trial.evidence = vec![Collected {
            collector: "capture".to_owned(),
            capture: Some(CaptureRecord {
                capture: Some(summarise(name, analysis, Parts::Flow, 3)),
                comparison: i.checked_sub(1).map(|other| comparisons[other].clone()),
                flows,
                flows_beyond,
                traces: traces(name),
            }),
            ..Collected::default()
        }];
    }
    bundle
}

#[test]
fn an_imported_bundle_says_what_the_captures_say() {
    let [a, b] = sides();
    let bundle = imported(&[("full.pcap", &a), ("lazy.pcap", &b)]);
    let analysis = holdup_analysis::analyse(&bundle);
    let report = terminal(&bundle, &analysis, &options(100));
    let comparisons = compare(("full.pcap", &a), &[("lazy.pcap", &b)], &Options::default());
    let packets = packets_terminal(&[], &comparisons, &options(100));
    let below_the_answer = packets.find("A full.pcap, B lazy.pcap").expect("the tables");
    assert!(report.contains(&packets[below_the_answer..]), "{report}");
    let answer: String = comparisons[0].answer.split_whitespace().collect();
    assert!(report.split_whitespace().collect::<String>().contains(&answer), "{report}");
    let screen = TerminalOptions { width: 80, color: false, details: false };
    let first = terminal(&bundle, &analysis, &screen);
    common::is_one_screen("an imported bundle", &first);
    assert!(
        first.contains("Got worse the most") && first.contains("connections") && first.contains("--details"),
        "{first}"
    );
    insta::assert_snapshot!("imported_at_100", report);
    insta::assert_snapshot!("imported_as_markdown", markdown(&bundle, &analysis));

    let page = html(&bundle, &analysis);
    assert!(page.contains("Imported from 2 captures") && !page.contains("Measured on"), "a host is not invented");
    assert_eq!((page.matches("<svg").count(), page.matches("class=\"again\"").count()), (4, 4));
    assert!(page.contains("full.pcap: #2 10.0.0.1:40002 → 10.0.0.2:5201, 12 marks of trouble"), "{page}");
    assert!(!page.contains("id=\"order\"") && !page.contains("nothing to draw"), "nothing was run");
    let document: serde_json::Value = serde_json::from_str(&json(&bundle, &analysis)).expect("is JSON");
    let kept = &document["trials"][1]["evidence"][0]["capture"];
    assert_eq!((&kept["flows"], &kept["comparison"]["other"]), (&5.into(), &"lazy.pcap".into()));
    assert_eq!(kept["traces"][1]["trouble"], 12);
}

#[test]
fn one_imported_capture_is_reported_and_compared_with_nothing() {
    let [_, b] = sides();
    let bundle = imported(&[("lazy.pcap", &b)]);
    let analysis = holdup_analysis::analyse(&bundle);
    let report = terminal(&bundle, &analysis, &options(100));
    let packets = packets_terminal(&[summarise("lazy.pcap", &b, Parts::Flow, 3)], &[], &options(100));
    assert!(report.contains(&packets) && !report.contains("Nothing was compared"), "{report}");
    assert!(!html(&bundle, &analysis).contains("Nothing was compared"));
}

#[test]
fn what_the_collector_kept_is_drawn_by_arm_and_trial() {
    let mut bundle = common::demo();
    let (seq, arm) = (bundle.trials[3].seq, bundle.trials[3].arm as usize);
    bundle.trials[3].evidence.push(Collected {
        collector: "capture".to_owned(),
        capture: Some(CaptureRecord { traces: traces(""), ..CaptureRecord::default() }),
        ..Collected::default()
    });
    let analysis = holdup_analysis::analyse(&bundle);
    let label = &bundle.schedule.arms[arm].label;
    let worst = format!("{label}, trial {seq}: #2 10.0.0.1:40002 → 10.0.0.2:5201, 12 marks of trouble");
    let next = format!("{label}, trial {seq}: #4 ");
    let page = html(&bundle, &analysis);
    assert!(page.find(&worst).expect("the worst") < page.find(&next).expect("the next"));
    assert_eq!(page.matches("class=\"again\"").count(), 2);
    assert!(page.contains("Measured on") && page.contains("id=\"order\""));
    let report = terminal(&bundle, &analysis, &options(120));
    assert!(report.split_whitespace().collect::<Vec<_>>().join(" ").contains(&worst), "{report}");
    assert!(!terminal(&common::demo(), &analysis, &options(120)).contains("worst connections"));
}

/// The default of `packets` is one screen.
#[test]
fn the_answer_fits_one_screen() {
    let screen = TerminalOptions { details: false, ..options(80) };
    let [a, b] = sides();
    let comparisons = compare(("full.pcap", &a), &[("lazy.pcap", &b)], &Options::default());
    common::is_one_screen("two captures", &packets_terminal(&[], &comparisons, &screen));
    for parts in [Parts::Flow, Parts::Host, Parts::Time] {
        let one = summarise("lazy.pcap", &b, parts, 30);
        common::is_one_screen("one capture", &packets_terminal(std::slice::from_ref(&one), &[], &screen));
        common::is_one_screen("a capture and a comparison", &packets_terminal(&[one], &comparisons, &screen));
    }
    let [full, lazy] = [FULL, LAZY].map(|text| expert::read(text).expect("counts"));
    let counts = compare_counts(("full.txt", &full), ("lazy.txt", &lazy), Some((0.25, 1.0)));
    common::is_one_screen("counts", &counts_terminal(&counts, &screen));
}
