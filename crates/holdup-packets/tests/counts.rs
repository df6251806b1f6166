//! Counts without totals: the table that this crate began with.

use holdup_model::captures::{CountRow, CountsComparison, CountsSay};
use holdup_model::outcome::FindingVerdict;
use holdup_packets::compare::compare_counts;
use holdup_packets::expert::{Expert, is_expert, read};
use holdup_packets::kinds::Kind;
use proptest::prelude::*;

// Counts of Wireshark's expert information for 50 streams of uperf over Open vSwitch, with preemption full and lazy
// (linux-s390 and LKML, 25 February 2026, "sched: Further restrict the preemption modes"), as tshark would print them.
const FULL: &str = include_str!("fixtures/uperf-lazy-2026/full.txt");
const LAZY: &str = include_str!("fixtures/uperf-lazy-2026/lazy.txt");

fn seed(traffic: Option<(f64, f64)>) -> CountsComparison {
    let [full, lazy] = [FULL, LAZY].map(|text| read(text).expect("counts"));
    compare_counts(("full", &full), ("lazy", &lazy), traffic)
}

#[track_caller]
fn row(comparison: &CountsComparison, kind: Kind) -> &CountRow {
    comparison.rows.iter().find(|r| r.mark.field == kind.field()).expect("the row is there")
}

fn the_table_of_the_virtual_switch_is_read() {
    assert!(is_expert(FULL) && is_expert(LAZY));
    let comparison = seed(None);
    for (kind, full, lazy) in [
        (Kind::DuplicateSack, 309, 2603),
        (Kind::PartialAck, 54, 279),
        (Kind::AmbiguousAck, 32, 747),
        (Kind::SpuriousRetransmission, 205, 857),
        (Kind::FastRetransmission, 54, 1622),
        (Kind::DuplicateAck, 504, 3446),
        (Kind::MssExceeded, 13_172, 34_790),
        (Kind::LostSegment, 9205, 6730),
        (Kind::AckLostSegment, 7022, 8272),
        (Kind::OutOfOrder, 436, 303),
    ] {
        let found = row(&comparison, kind);
        assert_eq!((found.baseline, found.other), (full, lazy), "{kind:?}");
    }
    assert_eq!(comparison.rows.len(), 10);
}

fn without_totals_nothing_is_decided() {
    let comparison = seed(None);
    assert_eq!(comparison.verdict, FindingVerdict::Undecided);
    assert!(comparison.rows.iter().all(|r| r.says == CountsSay::Depends && r.ratio_of_rates.is_none()));
    assert!(
        comparison.answer.contains("Fast retransmission has a higher rate unless lazy carried more than ×30.0"),
        "{}",
        comparison.answer
    );
}

fn with_a_quarter_to_all_of_the_traffic_trouble_is_worse_and_the_capture_is_not_said_to_be() {
    let comparison = seed(Some((0.25, 1.0)));
    assert_eq!(comparison.verdict, FindingVerdict::Supported);
    for kind in [
        Kind::DuplicateSack,
        Kind::PartialAck,
        Kind::AmbiguousAck,
        Kind::SpuriousRetransmission,
        Kind::FastRetransmission,
        Kind::DuplicateAck,
    ] {
        assert_eq!(row(&comparison, kind).says, CountsSay::Higher, "{kind:?}");
    }
    for kind in [Kind::LostSegment, Kind::OutOfOrder] {
        assert_eq!(row(&comparison, kind).says, CountsSay::Depends, "{kind:?}");
    }
    let fast = row(&comparison, Kind::FastRetransmission);
    let (low, high) = fast.ratio_of_rates.expect("rates");
    assert!((low - 30.04).abs() < 0.01 && (high - 120.15).abs() < 0.01, "{low} {high}");
    // By hand, with a tenth of 5 % for each of ten rows (z = 2.807): (ln 30.04 / 2.807)² / (1/54 + 1/1622) = 76.8.
    assert!((fast.bunches_of_at_most.expect("bunches") - 76.8).abs() < 0.1, "{fast:?}");
    assert!(comparison.answer.contains("fast retransmission (×30.0 to ×120)"), "{}", comparison.answer);
    assert!(comparison.notes[0].contains("previous segment(s) not captured"), "{:?}", comparison.notes);
}

fn with_as_much_more_traffic_as_counts_nothing_is_worse() {
    let comparison = seed(Some((31.0, 32.0)));
    assert_eq!(comparison.verdict, FindingVerdict::Undecided);
    assert_eq!(row(&comparison, Kind::OutOfOrder).says, CountsSay::Lower);
}

fn what_one_side_lacks_is_worse_when_it_is_many() {
    let text = |n: u64| {
        format!("   Frequency      Group           Protocol  Summary\n{n:12}   Sequence  TCP  Duplicate ACK (#1)\n")
    };
    let none = read("   Frequency      Group           Protocol  Summary\n").expect("counts");
    let compare = |n: u64| {
        let some = read(&text(n)).expect("counts");
        compare_counts(("a", &none), ("b", &some), Some((1.0, 1.0))).rows[0].clone()
    };
    // 2 · 2⁻⁵ is above 5 %, 2 · 2⁻⁶ is not.
    assert_eq!(compare(5).says, CountsSay::Depends);
    assert_eq!(compare(6).says, CountsSay::Higher);
    assert_eq!(compare(6).ratio_of_counts, None);
}

fn malformed_lists_are_refused_with_the_line() {
    let reason = |text: &str| read(text).expect_err("a problem").to_string();
    assert!(reason("").contains("it has no line"));
    let head = "   Frequency      Group           Protocol  Summary\n";
    assert!(reason(&format!("{head}  12   Sequence\n")).contains("line 2: there is no protocol"));
    assert!(reason(&format!("{head}  99999999999999999999   Sequence  TCP  x\n")).contains("too large"));
    let other = read(&format!("{head}  7   Sequence  QUIC  x\n  2  Sequence TCP  something new\n")).expect("counts");
    assert_eq!(other, Expert { kinds: vec![], others: vec![("something new".to_owned(), 2)], of_other_protocols: 7 });
}

proptest! {
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", lines in prop::collection::vec("[ 0-9A-Za-z()#]{0,60}", 0..10)) {
        let _ = read(&text);
        let all = format!("   Frequency      Group           Protocol  Summary\n{}", lines.join("\n"));
        if let Ok(expert) = read(&all) {
            let comparison = compare_counts(("a", &expert), ("b", &expert), Some((0.5, 2.0)));
            prop_assert!(comparison.rows.iter().all(|r| r.says == CountsSay::Depends));
        }
    }
}

holdup_testkit::tests!(
    the_table_of_the_virtual_switch_is_read,
    without_totals_nothing_is_decided,
    with_a_quarter_to_all_of_the_traffic_trouble_is_worse_and_the_capture_is_not_said_to_be,
    with_as_much_more_traffic_as_counts_nothing_is_worse,
    what_one_side_lacks_is_worse_when_it_is_many,
    malformed_lists_are_refused_with_the_line,
    any_text_is_read_or_refused
);
