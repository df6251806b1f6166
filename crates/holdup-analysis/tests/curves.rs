//! Curves over clients, and moments at which the host changed: induced, and withheld.

use crate::common;
use common::{Maker, text};
use holdup_analysis::analyse;
use holdup_model::outcome::FindingVerdict;
use holdup_model::*;

/// The Universal Scalability Law with its peak of about 9,300 per second at 12 clients.
fn usl(clients: i64) -> f64 {
    let n = clients as f64;
    1_400.0 * n / (1.0 + 0.04 * (n - 1.0) + 0.0067 * n * (n - 1.0))
}

/// The same, but a third is lost beyond 16 clients.
fn broken(clients: i64) -> f64 {
    usl(clients) * if clients > 16 { 0.67 } else { 1.0 }
}

fn sweep(curve: fn(i64) -> f64) -> Maker {
    Maker {
        clients: vec![1, 2, 4, 8, 16, 24, 32, 64],
        cv: 0.015,
        curve,
        blocks: 6,
        histograms: false,
        ..Maker::default()
    }
}

fn findings(analysis: &Analysis, id: &str) -> Vec<Finding> {
    let found: Vec<Finding> = analysis.findings.iter().filter(|f| f.analysis == id).cloned().collect();
    assert!(!found.is_empty(), "{id}: {}", text(&analysis.findings));
    found
}

#[test]
fn a_cliff_is_found_where_it_was_put() {
    let analysis = analyse(&sweep(broken).make());
    for f in findings(&analysis, "cliff") {
        assert_eq!(f.verdict, FindingVerdict::Supported, "{}", f.sentence);
        assert!(f.headline && f.sentence.contains("(95 % interval 16 to 24)"), "{}", f.sentence);
    }
}

#[test]
fn a_smooth_curve_has_no_cliff_and_its_peak_is_found() {
    let (mut cliffs, mut peaks) = (0, 0);
    for seed in 0..10 {
        let analysis = analyse(&Maker { seed, ..sweep(usl) }.make());
        cliffs += findings(&analysis, "cliff").iter().filter(|f| f.verdict == FindingVerdict::Supported).count();
        let scaling = &findings(&analysis, "scaling")[0];
        peaks += usize::from(scaling.verdict == FindingVerdict::Supported && scaling.sentence.contains("peaks with"));
        assert!(scaling.details.iter().any(|d| d.contains("twice the largest measured")), "{scaling:#?}");
    }
    // Two levels, and throughput and the tail of latency of each: 40 curves, of which 5 % may be called broken.
    assert!(cliffs <= 6, "{cliffs} false cliffs");
    assert!(peaks >= 9, "{peaks} of 10 peaks");
}

#[test]
fn a_curve_that_rises_has_no_peak_and_few_loads_are_no_curve() {
    let rising = |clients: i64| 1_400.0 * clients as f64 / (1.0 + 0.01 * (clients as f64 - 1.0));
    let scaling = findings(&analyse(&sweep(rising).make()), "scaling").remove(0);
    assert!(!scaling.sentence.contains("peaks with"), "{}", scaling.sentence);
    assert_eq!(scaling.verdict, FindingVerdict::Refuted);
    let short = analyse(&Maker { clients: vec![1, 8, 64], ..sweep(usl) }.make());
    assert!(
        short.findings.iter().all(|f| f.analysis != "scaling" && f.analysis != "cliff"),
        "{}",
        text(&short.findings)
    );
}

#[test]
fn a_host_that_changes_half_way_is_reported_and_a_steady_one_is_not() {
    let found = |step: (f64, f64)| {
        findings(&analyse(&Maker { step, histograms: false, ..Maker::default() }.make()), "change-points").remove(0)
    };
    let changed = found((0.5, 0.9));
    assert_eq!(changed.verdict, FindingVerdict::Supported);
    // 9 arms × 8 blocks: the middle is trial 36.
    assert!(
        changed.sentence.contains("×0.90") && changed.sentence.contains("from trial 36 on"),
        "{}",
        changed.sentence
    );
    assert_eq!(found((1.0, 1.0)).verdict, FindingVerdict::Refuted);
}
