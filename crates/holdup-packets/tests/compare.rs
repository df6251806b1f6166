//! Two captures whose truth is known.

use crate::world;
use holdup_model::Verdict;
use holdup_model::captures::{CaptureComparison, Clusters, MarkComparison, Moved, Parts};
use holdup_model::outcome::FindingVerdict;
use holdup_packets::compare::{Options, compare};
use holdup_packets::kinds::Kind;
use holdup_packets::spans::Spans;
use holdup_packets::summary::{all_flows, summarise};
use world::{World, make};

fn two(a: &World, b: &World) -> CaptureComparison {
    let (a, b) = (make(a), make(b));
    compare(("a.pcap", &a), &[("b.pcap", &b)], &Options::default()).remove(0)
}

#[track_caller]
fn row(c: &CaptureComparison, kind: Kind) -> &MarkComparison {
    c.marks.iter().find(|m| m.mark.field == kind.field()).expect("the row is there")
}

fn the_worst_mark_comes_first_and_capture_artefacts_are_named() {
    let a = World::new(1)
        .with(Kind::FastRetransmission, 0.001)
        .with(Kind::DuplicateAck, 0.01)
        .with(Kind::LostSegment, 0.01);
    let b = World::new(2)
        .with(Kind::FastRetransmission, 0.01)
        .with(Kind::DuplicateAck, 0.02)
        .with(Kind::LostSegment, 0.002);
    let c = two(&a, &b);
    assert_eq!(c.verdict, FindingVerdict::Supported);
    assert!(c.answer.starts_with("Got worse the most: fast retransmission ×"), "{}", c.answer);
    assert!(c.answer.contains("Also worse: duplicate ACK ×"), "{}", c.answer);
    assert!(c.details.iter().any(|d| d.contains("comes from the capture itself, or from loss")), "{:?}", c.details);
    let fast = row(&c, Kind::FastRetransmission);
    let e = fast.per_segment.ratio.as_ref().expect("a ratio");
    assert!(e.low <= 10.0 && 10.0 <= e.high && e.high / e.low < 2.0, "{e:?}");
    assert_eq!((fast.moved, &fast.verdict), (Moved::Worse, &Verdict::Different));
    assert!(fast.per_segment.clusters.is_some());
    let lost = row(&c, Kind::LostSegment);
    assert_eq!(lost.moved, Moved::Less);
    assert!(lost.caveat.is_some() && fast.caveat.is_none());
    let size = c.totals.iter().find(|t| t.name == "payload_bytes_per_data_segment").expect("a total");
    assert_eq!(size.baseline, Some(1448.0));
}

fn the_same_network_twice_is_seldom_called_worse() {
    let rates = |seed| {
        World { flows: 20, segments: 400, ..World::new(seed) }
            .with(Kind::Retransmission, 0.01)
            .with(Kind::DuplicateAck, 0.03)
            .with(Kind::OutOfOrder, 0.005)
    };
    let wrong =
        (0..200).filter(|i| two(&rates(1000 + i), &rates(5000 + i)).verdict == FindingVerdict::Supported).count();
    // At most one of twenty, half of them in the direction of worse; 200 comparisons scatter by three.
    assert!(wrong <= 10, "{wrong} of 200");
}

fn one_connection_is_cut_into_spans_as_a_note_says() {
    let one = |seed, rate| World { flows: 1, segments: 50_000, ..World::new(seed) }.with(Kind::Retransmission, rate);
    let c = two(&one(1, 0.001), &one(2, 0.004));
    let r = row(&c, Kind::Retransmission);
    assert_eq!(r.per_segment.clusters, Some(Clusters::Spans));
    assert_eq!(r.moved, Moved::Worse, "{r:?}");
    assert!(
        c.notes.iter().any(|n| n.contains("whether other connections would show the same is not known")),
        "{:?}",
        c.notes
    );
}

fn what_is_new_has_a_bound_and_what_is_too_little_is_undecided() {
    let with = |seed, rate| World::new(seed).with(Kind::ZeroWindow, rate);
    let c = two(&with(1, 0.0), &with(2, 0.001));
    let r = row(&c, Kind::ZeroWindow);
    assert_eq!((r.moved, r.per_segment.ratio.is_none()), (Moved::Worse, true));
    assert!(r.per_segment.at_least.is_some_and(|x| x > 5.0), "{:?}", r.per_segment);
    assert!(c.answer.contains("zero window at least ×"), "{}", c.answer);
    let c = two(&with(2, 0.001), &with(1, 0.0));
    assert_eq!((row(&c, Kind::ZeroWindow).moved, c.verdict), (Moved::Better, FindingVerdict::Refuted));
    let c = two(&with(1, 0.0), &with(3, 0.000_03));
    assert_eq!(
        (row(&c, Kind::ZeroWindow).moved, c.verdict),
        (Moved::Undecided, FindingVerdict::Undecided),
        "{:?}",
        c.answer
    );
}

fn captures_without_marks_are_compared() {
    let c = two(&World::new(1), &World::new(2));
    assert_eq!(c.verdict, FindingVerdict::Refuted);
    assert!(c.answer.starts_with("Nothing got worse: no mark of trouble in"), "{}", c.answer);
    assert!(c.marks.is_empty());
}

fn a_tiny_capture_has_no_interval_and_a_reason() {
    let tiny = |seed| {
        let mut a = make(&World { flows: 1, segments: 10, ..World::new(seed) }.with(Kind::Retransmission, 0.9));
        a.spans = Spans::default();
        a
    };
    let (a, b) = (tiny(1), tiny(2));
    let c = compare(("a", &a), &[("b", &b)], &Options::default()).remove(0);
    let r = row(&c, Kind::Retransmission);
    assert!(r.per_segment.ratio.is_none() && r.p_adjusted.is_none());
    assert!(r.per_segment.absent.as_deref().is_some_and(|why| why.contains("1 connection")), "{:?}", r.per_segment);
    assert_eq!(c.verdict, FindingVerdict::Undecided);
}

fn larger_segments_make_rates_by_segment_and_by_byte_differ() {
    let a = World::new(1).with(Kind::DuplicateAck, 0.005);
    let b = World { payload: 14_480, segments: 1000, ..World::new(2) }.with(Kind::DuplicateAck, 0.02);
    let c = two(&a, &b);
    assert_eq!(row(&c, Kind::DuplicateAck).moved, Moved::Worse);
    assert!(c.details.iter().any(|d| d.contains("By bytes of payload this is not certain")), "{:?}", c.details);
}

fn a_summary_names_the_worst() {
    let mut analysis = make(&World::new(1).with(Kind::Retransmission, 0.001));
    let mut flows: Vec<_> = analysis.flows.iter().collect();
    flows[7].directions[1].counts.add(Kind::ZeroWindow, 5000);
    analysis.flows = flows.into_iter().collect();
    let capture = summarise("a.pcap", &analysis, Parts::Flow, 3);
    assert!(capture.answer.contains("#7 10.0.0.1:40007 → 10.0.0.2:5201"), "{}", capture.answer);
    assert_eq!((capture.parts.len(), capture.parts_in_all), (3, 50));
    assert_eq!(capture.parts[0].trouble, capture.parts[0].marks.iter().map(|(_, n)| n).sum::<u64>());
    let hosts = summarise("a.pcap", &analysis, Parts::Host, 3);
    assert_eq!(hosts.parts.iter().map(|p| p.traffic.segments).sum::<u64>(), capture.traffic.segments);
    assert_eq!(hosts.parts[0].name, "10.0.0.2");
    let spans = summarise("a.pcap", &analysis, Parts::Time, 3);
    assert_eq!(spans.parts.iter().map(|p| p.traffic.segments).sum::<u64>(), capture.traffic.segments);
    assert_eq!(all_flows(&analysis).count(), 50);
}

holdup_testkit::tests!(
    the_worst_mark_comes_first_and_capture_artefacts_are_named,
    the_same_network_twice_is_seldom_called_worse,
    one_connection_is_cut_into_spans_as_a_note_says,
    what_is_new_has_a_bound_and_what_is_too_little_is_undecided,
    captures_without_marks_are_compared,
    a_tiny_capture_has_no_interval_and_a_reason,
    larger_segments_make_rates_by_segment_and_by_byte_differ,
    a_summary_names_the_worst
);
