//! What a reader sees, as snapshots.

use crate::common;
use common::{Maker, reading, text, void};
use holdup_analysis::{analyse, compare_arms, compare_bundles};
use holdup_model::bundle::{CollectorState, Ending};
use holdup_model::*;

#[test]
fn a_run_with_an_effect() {
    let bundle = Maker { effect: |_| 0.93, unobserved: true, ..Maker::default() }.make();
    insta::assert_snapshot!(text(&analyse(&bundle).findings));
}

#[test]
fn a_quiet_run() {
    insta::assert_snapshot!(text(&analyse(&Maker { seed: 7, cv: 0.006, ..Maker::default() }.make()).findings));
}

#[test]
fn a_noisy_run_without_aa_on_an_emulated_machine() {
    let mut bundle = Maker { seed: 4, cv: 0.12, blocks: 5, aa: false, ..Maker::default() }.make();
    bundle.head.emulated = Some("emulated by QEMU TCG".into());
    insta::assert_snapshot!(text(&analyse(&bundle).findings));
}

#[test]
fn a_troubled_run() {
    let mut bundle = Maker { drift: 0.2, latency_lie: 1.3, ..Maker::default() }.make();
    bundle.ending = Some(Ending::Budget);
    bundle.trials.truncate(60);
    void(&mut bundle.trials[4], "cpu.governor moved from performance to powersave");
    bundle.trials[4].environment_moved = vec![Fact::read("cpu.governor", "powersave", "/sys")];
    bundle.trials[9].histograms[0].histogram.record_ns(u64::MAX);
    bundle.trials[12].evidence[0].coverage.lost = 12_345;
    for evidence in bundle.trials.iter_mut().flat_map(|t| &mut t.evidence) {
        evidence.cost.cpu_ns = 60_000_000;
    }
    bundle.collectors.push(CollectorState {
        id: "psi".into(),
        availability: Availability::unavailable_but("/proc/pressure does not exist", "boot with psi=1"),
    });
    let locked = "debugfs is locked down";
    bundle.environment[0].facts.push(Fact::absent("kernel.preempt", "/sys/kernel/debug/sched/preempt", locked));
    bundle.environment.push(reading(1, vec![Fact::read("kernel.release", "6.18.1", "uname(2)")]));
    insta::assert_snapshot!(text(&analyse(&bundle).findings));
}

#[test]
fn two_arms_by_name() {
    let bundle = Maker { effect: |_| 0.93, ..Maker::default() }.make();
    let analysis = compare_arms(&bundle, "clients=64 autogroup=on (A/A)", "7").expect("a comparison");
    assert_eq!(analysis.arms.iter().map(|a| a.arm).collect::<Vec<_>>(), [7, 8]);
    insta::assert_snapshot!(text(&analysis.findings));
}

#[test]
fn names_that_fit_badly() {
    let bundle = Maker::default().make();
    let mut out = String::new();
    for (a, b) in
        [("clients=2 ", "clients=64"), ("no such", "0"), ("0", "select-only clients=2 autogroup=on"), ("", "0")]
    {
        let problem = compare_arms(&bundle, a, b).expect_err("a problem");
        assert_eq!(problem.kind, ProblemKind::Usage);
        out.push_str(&format!("{problem}\n\n"));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn two_runs() {
    let a = Maker { seed: 5, ..Maker::default() }.make();
    let mut b = Maker { seed: 6, clients: vec![2, 64, 128], drift: 0.0, ..Maker::default() }.make();
    b.environment[0].facts = vec![Fact::read("kernel.release", "7.0.0", "uname(2)")];
    for m in b.trials.iter_mut().flat_map(|t| &mut t.measurements).filter(|m| m.metric == "tps") {
        m.value = Measured::Value(m.value.value().expect("measured") * 0.8);
    }
    let analysis = compare_bundles(&a, &b).expect("a comparison");
    let pooled = analysis.comparisons.first().expect("a comparison");
    assert_eq!(pooled.verdict, Verdict::Different);
    assert!(pooled.pooled && pooled.ratio.as_ref().is_some_and(|r| (r.value - 0.8).abs() < 0.02));
    let of_b = b.trials.iter().filter(|t| {
        [2_i64, 64].iter().any(|c| b.schedule.arms[t.arm as usize].axes["clients"].value == Value::Integer(*c))
    });
    assert_eq!(analysis.findings[0].trials, of_b.map(|t| t.seq).collect::<Vec<_>>(), "trials of the second run");
    insta::assert_snapshot!(text(&analysis.findings));
    assert!(compare_bundles(&a, &a).expect_err("itself").to_string().contains("compared with itself"));
    b.head.emulated = Some("simulated".into());
    assert!(compare_bundles(&a, &b).expect_err("emulated").to_string().contains("those of hardware"));
}

#[test]
fn the_catalogue_is_whole() {
    let mut ids = std::collections::BTreeSet::new();
    for analysis in holdup_analysis::analyses::ALL {
        let meta = analysis.meta;
        assert!(ids.insert(meta.id.replace('-', "_")), "{} is there twice", meta.id);
        assert!(!meta.docs.is_empty() && meta.summary.len() <= 72 && !meta.summary.ends_with('.'), "{}", meta.id);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/analyses");
    let files: std::collections::BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|f| f.expect("a file").file_name().to_string_lossy().replace(".rs", ""))
        .filter(|f| f != "mod")
        .collect();
    assert_eq!(ids, files, "one file for each analysis, and its line in the list");
}
