//! Arbitrary numbers: an answer or a reason, never a panic, never NaN.

use holdup_model::{Direction, Histogram, Verdict};
use holdup_stats::{
    ArmValue, BlockPair, BlockValue, DriftPoint, Effect, Looks, Question, drift, holm, judge, judge_corrected,
    judge_question, littles_law, mean_estimate, noise_floor, quantile_shift, quantile_shift_over_blocks,
    quantile_table, ratio_bootstrap, ratio_paired, ratio_unpaired, slow_trials, spread, students_t, unsteady,
};
use proptest::prelude::*;

fn any_number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        3 => any::<f64>(),
        3 => 1e-3..1e6_f64,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::MAX),
            Just(f64::MIN_POSITIVE),
            Just(5e-324),
            Just(-1.0),
        ],
    ]
}

fn good_number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![1e-3..1e6_f64, Just(1.0), Just(f64::MAX), Just(5e-324)]
}

fn any_pairs(number: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Vec<BlockPair>> {
    let pair = (0..3_u32, 0..6_u32, number.clone(), number);
    prop::collection::vec(pair.prop_map(|(session, block, a, b)| BlockPair { session, block, a, b }), 0..12)
}

fn sound(e: &holdup_model::Estimate) {
    assert!(e.value.is_finite() && e.low.is_finite() && e.high.is_finite(), "{e:?}");
    let slack = 1e-9;
    assert!(e.low > 0.0 && e.low <= e.value * (1.0 + slack) && e.value <= e.high * (1.0 + slack), "{e:?}");
    assert!(e.n >= 2 && !e.method.is_empty(), "{e:?}");
}

fn sound_effect(effect: &Effect, margin: f64) {
    if let Ok(e) = effect.estimate(0.95) {
        sound(&e);
    }
    assert!((0.0..=1.0).contains(&effect.p_difference()), "{effect:?}");
    assert!((0.0..=1.0).contains(&effect.p_equivalence(margin)), "{effect:?}");
    for verdict in [judge(effect, margin), judge_corrected(effect, margin, margin, 7)] {
        if let Verdict::Undecided { reason, blocks_needed } = verdict {
            assert!(!reason.is_empty());
            assert!(blocks_needed.is_none_or(|n| (1..=1000).contains(&n)), "{blocks_needed:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn pairs(p in any_pairs(any_number()), q in any_pairs(good_number()), confidence in any_number(), margin in any_number()) {
        for pairs in [&p, &q] {
            match Effect::paired(pairs) {
                Ok(effect) => sound_effect(&effect, margin),
                Err(no) => prop_assert!(!no.reason.is_empty()),
            }
            if let Ok(e) = ratio_paired(pairs, confidence) {
                sound(&e);
            }
            for better in [Direction::Higher, Direction::Lower] {
                match Effect::trimmed(pairs, better) {
                    Ok(effect) => sound_effect(&effect, margin),
                    Err(no) => prop_assert!(!no.reason.is_empty()),
                }
                let of_a = pairs.iter().map(|p| ArmValue { arm: p.block % 3, session: p.session, value: p.a });
                for arm in slow_trials(&of_a.collect::<Vec<_>>(), better) {
                    prop_assert!(arm.slow.len() < arm.others.len() && !arm.ratio.is_nan(), "{arm:?}");
                }
            }
            if let Ok(floor) = noise_floor(pairs) {
                prop_assert!(floor.floor.is_finite() && floor.floor >= 0.0, "{floor:?}");
            }
        }
        if p.iter().any(|p| [p.a, p.b].iter().any(|v| !(v.is_finite() && *v > 0.0))) {
            prop_assert!(Effect::paired(&p).is_err(), "a value without logarithm gave a number: {p:?}");
        }
    }

    #[test]
    fn noise(p in any_pairs(any_number()), q in any_pairs(good_number()), level in any_number(), last in any::<u32>(), n in any::<u32>()) {
        for pairs in [&p, &q] {
            if let Ok(s) = spread(pairs) {
                let parts = [Some(s.trial), Some(s.block), s.session, s.ratio_by_session];
                prop_assert!(parts.iter().flatten().all(|x| x.is_finite() && *x >= 0.0), "{s:?}");
            }
            if let Some(moved) = unsteady(pairs) {
                prop_assert!(!moved.reason().contains("NaN"), "{moved:?}");
            }
            match ratio_bootstrap(pairs, 0.95, 200, 3) {
                Ok(e) => prop_assert!(e.low > 0.0 && e.low <= e.high && e.high.is_finite(), "{e:?}"),
                Err(no) => prop_assert!(!no.reason.is_empty()),
            }
            if let Ok(effect) = Effect::paired(pairs) {
                // A level that is no level is an answer too: undecided, or one that the numbers bear out.
                let question = Question { level, ..Question::alone(0.02) };
                let _ = judge_question(&effect, &question);
            }
        }
        let looks = Looks::until(last);
        prop_assert!(looks.level(n) > 0.0 - f64::EPSILON && looks.level(n) <= 0.05, "{last} {n}");
    }

    #[test]
    fn sides(p in any_pairs(any_number()), q in any_pairs(good_number()), margin in any_number()) {
        for pairs in [&p, &q] {
            let side = |pick: fn(&BlockPair) -> f64| -> Vec<BlockValue> {
                pairs.iter().map(|p| BlockValue { session: p.session, block: p.block, value: pick(p) }).collect()
            };
            let (a, b) = (side(|p| p.a), side(|p| p.b));
            if let Ok(effect) = Effect::unpaired(&a, &b) {
                sound_effect(&effect, margin);
            }
            if let Ok(e) = ratio_unpaired(&a, &b, 0.95) {
                sound(&e);
            }
            if let Ok(e) = mean_estimate(&a.iter().map(|v| v.value).collect::<Vec<_>>(), 0.95) {
                sound(&e);
            }
        }
    }

    #[test]
    fn the_rest(values in prop::collection::vec(any_number(), 0..40), x in any_number(), y in any_number(), z in any_number()) {
        let adjusted = holm(&values);
        prop_assert_eq!(adjusted.len(), values.len());
        prop_assert!(adjusted.iter().all(|p| (0.0..=1.0).contains(p)));
        let points: Vec<DriftPoint> =
            (0_u32..).zip(&values).map(|(i, &value)| DriftPoint { arm: i % 3, value }).collect();
        if let Ok(d) = drift(&points) {
            prop_assert!([d.rank_correlation, d.p, d.change, d.autocorrelation, d.autocorrelation_p]
                .iter().all(|v| v.is_finite()), "{d:?}");
        }
        if let Ok(law) = littles_law(x, y, z, 0.0) {
            prop_assert!(law.deviation.is_finite() && law.found.is_finite());
        }
        if let Some(t) = students_t::quantile(x, y) {
            prop_assert!(t.is_finite());
        }
        if let Some(p) = students_t::below(x, y) {
            prop_assert!((0.0..=1.0).contains(&p));
        }
        let mut h = Histogram::new();
        for v in &values {
            h.record_ns(v.abs() as u64);
        }
        prop_assert!(quantile_table(&h, &[x, y, z]).iter().all(|q| q.value_ns.is_finite()));
        prop_assert!(quantile_shift(&h, &h).iter().all(|q| q.ratio.is_finite()));
        let blocks = vec![(h.clone(), h); (values.len() % 7) + 1];
        if let Ok(shift) = quantile_shift_over_blocks(&blocks, 1) {
            prop_assert!(shift.iter().all(|q| q.low.is_none_or(|l| l <= q.ratio) && q.high.is_none_or(|h| h >= q.ratio)));
        }
    }
}
