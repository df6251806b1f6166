//! Where noise comes from, whether a ratio held still, counts, looks, resampling: single cases.

use holdup_stats::{
    ALPHA, BlockPair, Effect, Looks, Question, Unsteady, decide, judge_question, ratio_bootstrap, spread, unsteady,
};

fn pair(session: u32, block: u32, a: f64, b: f64) -> BlockPair {
    BlockPair { session, block, a, b }
}

/// A wobble without trend or memory, between −1 and 1.
fn wobble(i: u32) -> f64 {
    f64::from((i * 7919) % 13) / 6.0 - 1.0
}

#[test]
fn spread_finds_what_was_put_in() {
    // Trials alternate by 1 %, blocks by 3 %, and nothing else.
    let pairs: Vec<BlockPair> = (0..16)
        .map(|i| {
            let shared = if i % 2 == 0 { 0.03_f64 } else { -0.03 };
            let own = if i % 4 < 2 { 0.01_f64 } else { -0.01 };
            pair(0, i, 100.0 * (shared + own).exp(), 100.0 * (shared - own).exp())
        })
        .collect();
    let found = spread(&pairs).expect("a split");
    // A difference of ±0.02 has a variance of 0.0004 × 16/15, half of which is a trial's.
    assert!((found.trial - (0.0004_f64 * 16.0 / 15.0 / 2.0).sqrt()).abs() < 1e-12, "{found:?}");
    assert!((found.block - 0.03).abs() < 0.001, "{found:?}");
    assert_eq!((found.session, found.ratio_by_session, found.blocks, found.sessions), (None, None, 16, 1));
}

#[test]
fn spread_distinguishes_a_shift_of_everything_from_a_shift_of_the_ratio() {
    let of = |level: f64, ratio: f64| {
        let pairs: Vec<BlockPair> = (0..4)
            .flat_map(|session| {
                let sign = if session % 2 == 0 { 1.0 } else { -1.0 };
                (0..4).map(move |b| {
                    let (shared, own) = (sign * level, 0.001 * wobble(session * 4 + b));
                    let b_shift = sign * ratio;
                    pair(session, session * 4 + b, (shared + own).exp(), (shared + b_shift - own).exp())
                })
            })
            .collect();
        spread(&pairs).expect("a split")
    };
    let level = of(0.05, 0.0);
    assert!(level.session.is_some_and(|s| (s - 0.0577).abs() < 0.001), "{level:?}");
    assert!(level.ratio_by_session.is_some_and(|s| s < 0.002), "{level:?}");
    let ratio = of(0.0, 0.05);
    assert!(ratio.ratio_by_session.is_some_and(|s| (s - 0.0577).abs() < 0.001), "{ratio:?}");
    assert!(spread(&[pair(0, 0, 1.0, 1.0), pair(1, 1, 1.0, 1.0)]).expect_err("one each").reason.contains("two blocks"));
    assert!(spread(&[pair(0, 0, 0.0, 1.0)]).expect_err("zero").reason.contains("zero"));
}

#[test]
fn a_ratio_that_moves_is_unsteady_and_one_that_stays_is_not() {
    let run = |n: u32, ratio: &dyn Fn(u32) -> f64| -> Option<Unsteady> {
        let pairs: Vec<BlockPair> = (0..n)
            .map(|i| {
                // Both arms drift together by 30 %: pairing takes that out.
                let level = 1000.0 * (0.3 * f64::from(i) / f64::from(n)).exp();
                pair(0, i, level, level * (ratio(i) + 0.005 * wobble(i)).exp())
            })
            .collect();
        unsteady(&pairs)
    };
    assert_eq!(run(20, &|_| 0.05), None, "a drift of both arms is none of the ratio");
    let Some(Unsteady::Drifts { rank_correlation, .. }) = run(20, &|i| 0.002 * f64::from(i)) else {
        panic!("no drift")
    };
    assert!(rank_correlation > 0.9);
    let spells = run(40, &|i| if (i / 5) % 2 == 0 { 0.02 } else { -0.02 });
    assert!(matches!(spells, Some(Unsteady::Spells { autocorrelation, .. }) if autocorrelation > 0.4), "{spells:?}");
    assert!(spells.is_some_and(|s| s.reason().contains("not independent")));
    assert_eq!(
        run(40, &|i| if i % 2 == 0 { 0.02 } else { -0.02 }),
        None,
        "a ratio that alternates is not made too narrow"
    );
    assert_eq!(run(7, &|i| 0.01 * f64::from(i)), None, "seven blocks cannot show it");
    assert_eq!(unsteady(&[pair(0, 0, f64::NAN, 1.0); 20]), None);
}

#[test]
fn the_mean_of_a_session_is_no_drift() {
    let pairs: Vec<BlockPair> =
        (0..20).map(|i| pair(i / 5, i, 1.0, (f64::from(i / 5) * 0.05 + 0.005 * wobble(i)).exp())).collect();
    assert_eq!(unsteady(&pairs), None);
}

#[test]
fn early_looks_are_strict_and_the_last_is_nearly_free() {
    for last in [5, 6, 10, 20, 37, 100, 1_000, u32::MAX] {
        let looks = Looks::until(last);
        let levels: Vec<f64> = (4..=last.min(200)).map(|n| looks.level(n)).collect();
        assert!(levels.windows(2).all(|w| w[0] < w[1]), "until {last}");
        assert!(looks.level(last) < ALPHA && looks.level(last) > 0.018, "until {last}: {}", looks.level(last));
        assert_eq!(looks.level(last), looks.level(last.saturating_add(5)), "nothing lies beyond the last");
    }
    // One look is a fixed number of blocks; fewer than four never give a verdict.
    assert_eq!((Looks::until(4).level(4), Looks::until(2).level(2), Looks::until(0).first()), (ALPHA, ALPHA, 0));
    assert!((Looks::until(20).confidence(20) - 0.9767).abs() < 1e-9);
}

#[test]
fn a_look_asks_for_more_than_a_fixed_number_of_blocks() {
    let pairs: Vec<BlockPair> =
        [1.05, 1.02, 1.07, 1.01, 1.04].iter().zip(0..).map(|(b, block)| pair(0, block, 1.0, *b)).collect();
    let effect = Effect::paired(&pairs).expect("an effect");
    let p = effect.p_difference();
    assert!(p < ALPHA && p > Looks::until(20).level(5), "p {p}");
    assert!(decide(&effect, &Question::alone(0.001)).is_some());
    let question = Question { level: Looks::until(20).level(5), ..Question::alone(0.001) };
    assert_eq!(decide(&effect, &question), None);
    assert!(matches!(
        judge_question(&effect, &question),
        holdup_model::Verdict::Undecided { blocks_needed: Some(_), .. }
    ));
}

#[test]
fn the_bootstrap_says_why_it_cannot() {
    let run = |pairs: &[BlockPair], resamples: u32| ratio_bootstrap(pairs, 0.95, resamples, 1);
    let good: Vec<BlockPair> = (0..20).map(|i| pair(0, i, 1.0, 1.05 + 0.02 * wobble(i))).collect();
    let found = run(&good, 2_000).expect("an interval");
    assert!(found.low < found.value && found.value < found.high && found.n == 20, "{found:?}");
    assert_eq!(found, run(&good, 2_000).expect("an interval"), "the seed decides every draw");
    assert!(run(&good, 100).expect_err("few").reason.contains("resamples"));
    assert!(run(&good[..4], 2_000).expect_err("few").reason.contains("4 pieces"));
    assert!(run(&[pair(0, 0, 1.0, 1.0); 1], 2_000).is_err() && run(&[], 2_000).is_err());
    let same: Vec<BlockPair> = (0..9).map(|i| pair(0, i, 2.0, 3.0)).collect();
    assert!(run(&same, 2_000).expect_err("constant").reason.contains("no spread"));
    let zero: Vec<BlockPair> = (0..9).map(|i| pair(0, i, 0.0, 3.0)).collect();
    assert!(run(&zero, 2_000).expect_err("zero").reason.contains("zero"));
    assert!(ratio_bootstrap(&good, 1.0, 2_000, 1).is_err());
    // Sessions that differ are the pieces: resampling blocks alone would be far too narrow.
    let sessions: Vec<BlockPair> =
        (0..40).map(|i| pair(i / 5, i, 1.0, 1.05 + 0.05 * wobble(i / 5) + 0.001 * wobble(i))).collect();
    let forgotten: Vec<BlockPair> = sessions.iter().map(|p| BlockPair { session: 0, ..*p }).collect();
    let width = |pairs: &[BlockPair]| run(pairs, 2_000).map(|e| e.high - e.low).expect("an interval");
    assert!(width(&sessions) > 1.5 * width(&forgotten));
}
