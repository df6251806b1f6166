//! The TCP of real kernels under faults: packet by packet, our marks of captures of it are those of tshark 4.6, and our own
//! judgement finds what was done to the packets.
//!
//! Two network namespaces have a link each; a thread of this test passes packets between them, loses, doubles and holds some by
//! seeded dice, and knows what it did. What it passed is captured on both sides, in full and badly. Needs root; without it the
//! tests say so. `HOLDUP_SEED=N` throws the dice otherwise, `HOLDUP_CASE=NAME` runs one case, `HOLDUP_KEEP=FILE` keeps the
//! capture.

use crate::judge;
use crate::tshark;
mod captures;
mod cases;
mod net;
mod relay;
mod traffic;
mod truth;

use crate::made::{Pcap, link};
use captures::{Captured, VIEWS, View};
use cases::{Accuracy, CASES, Case};
use holdup_packets::kinds::Kind;
use holdup_packets::rfc::{Finding, Findings, Judge};
use holdup_packets::segment::Segment;
use holdup_packets::wireshark::{Kinds, Limits, Table};
use holdup_testkit::ignore;
use relay::Passed;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Concurrent runs; they mostly wait.
const LANES: usize = 4;

/// Runs, with what passed in each.
type Runs = Vec<(&'static Case, Vec<Passed>)>;

/// All runs; without the right to make them the test is ignored.
fn runs() -> &'static Runs {
    static RUNS: OnceLock<Runs> = OnceLock::new();
    RUNS.get_or_init(|| {
        if let Err(e) = net::sides(&CASES[0].wiring) {
            ignore(format!("no namespaces with links can be made here: {e}"));
        }
        let only = std::env::var("HOLDUP_CASE").ok();
        let cases: Vec<&Case> =
            CASES.iter().filter(|case| only.as_ref().is_none_or(|name| name == case.name)).collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..LANES {
                scope.spawn(|| {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let passed = run(case);
                        done.lock().expect("no lane panics").insert(case.name, passed);
                    }
                });
            }
        });
        let mut done = done.into_inner().expect("no lane panics");
        cases.iter().map(|case| (*case, done.remove(case.name).expect("each case ran"))).collect()
    })
}

/// Runs a case: what passed.
fn run(case: &Case) -> Vec<Passed> {
    let seed = std::env::var("HOLDUP_SEED").map_or(1, |text| text.parse().expect("a number"));
    let sides = net::sides(&case.wiring).expect("namespaces can be made");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let relay = scope.spawn(|| relay::pass(&sides, &case.paths, case.wiring.offload, seed, &stop));
        let outcome = (case.traffic)(&sides);
        // What is still to be said (the last acknowledgements, resets of what was closed) has its time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        let passed = relay.join().expect("the relay does not panic");
        outcome.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        passed
    })
}

fn capture_of(captured: &[Captured<'_>], run: usize, view: usize, into: &mut Pcap) {
    for one in captured {
        into.frame(one.at_ns, &captures::frame(&one.passed.packet, run as u8, view as u8));
    }
}

/// The segments of one view.
fn segments_of(captured: &[Captured<'_>]) -> Vec<Segment> {
    let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
    capture_of(captured, 0, 0, &mut pcap);
    let segments = tshark::decoded(&pcap.into_bytes());
    assert_eq!(segments.len(), captured.len(), "each packet is a segment");
    segments
}

fn kernels_under_faults_are_judged_as_tshark_does() {
    let tshark = judge::tshark();
    let runs = runs();
    let mut pcap = Pcap::new(link::ETHERNET).with_nanoseconds();
    for (i, (case, passed)) in runs.iter().enumerate() {
        let mut has = Kinds::default();
        for (k, view) in VIEWS.iter().enumerate() {
            let captured = captures::captured(passed, *view);
            capture_of(&captured, i, k, &mut pcap);
            let mut table = Table::new(Limits::default());
            for segment in segments_of(&captured) {
                has = has.iter().chain(table.judge(&segment).expect("within the limits").kinds.iter()).collect();
            }
        }
        let lacks: Vec<&Kind> = case.has.iter().filter(|kind| !has.has(**kind)).collect();
        assert!(lacks.is_empty(), "{}: nothing of {lacks:?} came about, only {has:?}", case.name);
    }
    let capture = pcap.into_bytes();
    println!("{} runs, {} MB", runs.len(), capture.len() / 1_000_000);
    tshark::compare(&tshark, &capture, &[], "captures of kernels");
}

fn judged(segments: &[Segment]) -> Findings {
    let (mut table, mut judge) = (Table::new(Limits::default()), Judge::default());
    for segment in segments {
        let marks = table.judge(segment).expect("within the limits");
        judge.judge(segment, &marks);
    }
    judge.finish()
}

/// Truth and result of each finding as text, and whether they agree.
fn compared(truth: &BTreeMap<Finding, u64>, found: &Findings, accuracy: Accuracy) -> (String, bool) {
    let of = |finding: Finding| (truth.get(&finding).copied().unwrap_or(0), found.get(finding));
    let again = (of(Finding::LostBehind), of(Finding::Needless));
    let again = (again.0.0 + again.1.0, again.0.1 + again.1.1);
    let rest = [Finding::LostBefore, Finding::Reordered, Finding::Doubled, Finding::NotCaptured, Finding::Open].map(of);
    let all = || rest.iter().chain([&again]);
    let apart: u64 = all().map(|(truth, found)| truth.abs_diff(*found)).sum();
    let agrees = match accuracy {
        Accuracy::All => Finding::ALL.iter().all(|finding| of(*finding).0 == of(*finding).1),
        Accuracy::Most => apart <= 1 + all().map(|(truth, _)| truth).sum::<u64>() / 10,
        Accuracy::Nothing => true,
    };
    let mut text = String::new();
    for finding in Finding::ALL {
        let (truth, found) = of(*finding);
        if (truth, found) != (0, 0) {
            write!(text, " {} {truth}, found {found};", finding.id()).expect("writing into a string");
        }
    }
    (text, agrees)
}

fn our_own_judgement_finds_what_was_done() {
    let runs = runs();
    let mut wrong = String::new();
    for (case, passed) in runs {
        let all = passed.iter().enumerate();
        let all: Vec<Captured<'_>> =
            all.map(|(number, one)| Captured { at_ns: one.sent_ns, passed: one, number }).collect();
        let run: Vec<(Passed, Segment)> = passed.iter().cloned().zip(segments_of(&all)).collect();
        for view in [View::Whole(0), View::Whole(1), View::Missing(0), View::Swapped(1)] {
            let captured = captures::captured(passed, view);
            let (truth, found) = (truth::truth(&run, &captured), judged(&segments_of(&captured)));
            let (text, agrees) = compared(&truth, &found, case.accuracy);
            println!("{} {view:?}:{text}", case.name);
            // A capture that has holes or a wrong order is held to what was not done: nothing of a clean path was lost, though
            // a kernel that waits for its turn may send something again.
            let is_right = match view {
                View::Whole(_) => agrees,
                View::Missing(_) | View::Swapped(_) if case.name == "clean" => {
                    let lost = [Finding::LostBefore, Finding::LostBehind, Finding::Needless, Finding::Doubled];
                    lost.iter().all(|finding| found.get(*finding) == truth.get(finding).copied().unwrap_or(0))
                        && found.get(Finding::NotCaptured) + found.get(Finding::Reordered) > 0
                }
                _ => true,
            };
            if !is_right {
                writeln!(wrong, "{} {view:?}:{text}", case.name).expect("writing into a string");
            }
        }
    }
    assert!(wrong.is_empty(), "what was done, and what was found of it:\n{wrong}");
}

holdup_testkit::tests!(
    truth:
    kernels_under_faults_are_judged_as_tshark_does,
    our_own_judgement_finds_what_was_done
);
