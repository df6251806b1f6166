//! The search over settings: what is planted is found, what must not be proposed is not, and the same trials lead to
//! the same place.

use holdup_stats::random::Noise;
use holdup_stats::tuning::{
    Conflict, Ended, Factor, Next, Options, Phase, Point, Seen, Space, Surface, SurfaceOptions, Tuning, simulate_tuning,
};
use proptest::prelude::*;

fn space(levels: &[u8]) -> Space {
    let factor = |levels: &u8| Factor { levels: *levels, is_ordered: false, change_cost_s: 0.0 };
    Space { factors: levels.iter().map(factor).collect(), conflicts: Vec::new() }
}

type Block = Vec<(Point, Seen)>;

/// Plays a search with 2 % noise and blocks that differ by 5 %; `truth` gives the value and the guards of a point.
fn play(
    space: Space,
    options: Options,
    mut truth: impl FnMut(&[u8]) -> Option<(f64, Vec<f64>)>,
) -> (Tuning, Ended, Vec<Block>, Vec<Phase>) {
    let factors = space.factors.len();
    let mut tuning = Tuning::new(space, options).expect("a search");
    let mut random = Noise::new(7);
    let (mut blocks, mut phases) = (Vec::new(), Vec::new());
    loop {
        match tuning.next() {
            Next::Done { reason } => return (tuning, reason, blocks, phases),
            Next::Measure { points, phase, .. } => {
                phases.push(phase);
                let level = 3.0 + 0.05 * random.normal();
                let all = std::iter::once(Point::default_of(factors)).chain(points);
                let mut trial = |point: Point| {
                    let seen = truth(&point.0);
                    let mut noisy = |log: f64| level + log + 0.02 * random.normal();
                    let value_log = seen.as_ref().map(|(value, _)| noisy(*value));
                    let guards_log =
                        seen.map_or(vec![None; 1], |(_, g)| g.into_iter().map(|g| Some(noisy(g))).collect());
                    (point, Seen { value_log, guards_log })
                };
                let block: Block = all.map(&mut trial).collect();
                tuning.add_block(&block).expect("a block");
                blocks.push(block);
            }
        }
    }
}

fn guarded(seed: u64) -> Options {
    Options { seed, guards_log: vec![0.03], ..Options::default() }
}

/// Plays with a guard that nothing touches.
fn play_value(
    space: Space,
    seed: u64,
    truth: impl Fn(&[u8]) -> Option<f64>,
) -> (Tuning, Ended, Vec<Block>, Vec<Phase>) {
    play(space, guarded(seed), |point| truth(point).map(|value| (value, vec![0.0])))
}

#[test]
fn one_main_effect_is_found_alone() {
    for seed in 0..3 {
        let gain = |p: &[u8]| Some(if p[2] == 1 { 0.1 } else { 0.0 });
        let (tuning, end, _, phases) = play_value(space(&[2, 3, 2, 4, 2]), seed, gain);
        let outcome = tuning.outcome();
        assert_eq!((end, outcome.best.0.as_slice()), (Ended::Found, &[0, 0, 1, 0, 0][..]), "{seed}");
        assert!(
            (outcome.gain_log - 0.1).abs() < 4.0 * outcome.gain_se_log && outcome.gain_se_log < 0.02,
            "{outcome:?}"
        );
        let effect = outcome.main_effects.iter().find(|e| (e.factor, e.level) == (2, 1)).expect("an effect");
        assert!((effect.effect_log - 0.1).abs() < 0.03 && effect.trials > 10, "{effect:?}");
        assert_eq!((phases[0], outcome.infeasible.len()), (Phase::Screening, 0));
        assert!(tuning.trials() <= 120, "{}", tuning.trials());
    }
}

#[test]
fn an_interaction_that_is_visible_in_pairs_only_is_found() {
    for seed in 0..3 {
        let gain = |p: &[u8]| Some(if p[0] == 1 && p[3] == 2 { 0.12 } else { 0.0 });
        let (tuning, end, ..) = play_value(space(&[2, 3, 2, 3, 2]), seed, gain);
        let outcome = tuning.outcome();
        assert_eq!((end, outcome.best.0.as_slice()), (Ended::Found, &[1, 0, 0, 2, 0][..]), "{seed}");
        let pair = outcome.interactions.first().expect("an interaction");
        assert_eq!((pair.a, pair.b), ((0, 1), (3, 2)));
        assert!((pair.effect_log - 0.12).abs() < 0.04, "{pair:?}");
    }
}

#[test]
fn the_far_end_of_an_ordered_factor_is_found() {
    let mut space = space(&[2, 6, 2, 6]);
    space.factors[1].is_ordered = true;
    space.factors[3].is_ordered = true;
    let (tuning, end, ..) = play_value(space, 1, |p| Some(0.03 * f64::from(p[1])));
    let outcome = tuning.outcome();
    assert_eq!((end, outcome.best.0.as_slice()), (Ended::Found, &[0, 5, 0, 0][..]));
}

#[test]
fn a_cliff_of_two_good_levels_is_avoided() {
    for seed in 0..3 {
        let value = |p: &[u8]| {
            let alone = 0.1 * f64::from(p[0].min(1)) + 0.08 * f64::from(p[1].min(1));
            Some(if p[0] > 0 && p[1] > 0 { alone - 0.7 } else { alone })
        };
        let (tuning, end, ..) = play_value(space(&[2, 2, 3, 2]), seed, value);
        assert_eq!((end, tuning.outcome().best.0.as_slice()), (Ended::Found, &[1, 0, 0, 0][..]), "{seed}");
    }
}

#[test]
fn a_level_at_which_trials_fail_is_named_and_left_alone() {
    for seed in 0..3 {
        let value = |p: &[u8]| (p[1] != 2).then_some(if p[0] == 1 { 0.08 } else { 0.0 });
        let (tuning, end, blocks, _) = play_value(space(&[2, 3, 2, 2, 3]), seed, value);
        let outcome = tuning.outcome();
        assert_eq!((end, outcome.best.0.as_slice()), (Ended::Found, &[1, 0, 0, 0, 0][..]), "{seed}");
        assert_eq!(outcome.infeasible, [(1, 2)], "{seed}");
        let failed = blocks.iter().flatten().filter(|(_, seen)| seen.value_log.is_none()).count();
        assert!(failed <= 8, "{failed} failed trials for one level");
    }
}

#[test]
fn two_levels_that_fail_together_do_not_blame_each_alone() {
    let value = |p: &[u8]| (p[0] == 0 || p[1] == 0).then_some(0.06 * f64::from(p[0]) + 0.1 * f64::from(p[1]));
    let (tuning, _, blocks, _) = play_value(space(&[2, 2, 3, 2]), 3, value);
    let outcome = tuning.outcome();
    assert_eq!((outcome.best.0.as_slice(), outcome.infeasible.len()), (&[0, 1, 0, 0][..], 0));
    assert!(blocks.iter().flatten().any(|(_, seen)| seen.value_log.is_none()));
}

#[test]
fn a_point_that_violates_a_guard_is_not_the_answer() {
    for seed in 0..3 {
        // The best level makes the guard 10 % worse, where 3 % are allowed.
        let truth = |p: &[u8]| {
            let value = 0.15 * f64::from(p[0]) + 0.06 * f64::from(p[1]);
            Some((value, vec![0.1 * f64::from(p[0]) + 0.01 * f64::from(p[1])]))
        };
        let (tuning, end, ..) = play(space(&[2, 2, 2, 3]), guarded(seed), truth);
        let outcome = tuning.outcome();
        assert_eq!((end, &outcome.best.0[..2]), (Ended::Found, &[0, 1][..]), "{seed}");
        assert!(outcome.candidates.iter().all(|c| c.point.0[0] == 0 || !c.is_eligible), "{:?}", outcome.candidates);
    }
}

#[test]
fn one_noisy_trial_of_a_guard_does_not_keep_a_point_out() {
    let mut is_first = true;
    let truth = |p: &[u8]| {
        let is_odd = p[0] == 1 && std::mem::take(&mut is_first);
        Some((0.1 * f64::from(p[0]), vec![if is_odd { 0.3 } else { 0.0 }]))
    };
    let (tuning, ..) = play(space(&[2, 2, 2, 3]), guarded(1), truth);
    assert_eq!(tuning.outcome().best.0[0], 1);
}

#[test]
fn one_wild_trial_does_not_decide() {
    let mut trials = 0;
    let truth = |p: &[u8]| {
        trials += 1;
        let wild = if trials % 25 == 9 { -0.8 } else { 0.0 };
        Some((0.1 * f64::from(p[0]) + wild, vec![0.0]))
    };
    let (tuning, ..) = play(space(&[2, 2, 3, 2]), guarded(1), truth);
    let outcome = tuning.outcome();
    assert_eq!(outcome.best.0, [1, 0, 0, 0]);
    assert!((outcome.gain_log - 0.1).abs() < 0.03, "{outcome:?}");
}

#[test]
fn nothing_gains_is_an_answer() {
    for seed in 0..5 {
        let worse = |p: &[u8]| Some(if p[1] == 1 { -0.08 } else { 0.0 });
        let (tuning, end, ..) = play_value(space(&[2, 3, 4, 2, 2]), seed, worse);
        assert!(tuning.outcome().best.is_default(), "{seed}: {:?}", tuning.outcome());
        assert_eq!(end, Ended::NothingGains, "{seed}");
    }
}

#[test]
fn levels_in_conflict_are_never_proposed() {
    let conflicts = vec![Conflict { a: (0, 1), b: (1, 1) }, Conflict { a: (2, 0), b: (3, 1) }];
    let space = Space { conflicts, ..space(&[2, 2, 3, 2]) };
    let value = |p: &[u8]| Some(0.1 * f64::from(p[0]) + 0.08 * f64::from(p[1]) + 0.05 * f64::from(p[3]));
    let (tuning, _, blocks, _) = play_value(space, 1, value);
    for (point, _) in blocks.iter().flatten() {
        assert!(!(point.0[0] == 1 && point.0[1] == 1 || point.0[2] == 0 && point.0[3] == 1), "{point:?}");
    }
    let best = tuning.outcome().best.0;
    assert!(best[0] == 1 && best[1] == 0 && best[2] > 0 && best[3] == 1, "{best:?}");
}

#[test]
fn trials_used_up_end_the_search() {
    let options = Options { most_trials: 20, points_per_block: 7, ..guarded(1) };
    let mut random = Noise::new(5);
    let (tuning, end, ..) = play(space(&[4, 4, 4, 4, 4]), options, |_| Some((0.3 * random.normal(), vec![0.0])));
    assert_eq!(end, Ended::OutOfTrials);
    assert!(tuning.trials() <= 20);
}

#[test]
fn a_replayed_log_leads_to_the_same_place() {
    let gain = |p: &[u8]| (p[4] != 1).then_some(if p[0] == 1 && p[3] == 2 { 0.12 } else { 0.0 });
    let (tuning, end, blocks, _) = play_value(space(&[2, 3, 2, 3, 2]), 1, gain);
    let mut again = Tuning::new(space(&[2, 3, 2, 3, 2]), guarded(1)).expect("a search");
    for block in &blocks {
        again.add_block(block).expect("a block");
    }
    assert_eq!(again.next(), Next::Done { reason: end });
    assert_eq!(again.outcome(), tuning.outcome());
}

#[test]
fn a_block_that_was_cut_short_is_taken() {
    let mut tuning = Tuning::new(space(&[2, 2]), Options::default()).expect("a search");
    let seen = |value: f64| Seen { value_log: Some(value), guards_log: Vec::new() };
    tuning.add_block(&[(Point(vec![0, 0]), seen(1.0))]).expect("the default alone");
    tuning.add_block(&[(Point(vec![1, 0]), seen(1.1)), (Point(vec![0, 0]), seen(1.0))]).expect("one point");
    assert_eq!(tuning.trials(), 3);
    assert!(matches!(tuning.next(), Next::Measure { .. }));
}

#[test]
fn before_anything_is_measured_the_default_is_the_best() {
    let tuning = Tuning::new(space(&[2, 3, 8]), Options::default()).expect("a search");
    let outcome = tuning.outcome();
    assert!(outcome.best.is_default() && outcome.gain_log == 0.0);
    assert!(outcome.main_effects.iter().all(|e| e.effect_log == 0.0 && e.se_log > 0.0 && e.trials == 0));
}

#[test]
fn bad_spaces_options_and_blocks_have_their_reason() {
    let refused = |space: Space, options: Options, expect: &str| {
        let error = Tuning::new(space, options).expect_err("a reason");
        assert!(error.reason.contains(expect), "{:?} does not say {expect:?}", error.reason);
    };
    let good = Options::default;
    let conflict = |a, b| Space { conflicts: vec![Conflict { a, b }], ..space(&[2, 2]) };
    let cost = |cost| Space {
        factors: vec![Factor { levels: 2, is_ordered: false, change_cost_s: cost }],
        conflicts: Vec::new(),
    };
    refused(space(&[]), good(), "no factor");
    refused(space(&[2; 65]), good(), "65 factors");
    refused(space(&[2, 1]), good(), "factor 1 has 1 levels");
    refused(space(&[9]), good(), "9 levels");
    refused(cost(f64::NAN), good(), "not finite");
    refused(conflict((0, 0), (1, 0)), good(), "excludes the default");
    refused(conflict((0, 1), (2, 0)), good(), "factor 2");
    refused(conflict((0, 1), (0, 0)), good(), "with itself");
    refused(space(&[2]), Options { least_gain_log: f64::NAN, ..good() }, "least gain");
    refused(space(&[2]), Options { guards_log: vec![-1.0], ..good() }, "guard");
    refused(space(&[2]), Options { points_per_block: 0, ..good() }, "no points");

    let mut tuning = Tuning::new(space(&[2, 2]), good()).expect("a search");
    let seen = Seen { value_log: Some(1.0), guards_log: Vec::new() };
    let mut check = |block: &[(Point, Seen)], expect: &str| {
        let error = tuning.add_block(block).expect_err("a reason");
        assert!(error.reason.contains(expect), "{:?} does not say {expect:?}", error.reason);
    };
    let at = |levels: &[u8]| (Point(levels.to_vec()), seen.clone());
    check(&[at(&[0, 1])], "lacks the default");
    check(&[at(&[0, 0]), at(&[0, 0])], "twice");
    check(&[at(&[0])], "1 factors");
    check(&[at(&[0, 2])], "no level 2");
    check(&[(Point(vec![0, 0]), Seen { guards_log: vec![None], ..seen.clone() })], "1 guards");
    check(&[(Point(vec![0, 0]), Seen { value_log: Some(f64::NAN), ..seen.clone() })], "no logarithm");
}

#[test]
fn most_simulated_searches_end_near_the_best_point() {
    let options = SurfaceOptions::small(0.02);
    let near = (1000..1012_u64).filter(|seed| {
        let surface = Surface::new(&options, *seed);
        let (played, _) = simulate_tuning(&surface, &Options::default(), *seed).expect("a search");
        played.is_within(0.02)
    });
    assert!(near.count() >= 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_trials_never_panic(
        levels in prop::collection::vec((2..=8_u8, any::<bool>()), 1..6),
        conflicts in prop::collection::vec(((0..6_usize, 0..8_u8), (0..6_usize, 0..8_u8)), 0..4),
        values in prop::collection::vec(prop_oneof![
            2 => Just(None),
            6 => (-0.2..0.2_f64).prop_map(Some),
            1 => prop_oneof![Just(1e3), Just(-1e3), Just(0.0), Just(5e-324), Just(f64::NAN), Just(f64::MAX)].prop_map(Some),
        ], 1..40),
        points_per_block in 1..9_u32,
        most_trials in 0..60_u32,
        seed in any::<u64>(),
    ) {
        let factors = levels.iter().map(|(levels, is_ordered)| {
            Factor { levels: *levels, is_ordered: *is_ordered, change_cost_s: f64::from(*levels) }
        });
        let space = Space {
            factors: factors.collect(),
            conflicts: conflicts.into_iter().map(|(a, b)| Conflict { a, b }).collect(),
        };
        let options = Options { seed, most_trials, points_per_block, guards_log: vec![0.05], ..Options::default() };
        if let Ok(mut tuning) = Tuning::new(space.clone(), options) {
            let mut values = values.into_iter().cycle();
            for _ in 0..200 {
                let Next::Measure { points, .. } = tuning.next() else { break };
                prop_assert!(!points.is_empty() && points.len() <= points_per_block as usize);
                prop_assert!(tuning.trials() + (points.len() as u32) < most_trials);
                let all = std::iter::once(Point::default_of(levels.len())).chain(points);
                let mut next = || values.next().flatten();
                let block: Block =
                    all.map(|p| (p, Seen { value_log: next(), guards_log: vec![next()] })).collect();
                let is_sound = |v: &f64| v.abs() <= 1e3;
                let are_sound = block.iter().all(|(_, s)| s.value_log.iter().chain(s.guards_log.iter().flatten()).all(is_sound));
                let taken = tuning.add_block(&block);
                prop_assert_eq!(taken.is_ok(), are_sound);
                if taken.is_err() {
                    break;
                }
            }
            let outcome = tuning.outcome();
            prop_assert!(outcome.gain_log.is_finite() && outcome.gain_se_log.is_finite());
            prop_assert!(space.conflicts.iter().all(|c| outcome.best.0[c.a.0] != c.a.1 || outcome.best.0[c.b.0] != c.b.1));
        }
    }
}
