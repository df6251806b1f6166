//! When a run may stop, and what turns a verdict into none.

use crate::common;
use common::Maker;
use holdup_analysis::{analyse, is_decided};
use holdup_model::outcome::Contrast;
use holdup_model::plan::StopRule;
use holdup_model::*;

fn factor(analysis: &Analysis) -> &Comparison {
    let wanted = |c: &&Comparison| c.primary && c.pooled && matches!(c.contrast, Contrast::Factor { .. });
    analysis.comparisons.iter().find(wanted).expect("the comparison of the factor")
}

/// One number of clients, so that the only headline is that of the factor; 20 blocks at most.
fn maker(seed: u64) -> Maker {
    Maker { seed, blocks: 20, clients: vec![2], histograms: false, stop: StopRule::Decided, ..Maker::default() }
}

/// The run as the run loop sees it after some blocks.
fn after(whole: &BundleData, blocks: u32) -> BundleData {
    let trials = whole.trials.iter().filter(|t| t.block < blocks).cloned().collect();
    BundleData { trials, schedule: whole.schedule.clone(), ..without_trials(whole) }
}

fn without_trials(whole: &BundleData) -> BundleData {
    BundleData {
        head: whole.head.clone(),
        plan: whole.plan.clone(),
        plan_source: String::new(),
        schedule: Schedule { arms: Vec::new(), trials: Vec::new() },
        metrics: whole.metrics.clone(),
        collectors: Vec::new(),
        environment: Vec::new(),
        trials: Vec::new(),
        log: Vec::new(),
        boot_logs: Vec::new(),
        ending: None,
    }
}

/// The blocks after which the run stops.
fn stops_after(whole: &BundleData) -> Option<u32> {
    (1..=whole.plan.design.blocks).find(|&blocks| is_decided(&after(whole, blocks)))
}

#[test]
fn a_clear_effect_needs_few_blocks_and_a_fixed_number_is_never_cut() {
    let whole = Maker { effect: |_| 0.9, ..maker(1) }.make();
    assert!(stops_after(&whole).is_some_and(|n| (4..=8).contains(&n)), "{:?}", stops_after(&whole));
    let mut fixed = whole;
    fixed.plan.design.stop = StopRule::Blocks;
    assert_eq!(stops_after(&fixed), None);
}

#[test]
fn a_run_that_stops_when_decided_seldom_finds_what_is_not_there() {
    let runs: u32 = 200;
    let (mut different, mut blocks_used) = (0, 0);
    for seed in 0..runs {
        let whole = Maker { cv: 0.02, ..maker(5_000 + u64::from(seed)) }.make();
        let blocks = stops_after(&whole).unwrap_or(20);
        blocks_used += blocks;
        different += u32::from(factor(&analyse(&after(&whole, blocks))).verdict == Verdict::Different);
    }
    // 5 % over the whole run by construction; three standard errors of 200 runs are 4.6 points.
    assert!(f64::from(different) / f64::from(runs) <= 0.096, "{different} of {runs}");
    assert!(blocks_used > 10 * runs, "without an effect most of the blocks are needed: {blocks_used}");
}

#[test]
fn the_answer_is_that_of_the_look_whenever_the_run_ended() {
    // The same five blocks: enough for a plan of five, not enough for one that could have stopped elsewhere.
    let five = Maker { blocks: 5, effect: |_| 0.965, seed: 12, stop: StopRule::Blocks, ..maker(12) }.make();
    let mut cut = five.clone();
    (cut.plan.design.stop, cut.plan.design.blocks) = (StopRule::Decided, 20);
    let (fixed, cut) = (analyse(&five), analyse(&cut));
    let (fixed, cut) = (factor(&fixed), factor(&cut));
    let width = |c: &Comparison| c.ratio.as_ref().map(|r| r.high.ln() - r.low.ln()).expect("a ratio");
    assert!(width(cut) > 1.3 * width(fixed), "{} and {}", width(cut), width(fixed));
    assert_eq!(fixed.verdict, Verdict::Different, "{fixed:?}");
    assert!(matches!(cut.verdict, Verdict::Undecided { .. }), "{cut:?}");
    assert!(cut.p_adjusted > fixed.p_adjusted && cut.p_adjusted > Some(0.05));
    let ratio = cut.ratio.as_ref().expect("a ratio");
    assert!(ratio.confidence == 0.95 && ratio.method.contains("look after every block"), "{ratio:?}");
}

#[test]
fn sessions_are_looked_at_as_a_whole() {
    let base = Maker { effect: |_| 0.8, blocks: 3, sessions: 8, ..maker(3) };
    let whole = base.make();
    let stops = (1..=24).find(|&blocks| is_decided(&after(&whole, blocks))).expect("it is decided");
    assert!(stops >= 12 && stops % 3 == 0, "at the end of the fourth session or later: {stops}");
    let three = Maker { sessions: 3, ..base }.make();
    assert_eq!(
        (1..=8).find(|&blocks| is_decided(&after(&three, blocks))),
        None,
        "three sessions have one look, the last"
    );
}

#[test]
fn nothing_to_compare_is_never_decided() {
    let mut alone = maker(4).make();
    let only: Vec<u32> =
        alone.schedule.arms.iter().filter(|a| a.factors["autogroup"].label == "true").map(|a| a.id).collect();
    alone.plan.factors.clear();
    alone.schedule.arms.retain(|a| only.contains(&a.id));
    alone.schedule.arms.iter_mut().for_each(|a| a.factors.clear());
    alone.trials.retain(|t| only.contains(&t.arm));
    assert_eq!(stops_after(&alone), None);
    assert!(!is_decided(&after(&alone, 0)), "no trial at all");
}

#[test]
fn a_ratio_that_moves_gets_no_verdict_and_one_that_stays_does() {
    // Autogroup off loses 30 % over the run: on average a clear effect, but of no one size.
    let fixed = |ratio_drift: f64, drift: f64| Maker {
        ratio_drift,
        drift,
        effect: |_| 0.9,
        stop: StopRule::Blocks,
        ..maker(6)
    };
    let moved = analyse(&fixed(-0.3, 0.0).make());
    let Verdict::Undecided { reason, .. } = &factor(&moved).verdict else { panic!("{:?}", factor(&moved)) };
    assert!(reason.contains("the ratio itself fell"), "{reason}");
    // Both arms lose 30 % alike: pairing takes that out.
    assert_eq!(factor(&analyse(&fixed(0.0, -0.3).make())).verdict, Verdict::Different);
}

#[test]
fn a_baseline_that_differs_from_itself_swallows_effects_of_its_size() {
    let run = |effect: fn(i64) -> f64| {
        let whole = Maker { aa_ratio: 0.93, effect, stop: StopRule::Blocks, cv: 0.005, ..maker(7) }.make();
        factor(&analyse(&whole)).verdict.clone()
    };
    let Verdict::Undecided { reason, .. } = run(|_| 0.95) else { panic!("5 % under a floor of 7 %") };
    assert!(reason.contains("differs from itself"), "{reason}");
    assert_eq!(run(|_| 0.8), Verdict::Different, "20 % are far above it");
}

#[test]
fn noise_is_split_into_what_pairing_removes_and_what_it_does_not() {
    let analysis = analyse(&Maker { cv: 0.02, drift: 0.5, stop: StopRule::Blocks, ..maker(8) }.make());
    let noise = factor(&analysis).noise.expect("a split");
    assert!((0.01..0.03).contains(&noise.trial_cv), "{noise:?}");
    assert!(noise.block_cv > 0.1, "a drift of both arms is between blocks: {noise:?}");
    let finding = analysis.findings.iter().find(|f| f.analysis == "effect").expect("a finding");
    assert!(finding.details.iter().any(|d| d.starts_with("Noise of a single result")), "{:?}", finding.details);
}
