//! Ground truth: something is induced, or nothing, and the analysis must say so.

use crate::common;
use common::{Maker, text, void};
use holdup_analysis::analyse;
use holdup_model::bundle::Ending;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::plan::Layout;
use holdup_model::*;

fn factor(analysis: &Analysis) -> &Comparison {
    let wanted = |c: &&Comparison| c.primary && c.pooled && matches!(c.contrast, Contrast::Factor { .. });
    analysis.comparisons.iter().find(wanted).expect("the comparison of the factor")
}

fn finding<'a>(analysis: &'a Analysis, id: &str) -> &'a Finding {
    analysis.findings.iter().find(|f| f.analysis == id).unwrap_or_else(|| panic!("{id}: {}", text(&analysis.findings)))
}

#[test]
fn an_effect_of_ten_percent_is_named() {
    for seed in 0..20 {
        let analysis = analyse(&Maker { seed, effect: |_| 0.9, ..Maker::default() }.make());
        let c = factor(&analysis);
        assert_eq!(c.verdict, Verdict::Different, "seed {seed}: {c:?}");
        let ratio = c.ratio.as_ref().expect("a ratio");
        assert!((ratio.value - 0.9).abs() < 0.02, "{ratio:?}");
        assert!(c.noise_floor.is_some_and(|f| f > 0.0 && f < 0.03), "{:?}", c.noise_floor);
        let f = finding(&analysis, "effect");
        assert!(f.headline && f.verdict == FindingVerdict::Supported, "{f:?}");
        assert!(f.sentence.contains("autogroup=off instead of on") && f.sentence.contains("worse"), "{}", f.sentence);
        assert_eq!(f.trials.len(), 8 * 3 * 2, "the trials of both levels in all cells");
    }
}

#[test]
fn a_wrong_direction_is_caught() {
    let honest = Maker { effect: |_| 0.9, histograms: false, ..Maker::default() };
    let found = |bundle: &BundleData| -> Vec<String> {
        let analysis = analyse(bundle);
        analysis.findings.iter().filter(|f| f.analysis == "direction").map(|f| f.sentence.clone()).collect()
    };
    let bundle = honest.make();
    assert_eq!(found(&bundle), Vec::<String>::new());

    // A plan that calls a loss a gain.
    let mut turned = bundle.clone();
    turned.plan.metrics[0].better = Some(Direction::Lower);
    let result = found(&turned);
    assert!(result.len() == 1 && result[0].contains("lower throughput (tps)"), "{result:?}");

    // A latency that is really a rate: it falls together with throughput.
    let mut mislabelled = bundle;
    for trial in &mut mislabelled.trials {
        let tps = trial.metric("tps").expect("measured");
        let latency = trial.measurements.iter_mut().find(|m| m.metric == "latency_mean_us").expect("there");
        latency.value = Measured::Value(tps / 3.0);
    }
    let result = found(&mislabelled);
    assert!(result.iter().any(|s| s.contains("both fell, which a closed loop cannot do")), "{result:?}");
}

#[test]
fn more_clients_may_raise_throughput_and_latency() {
    let mut bundle = Maker { clients: vec![2, 64], histograms: false, ..Maker::default() }.make();
    let many: Vec<u32> = bundle.schedule.arms.iter().filter(|a| a.label.contains("clients=64")).map(|a| a.id).collect();
    assert!(!many.is_empty());
    for trial in bundle.trials.iter_mut().filter(|trial| many.contains(&trial.arm)) {
        for (metric, times) in [("tps", 1.5), ("latency_mean_us", 20.0)] {
            let value = trial.metric(metric).expect("measured");
            let of = trial.measurements.iter_mut().find(|m| m.metric == metric).expect("there");
            of.value = Measured::Value(value * times);
        }
    }
    let analysis = analyse(&bundle);
    let rose = |c: &&Comparison| matches!(c.contrast, Contrast::Axis { .. }) && c.verdict == Verdict::Different;
    assert!(analysis.comparisons.iter().filter(rose).count() >= 2, "the clients are compared");
    assert!(analysis.findings.iter().all(|f| f.analysis != "direction"), "{:?}", analysis.findings);
}

#[test]
fn nothing_induced_is_seldom_different() {
    let runs = 500;
    let (mut pooled, mut cells, mut equivalent) = (0, 0, 0);
    for seed in 0..runs {
        let maker = Maker { seed: 1000 + seed, blocks: 6, clients: vec![2, 64], histograms: false, ..Maker::default() };
        let analysis = analyse(&maker.make());
        let different = |c: &&Comparison| c.verdict == Verdict::Different;
        let of_factor = || analysis.comparisons.iter().filter(|c| matches!(c.contrast, Contrast::Factor { .. }));
        pooled += u32::from(of_factor().filter(different).any(|c| c.primary && c.pooled));
        cells += u32::from(of_factor().filter(different).any(|c| !(c.primary && c.pooled)));
        equivalent += u32::from(factor(&analysis).verdict == Verdict::Equivalent);
    }
    let share = |n: u32| f64::from(n) / runs as f64;
    // 5 % by construction; three standard errors of 500 runs are 2.9 points.
    assert!(share(pooled) <= 0.079, "headline false alarms: {}", share(pooled));
    assert!(share(cells) <= 0.079, "a family of secondary comparisons with a false alarm: {}", share(cells));
    assert!(share(equivalent) > 0.5, "equivalent: {}", share(equivalent));
}

#[test]
fn withheld_blocks_leave_it_undecided() {
    for blocks in [1, 2, 3] {
        let analysis = analyse(&Maker { blocks, effect: |_| 0.9, ..Maker::default() }.make());
        let c = factor(&analysis);
        let Verdict::Undecided { reason, blocks_needed } = &c.verdict else { panic!("{blocks} blocks: {c:?}") };
        assert!(!reason.is_empty());
        assert_eq!(c.ratio.is_some(), blocks > 1);
        assert_eq!(blocks_needed.is_some(), blocks > 1, "{reason}");
    }
}

#[test]
fn drift_is_named_and_the_ratio_stays_right() {
    let analysis = analyse(&Maker { drift: -0.15, effect: |_| 0.9, ..Maker::default() }.make());
    let f = finding(&analysis, "drift");
    assert_eq!(f.verdict, FindingVerdict::Supported);
    assert!(f.sentence.contains("drifted") && f.sentence.contains("fell by 1"), "{}", f.sentence);
    let ratio = factor(&analysis).ratio.as_ref().expect("a ratio").value;
    assert!((ratio - 0.9).abs() < 0.02, "{ratio}");
    let calm = (0..100).filter(|seed| {
        let analysis = analyse(&Maker { seed: 2000 + seed, histograms: false, ..Maker::default() }.make());
        finding(&analysis, "drift").verdict == FindingVerdict::Supported
    });
    assert!(calm.count() <= 5, "drift is seen where there is none");
}

#[test]
fn a_broken_littles_law_is_named_with_its_trials() {
    let holds = analyse(&Maker::default().make());
    assert_eq!(finding(&holds, "littles-law").verdict, FindingVerdict::Refuted);
    let all = analyse(&Maker { latency_lie: 0.8, ..Maker::default() }.make());
    assert_eq!(finding(&all, "littles-law").trials.len(), 8 * 9);
    let mut bundle = Maker::default().make();
    for m in &mut bundle.trials[7].measurements {
        if m.metric == "latency_mean_us" {
            *m = Measurement::new("latency_mean_us", 1.0);
        }
    }
    let one = analyse(&bundle);
    let f = finding(&one, "littles-law");
    assert_eq!((f.verdict, f.trials.as_slice()), (FindingVerdict::Supported, [7].as_slice()));
    // An open loop is not checked.
    bundle.plan.workloads[0].parameters.set("rate", 1000.0);
    assert_eq!(finding(&analyse(&bundle), "littles-law").verdict, FindingVerdict::Skipped);
}

#[test]
fn cells_that_disagree_are_named() {
    let effect = |clients| if clients > 10 { 0.8 } else { 1.15 };
    let analysis = analyse(&Maker { effect, ..Maker::default() }.make());
    let f = finding(&analysis, "effect");
    let disagree = f.details.iter().find(|d| d.contains("do not agree")).expect("the cells");
    assert!(disagree.contains("best at clients=2 ×1.1"), "{disagree}");
}

#[test]
fn a_negative_control_that_moves_is_named() {
    let moved = analyse(&Maker { negative_control: true, effect: |_| 0.9, ..Maker::default() }.make());
    assert_eq!(finding(&moved, "negative-control").verdict, FindingVerdict::Supported);
    let still = analyse(&Maker { negative_control: true, cv: 0.005, ..Maker::default() }.make());
    assert_ne!(finding(&still, "negative-control").verdict, FindingVerdict::Supported);
}

#[test]
fn arms_that_miss_blocks_are_paired_where_they_can_be() {
    let mut bundle = Maker { effect: |_| 0.9, clients: vec![8], ..Maker::default() }.make();
    for trial in bundle.trials.iter_mut().filter(|t| t.arm == 1 && t.block < 3) {
        void(trial, "the server went away");
    }
    let analysis = analyse(&bundle);
    let c = factor(&analysis);
    assert_eq!(c.ratio.as_ref().map(|r| r.n), Some(5));
    assert_eq!(c.verdict, Verdict::Different);
    let f = finding(&analysis, "void-trials");
    assert_eq!((f.verdict, f.trials.len()), (FindingVerdict::Supported, 3));
    assert!(f.details.iter().any(|d| d.contains("the server went away")), "{f:?}");
}

#[test]
fn a_zero_or_an_absent_metric_gives_its_reason() {
    let mut bundle = Maker { clients: vec![8], ..Maker::default() }.make();
    let trial = bundle.trials.iter_mut().find(|t| t.arm == 1).expect("a trial");
    trial.measurements[0] = Measurement::new("tps", 0.0);
    let analysis = analyse(&bundle);
    let Verdict::Undecided { reason, .. } = &factor(&analysis).verdict else { panic!("decided") };
    assert!(reason.contains("zero"), "{reason}");
    for trial in bundle.trials.iter_mut().filter(|t| t.arm == 1) {
        trial.measurements[0] = Measurement::absent("tps", "pgbench printed no tps line");
    }
    let analysis = analyse(&bundle);
    let Verdict::Undecided { reason, .. } = &factor(&analysis).verdict else { panic!("decided") };
    assert_eq!(reason, "pgbench printed no tps line");
    let tps = analysis.arms[1].metrics.iter().find(|m| m.metric == "tps").expect("tps");
    assert_eq!((tps.value, &tps.mean, tps.absent.as_deref()), (None, &None, Some("pgbench printed no tps line")));
}

#[test]
fn poor_bundles_give_reasons_and_no_panic() {
    let full = Maker { unobserved: true, ..Maker::default() }.make();
    let mut empty = full.clone();
    empty.trials.clear();
    empty.ending = None;
    let mut nothing = empty.clone();
    nothing.schedule = Schedule { arms: Vec::new(), trials: Vec::new() };
    nothing.metrics.clear();
    nothing.plan.workloads.clear();
    nothing.plan.factors.clear();
    nothing.environment.clear();
    let mut one = full.clone();
    one.trials.truncate(1);
    one.ending = Some(Ending::Interrupted);
    let mut all_void = full.clone();
    all_void.trials.iter_mut().for_each(|t| void(t, "clock jumped"));
    let mut strangers = full.clone();
    strangers.trials.iter_mut().for_each(|t| t.arm += 1000);
    let mut no_windows = full.clone();
    no_windows.trials.iter_mut().for_each(|t| t.window = None);
    for (name, bundle) in [
        ("empty", &empty),
        ("nothing", &nothing),
        ("one", &one),
        ("all void", &all_void),
        ("strangers", &strangers),
        ("no windows", &no_windows),
    ] {
        let analysis = analyse(bundle);
        assert!(!analysis.findings.is_empty(), "{name}");
        for f in &analysis.findings {
            assert!(
                !f.sentence.is_empty() && !f.sentence.contains("NaN") && !f.sentence.contains("inf "),
                "{name}: {f:?}"
            );
        }
        if name != "no windows" {
            let decided = analysis.comparisons.iter().find(|c| !matches!(c.verdict, Verdict::Undecided { .. }));
            assert!(decided.is_none(), "{name}: {decided:?}");
        }
    }
    insta::assert_snapshot!("all_void", text(&analyse(&all_void).findings));
    insta::assert_snapshot!("one_trial", text(&analyse(&one).findings));
}

#[test]
fn the_order_of_comparisons_and_their_families() {
    let analysis = analyse(&Maker { layout: Layout::OneAtATime, ..Maker::default() }.make());
    let rank = |c: &Comparison| match (c.primary, c.pooled) {
        (true, true) => 0,
        (true, false) => 1,
        _ => 2,
    };
    let ranks: Vec<i32> = analysis.comparisons.iter().map(rank).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    // 1 factor level × 3 metrics × (pooled + 3 cells), 2 axis levels × 3 metrics, A/A like the factor.
    assert_eq!(analysis.comparisons.len(), 12 + 6 + 12);
    for c in &analysis.comparisons {
        assert_eq!(c.pooled, c.cell.is_empty(), "{c:?}");
        assert!(c.noise_floor.is_some() && c.p_adjusted.is_some(), "{c:?}");
    }
    let primary = analysis.comparisons.first().expect("one");
    assert_eq!(primary.metric.id, "tps", "the plan's primary metric, though it is not the first");
}

#[test]
fn sessions_are_honoured() {
    let of = |sessions: u32, seed: u64| {
        let maker = Maker { seed, blocks: 12 / sessions, sessions, histograms: false, ..Maker::default() };
        factor(&analyse(&maker.make())).ratio.clone().expect("a ratio")
    };
    assert!(of(3, 1).method.contains("3 session means of 12 blocks"), "{}", of(3, 1).method);
    let width = |sessions: u32| (0..20).map(|seed| of(sessions, seed)).map(|r| r.high - r.low).sum::<f64>();
    assert!(width(3) > 1.5 * width(1), "{} and {}", width(3), width(1));
}

#[test]
fn evidence_becomes_rates_and_absences_keep_their_reason() {
    let analysis = analyse(&Maker::default().make());
    let item = |name: &str| analysis.arms[0].evidence.iter().find(|e| e.name == name).expect("the item").clone();
    assert_eq!((item("switches_involuntary").unit.as_str(), item("switches_involuntary").mean), ("1/s", Some(200.0)));
    assert_eq!((item("user_s").unit.as_str(), item("user_s").mean), ("s", Some(1.5)));
    assert_eq!(item("steal_s").mean, None);
    assert_eq!(item("steal_s").absent.as_deref(), Some("not a virtual machine"));
    let quantiles = &analysis.arms[0].quantiles["latency"];
    assert_eq!(quantiles.iter().filter(|q| q.thin).map(|q| q.quantile).collect::<Vec<_>>(), [0.9999]);
}
