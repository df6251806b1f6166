//! Many runs: a change is named where it happened, and steady runs are not accused.

use crate::common;
use common::{Maker, reading};
use holdup_analysis::history;
use holdup_model::outcome::FindingVerdict;
use holdup_model::*;

/// Runs a day apart, with a kernel each; throughput is multiplied by `factor` from run `from` on.
fn runs(count: u64, from: u64, factor: f64) -> Vec<(String, BundleData)> {
    runs_of(100, count, from, factor)
}

fn runs_of(seed: u64, count: u64, from: u64, factor: f64) -> Vec<(String, BundleData)> {
    (0..count)
        .map(|i| {
            let step = (0.0, if i >= from { factor } else { 1.0 });
            let maker =
                Maker { seed: seed + i, blocks: 3, clients: vec![2], histograms: false, step, ..Maker::default() };
            let mut bundle = maker.make();
            bundle.head.created_unix_ns += i as i64 * 86_400_000_000_000;
            let kernel = if i >= from { "7.0.1" } else { "6.19.3" };
            bundle.environment = vec![reading(0, vec![Fact::read("kernel.release", kernel, "uname(2)")])];
            (format!("day-{i}.holdup"), bundle)
        })
        .collect()
}

#[test]
fn a_step_is_named_with_its_run_and_what_changed_with_it() {
    let mut shuffled = runs(16, 9, 0.85);
    shuffled.reverse();
    let found = history(&shuffled).expect("a history");
    assert_eq!(found.runs[0].name, "day-0.holdup", "oldest first, in any order given");
    let arms: Vec<&str> = found.series.iter().map(|s| s.arm.as_str()).collect();
    assert_eq!(arms.len(), 3, "all arms, then both levels, without the replica: {arms:?}");
    assert_eq!(arms[0], "all arms");
    for series in &found.series {
        let [change] = series.changes.as_slice() else { panic!("{}: {:?}", series.arm, series.changes) };
        assert_eq!((change.run, change.run_low <= 9, change.run_high >= 9), (9, true, true));
        assert!(change.ratio.as_ref().is_some_and(|r| (r.value - 0.85).abs() < 0.02), "{change:?}");
        assert_eq!(change.environment, ["kernel.release: 6.19.3 → 7.0.1"]);
    }
    let first = &found.findings[0];
    assert!(first.headline && first.sentence.contains("worse from run 10 on (day-9.holdup"), "{}", first.sentence);
    assert!(first.details[0].contains("6.19.3 → 7.0.1"));
}

#[test]
fn steady_runs_have_no_change_and_few_runs_are_not_judged() {
    // 5 % for all arms together and 5 % for the arms: of 20 steady histories some two are accused.
    let mut accused = 0;
    for seed in 0..20 {
        let steady = history(&runs_of(1_000 * seed, 16, 99, 1.0)).expect("a history");
        assert!(steady.series.iter().all(|s| s.absent.is_none()));
        let is_quiet = steady.series.iter().all(|s| s.changes.is_empty());
        assert_eq!(steady.findings[0].verdict == FindingVerdict::Refuted, is_quiet);
        accused += u32::from(!is_quiet);
    }
    assert!(accused <= 5, "{accused} of 20 steady histories");
    let few = history(&runs(4, 2, 0.5)).expect("a history");
    assert!(few.series.iter().all(|s| s.changes.is_empty() && s.absent.is_some()), "{:?}", few.series);
    assert_eq!(few.findings[0].verdict, FindingVerdict::Skipped);
}

#[test]
fn a_run_without_a_value_is_missing_and_not_zero() {
    let mut all = runs(14, 7, 0.8);
    all[3].1.trials.clear();
    let found = history(&all).expect("a history");
    assert!(found.series.iter().all(|s| s.values[3].is_none() && s.changes.len() == 1 && s.changes[0].run == 7));
}

#[test]
fn what_is_no_history_is_refused() {
    let all = runs(3, 9, 1.0);
    assert!(history(&all[..2]).expect_err("two").to_string().contains("at least three"));
    let twice = vec![all[0].clone(), all[1].clone(), all[0].clone()];
    assert!(history(&twice).expect_err("twice").to_string().contains("same run"));
    let mut other = all.clone();
    other[1].1.head.emulated = Some("simulated".into());
    assert!(history(&other).expect_err("emulated").to_string().contains("different kinds of machine"));
    let mut strangers = all;
    for (i, (_, bundle)) in strangers.iter_mut().enumerate() {
        bundle.schedule.arms.iter_mut().for_each(|a| a.label = format!("{} of {i}", a.label));
    }
    assert!(history(&strangers).expect_err("strangers").to_string().contains("no arm in common"));
}
