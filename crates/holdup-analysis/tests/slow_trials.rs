//! Ground truth of slow trials: they are induced, with a cause or without one, in every arm or in one, or not at all.

use crate::common;
use common::Maker;
use holdup_analysis::{analyse, compare_arms};
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::plan::EffectKind;
use holdup_model::*;

/// 1 trial in 5 is 30 % slower, in another block of each arm.
fn one_in_five(arm: u32, block: u32) -> f64 {
    if (2 * block + 3 * arm).is_multiple_of(5) { 0.7 } else { 1.0 }
}

/// 3 of 10 trials of arm 1 (autogroup=off) are, and none of the others.
fn only_in_one_arm(arm: u32, block: u32) -> f64 {
    if arm == 1 && [0, 4, 7].contains(&(block % 10)) { 0.7 } else { 1.0 }
}

fn maker(effect_kind: EffectKind) -> Maker {
    Maker { blocks: 20, clients: vec![8], cv: 0.02, histograms: false, effect_kind, ..Maker::default() }
}

fn slow_trials(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|f| f.analysis == "slow-trials")
}

fn headline(analysis: &Analysis) -> (&Comparison, &Finding) {
    let comparison = analysis.comparisons.iter().find(|c| c.headline).expect("a headline");
    (comparison, analysis.findings.iter().find(|f| f.analysis == "effect").expect("its finding"))
}

/// Evidence of the host in each trial: steal, and something that is always there.
fn with_steal(bundle: &mut BundleData, steal: impl Fn(&Trial) -> f64) {
    for trial in &mut bundle.trials {
        let share = |kind: &str, share: f64| EvidenceItem::labelled("cpu_share", kind, "share", share);
        let steady = 0.01 + f64::from(trial.seq * 7 % 11) / 1_000.0;
        let items = vec![share("steal", steal(trial)), share("softirq", steady)];
        trial.evidence.push(Collected { collector: "cpu".into(), items, ..Collected::default() });
    }
}

#[test]
fn slow_trials_are_named_with_the_steal_that_rose_with_them() {
    let mut bundle = Maker { slow: one_in_five, effect: |_| 1.02, ..maker(EffectKind::Mean) }.make();
    with_steal(&mut bundle, |t| {
        (if one_in_five(t.arm, t.block) < 1.0 { 0.12 } else { 0.003 }) + f64::from(t.seq % 3) / 1e4
    });
    let analysis = analyse(&bundle);
    let finding = slow_trials(&analysis).expect("the finding");
    assert_eq!((finding.verdict, finding.headline), (FindingVerdict::Supported, false));
    assert!(
        finding.sentence.contains("12 trials ran far slower than the rest of their arm, in 3 of 3 arms"),
        "{finding:?}"
    );
    assert!(finding.sentence.ends_with("; steal (12 % against 0.31 %) rose with them."), "{}", finding.sentence);
    assert_eq!(finding.trials.len(), 12);
    assert!(finding.details[0].contains("select-only clients=8 autogroup=on: 4 of 20 trials, 3"), "{finding:?}");
    // The mean could not decide, so the next run may leave them out.
    let (comparison, effect) = headline(&analysis);
    assert!(
        matches!(comparison.verdict, Verdict::Undecided { .. }) && comparison.mean_ratio.is_none(),
        "{comparison:?}"
    );
    assert!(finding.details.iter().any(|d| d.contains("--set effect=trimmed") && d.contains("before the run")));
    assert!(!effect.sentence.contains("slow trials"), "{}", effect.sentence);
}

#[test]
fn nothing_is_said_about_causes_where_nothing_rose() {
    let mut bundle = Maker { slow: one_in_five, ..maker(EffectKind::Mean) }.make();
    with_steal(&mut bundle, |t| 0.003 + f64::from(t.seq * 5 % 7) / 1e3);
    let analysis = analyse(&bundle);
    let sentence = &slow_trials(&analysis).expect("the finding").sentence;
    assert!(!sentence.contains("rose"), "{sentence}");
}

#[test]
fn trials_of_ordinary_noise_are_not_slow() {
    let found = (0..200).filter(|seed| {
        let bundle = Maker { seed: 3_000 + seed, ..maker(EffectKind::Trimmed) }.make();
        let analysis = analyse(&bundle);
        let (comparison, effect) = headline(&analysis);
        let n = |e: &Option<Estimate>| e.as_ref().map(|e| e.n);
        if n(&comparison.ratio) == Some(20) {
            // Nothing was left out, so both are the same.
            assert_eq!(n(&comparison.mean_ratio), Some(20));
            assert!(!effect.sentence.contains("slow trials"), "{}", effect.sentence);
        }
        slow_trials(&analysis).is_some() || n(&comparison.ratio) != Some(20)
    });
    assert!(found.count() <= 2, "slow trials where there are none");
}

#[test]
fn without_slow_trials_a_small_effect_is_found_and_both_ratios_are_shown() {
    let mut found = [0, 0];
    for seed in 0..40 {
        let plan = |kind| Maker { seed, slow: one_in_five, effect: |_| 1.05, ..maker(kind) };
        for (found, kind) in found.iter_mut().zip([EffectKind::Mean, EffectKind::Trimmed]) {
            let analysis = analyse(&plan(kind).make());
            *found += u32::from(headline(&analysis).0.verdict == Verdict::Different);
        }
    }
    assert!(found[0] <= 20 && found[1] >= 38, "by the mean and without slow trials: {found:?} of 40");

    let analysis = analyse(&Maker { slow: one_in_five, effect: |_| 1.05, ..maker(EffectKind::Trimmed) }.make());
    let (comparison, effect) = headline(&analysis);
    let (ratio, mean) =
        (comparison.ratio.as_ref().expect("a ratio"), comparison.mean_ratio.as_ref().expect("the mean"));
    assert!(
        (ratio.value - 1.05).abs() < 0.02 && ratio.high - ratio.low < (mean.high - mean.low) / 4.0,
        "{ratio:?} {mean:?}"
    );
    assert_eq!((ratio.n, mean.n), (12, 20));
    assert!(
        effect.sentence.contains(": different, better; slow trials are left out, with them ×"),
        "{}",
        effect.sentence
    );
    assert!(!effect.sentence.contains("Caution"), "{}", effect.sentence);
    let how = effect.details.iter().find(|d| d.starts_with("How: ")).expect("how");
    assert!(how.contains("8 of 20 blocks left out for slow trials (4 of the baseline, 4 of the other arm)"), "{how}");
    assert!(!effect.details.iter().any(|d| d.contains("blocks have all that is compared")), "{effect:?}");
    let noise = analysis.comparisons.iter().find(|c| c.contrast == Contrast::Same && c.primary).expect("A/A");
    assert!(noise.noise_floor.is_some_and(|floor| floor < 0.05), "{noise:?}");
    assert!(slow_trials(&analysis).is_some_and(|f| !f.details.iter().any(|d| d.contains("effect=trimmed"))));
}

#[test]
fn an_arm_whose_own_trials_are_slow_brings_a_caution() {
    let bundle = Maker { slow: only_in_one_arm, ..maker(EffectKind::Trimmed) }.make();
    let analysis = analyse(&bundle);
    let sentence = &slow_trials(&analysis).expect("the finding").sentence;
    assert!(sentence.starts_with("6 of 20 trials of select-only clients=8 autogroup=off ran "), "{sentence}");
    assert!(sentence.contains("0 of 40 of the arms beside it (Fisher's exact test, p "), "{sentence}");
    let caution = "Caution: 6 of 20 trials of select-only clients=8 autogroup=off";
    assert!(headline(&analysis).1.sentence.contains(caution), "{}", headline(&analysis).1.sentence);
    let named = compare_arms(&bundle, "0", "1").expect("two arms");
    assert!(headline(&named).1.sentence.contains(caution), "{}", headline(&named).1.sentence);
    // The mean has the slow trials in it: nothing is hidden.
    let mean = analyse(&Maker { slow: only_in_one_arm, ..maker(EffectKind::Mean) }.make());
    assert!(!headline(&mean).1.sentence.contains("Caution"));
    assert!(slow_trials(&mean).is_some_and(|f| f.sentence.contains("may be an effect of this arm")));
}

#[test]
fn too_few_blocks_are_kept_whole_and_say_so() {
    for (blocks, why) in [(5, "fewer than 6 blocks"), (8, "too few blocks are without a slow trial")] {
        // With 8 blocks 3 trials of each side are slow, in 6 blocks.
        let slow = |arm: u32, block: u32| if block / 3 == arm { 0.4 } else { 1.0 };
        let analysis = analyse(&Maker { blocks, slow, ..maker(EffectKind::Trimmed) }.make());
        let (comparison, effect) = headline(&analysis);
        assert_eq!(comparison.ratio.as_ref().map(|r| r.n), Some(blocks));
        let how = effect.details.iter().find(|d| d.starts_with("How: ")).expect("how");
        assert!(how.contains(why) && how.ends_with("so slow trials count as well."), "{how}");
    }
}
