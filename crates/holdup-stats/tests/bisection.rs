//! The search of a noisy history: its arithmetic, its choices, its answers, and how often they are right.

use holdup_stats::bisection::{
    Bisection, Candidates, Costs, Direction, Finding, Next, Options, Outcome, Tail, TrialCost, World,
    simulate_binary_search, simulate_search,
};

const CHEAP: TrialCost = TrialCost { build_s: 0.0, boot_s: 0.0, run_s: 1.0 };

fn search(n: usize, values: &[(usize, f64)]) -> Bisection {
    search_with(Candidates::alike(n), Options::default(), values)
}

fn search_with(candidates: Candidates, options: Options, values: &[(usize, f64)]) -> Bisection {
    let mut search = Bisection::new(candidates, options).expect("a search");
    for (candidate, value) in values {
        search.observe(*candidate, *value).expect("a value");
    }
    search
}

#[track_caller]
fn check_refused(candidates: Candidates, options: Options, expect: &str) {
    let error = Bisection::new(candidates, options).expect_err("a reason");
    assert!(error.reason.contains(expect), "{:?} does not say {expect:?}", error.reason);
}

#[test]
fn bad_candidates_have_their_reason() {
    let options = Options::default();
    let weights = |weights: &[f64]| Candidates { prior_weights: Some(weights.to_vec()), ..Candidates::alike(3) };
    let cost = |cost: TrialCost| Candidates { costs: Costs::Same(cost), ..Candidates::alike(3) };
    check_refused(Candidates::alike(0), options, "no candidate");
    check_refused(Candidates::alike(1), options, "one candidate only");
    check_refused(Candidates::alike(usize::MAX), options, "more than");
    check_refused(weights(&[1.0, 1.0]), options, "2 prior weights for 3");
    check_refused(weights(&[1.0, f64::NAN, 1.0]), options, "not finite");
    check_refused(weights(&[1.0, -1.0, 1.0]), options, "negative");
    check_refused(weights(&[1.0, 0.0, 0.0]), options, "all prior weights are zero");
    check_refused(cost(TrialCost { run_s: 0.0, ..CHEAP }), options, "no time");
    check_refused(cost(TrialCost { build_s: f64::NAN, ..CHEAP }), options, "not finite");
    check_refused(cost(TrialCost { boot_s: -1.0, ..CHEAP }), options, "negative");
    check_refused(Candidates { costs: Costs::Each(vec![CHEAP]), ..Candidates::alike(3) }, options, "1 costs for 3");
}

#[test]
fn bad_options_have_their_reason() {
    let check = |options: Options, expect: &str| check_refused(Candidates::alike(3), options, expect);
    let good = Options::default();
    for bad in [0.5, 1.0, f64::NAN] {
        check(Options { confidence: bad, ..good }, "confidence");
    }
    for bad in [0.0, 1.0, f64::NAN] {
        check(Options { no_step_prior: bad, ..good }, "prior of no step");
    }
    check(Options { min_step: f64::NAN, ..good }, "smallest step");
    check(Options { expected_cv: 0.0, ..good }, "coefficient of variation");
    check(Options { build_variance_ratio: Some(f64::INFINITY), ..good }, "variance ratio");
    check(Options { outlier_limit: Some(0.0), ..good }, "outliers");
    check(Options { end_trials: 1, ..good }, "two trials");
}

#[test]
fn bad_trials_have_their_reason_and_change_nothing() {
    let mut search = search(5, &[(0, 10.0), (4, 11.0)]);
    let before = search.posterior();
    for (value, expect) in [(f64::NAN, "not a number"), (f64::INFINITY, "infinite"), (0.0, "zero"), (-1.0, "negative")]
    {
        let error = search.observe(2, value).expect_err("a reason");
        assert!(error.reason.contains(expect), "{error}");
    }
    assert!(search.observe(5, 1.0).expect_err("a reason").reason.contains("does not exist"));
    assert!(search.skip(5).expect_err("a reason").reason.contains("does not exist"));
    assert!(search.skip(0).is_err() && search.skip(4).is_err(), "the ends are needed");
    search.skip(2).expect("may be skipped");
    assert!(search.observe(2, 1.0).expect_err("a reason").reason.contains("skipped"));
    assert_eq!((search.posterior(), search.trials()), (before, 2));
}

#[test]
fn the_posterior_is_the_integral() {
    // Computed by summing prior times likelihood over a grid of μ, log σ and δ (1.0, 4, 40, 1000 σ² as
    // variances of δ), without the closed form.
    let values = [(0, 100.0), (0, 101.5), (1, 100.4), (2, 103.5), (3, 104.0), (3, 102.2)];
    let options = Options {
        outlier_limit: None,
        min_step: 0.0,
        no_step_prior: 0.2,
        build_variance_ratio: Some(0.0),
        may_drift: false,
        ..Options::default()
    };
    let posterior = search_with(Candidates::alike(4), options, &values).posterior();
    let expected = [0.0, 0.171_930_02, 0.473_162_48, 0.169_270_33];
    for (got, want) in posterior.iter().zip(expected) {
        assert!((got - want).abs() < 1e-6, "{posterior:?} is not {expected:?}");
    }
}

#[test]
fn probabilities_sum_to_one_for_all_values() {
    let wild: [&[(usize, f64)]; 5] = [
        &[(0, 5e-324), (9, f64::MAX)],
        &[(0, 1.0), (9, 1.0), (4, 1.0), (5, 1.0)],
        &[(0, 1e-300), (0, 1e300), (9, 1.0), (9, 1e-300), (4, 1e300)],
        &[(9, 1.0), (0, 2.0)],
        &[(4, 1.0)],
    ];
    for direction in [Direction::Any, Direction::Up, Direction::Down] {
        for values in wild {
            let options = Options { direction, ..Options::default() };
            let search = search_with(Candidates::alike(10), options, values);
            let sum: f64 = search.posterior().iter().sum::<f64>() + search.no_step() + search.wrong_direction();
            assert!((sum - 1.0).abs() < 1e-9, "{values:?}: {sum}");
            assert!(search.posterior().iter().all(|p| (0.0..=1.0).contains(p)), "{values:?}");
            if let Next::Measure { expected_information_bits: bits, .. } = search.next() {
                assert!((0.0..5.0).contains(&bits), "{values:?}: {bits}");
            }
        }
    }
}

#[test]
fn the_ends_come_first_and_take_turns() {
    let mut search = search(100, &[]);
    let mut order = Vec::new();
    while let Next::Measure { candidate, expected_information_bits, .. } = search.next() {
        if expected_information_bits > 0.0 {
            break;
        }
        order.push(candidate);
        search.observe(candidate, if candidate == 0 { 100.0 } else { 200.0 }).expect("a value");
    }
    assert_eq!(order, [0, 99, 0, 99, 0, 99]);
}

/// Ends far apart, known well.
fn ends(n: usize) -> Vec<(usize, f64)> {
    (0..10)
        .map(|i| (if i % 2 == 0 { 0 } else { n - 1 }, if i % 2 == 0 { 100.0 } else { 150.0 } + f64::from(i) * 0.1))
        .collect()
}

#[test]
fn a_clear_step_is_bisected_in_the_middle_of_the_prior() {
    let middle = |candidates: Candidates| match search_with(candidates, Options::default(), &ends(101)).next() {
        Next::Measure { candidate, expected_information_bits, .. } => (candidate, expected_information_bits),
        end => panic!("{end:?}"),
    };
    let (candidate, bits) = middle(Candidates::alike(101));
    assert!((48..=53).contains(&candidate) && bits > 0.9, "{candidate} {bits}");
    let weights = (0..101).map(|c| if c > 90 { 10.0 } else { 0.01 }).collect();
    let (candidate, bits) = middle(Candidates { prior_weights: Some(weights), ..Candidates::alike(101) });
    assert!((94..=96).contains(&candidate) && bits > 0.9, "{candidate} {bits}");
}

#[test]
fn an_expensive_candidate_is_avoided_where_a_cheap_neighbour_is_as_informative() {
    let mut costs = vec![TrialCost { build_s: 600.0, boot_s: 60.0, run_s: 30.0 }; 101];
    let all_alike = search_with(
        Candidates { costs: Costs::Each(costs.clone()), ..Candidates::alike(101) },
        Options::default(),
        &ends(101),
    );
    let Next::Measure { candidate: favourite, cost_s, trials, .. } = all_alike.next() else { panic!("not over") };
    assert!((cost_s - 660.0 - 30.0 * f64::from(trials)).abs() < 1e-9, "{cost_s}");
    for (candidate, cost) in costs.iter_mut().enumerate() {
        if candidate.abs_diff(favourite) <= 5 {
            cost.build_s = 6000.0;
        }
    }
    let search =
        search_with(Candidates { costs: Costs::Each(costs), ..Candidates::alike(101) }, Options::default(), &ends(101));
    let Next::Measure { candidate, .. } = search.next() else { panic!("not over") };
    assert_eq!(candidate.abs_diff(favourite), 6);
}

#[test]
fn a_build_is_paid_once_and_a_boot_for_each_session() {
    let cost = TrialCost { build_s: 100.0, boot_s: 10.0, run_s: 1.0 };
    let candidates = Candidates { costs: Costs::Same(cost), ..Candidates::alike(5) };
    let search = search_with(candidates, Options::default(), &[(0, 1.0), (0, 1.0), (4, 1.0), (0, 1.0)]);
    assert!((search.spent_s() - (111.0 + 1.0 + 111.0 + 11.0)).abs() < 1e-9, "{}", search.spent_s());
}

#[test]
fn candidates_near_the_boundary_are_measured_again() {
    let world = World::new(1000, 0.03, 0.02);
    let mut counts = vec![0_u32; 1000];
    let mut search = Bisection::new(world.candidates, Options::default()).expect("a search");
    let mut turn = 0_u32;
    while let Next::Measure { candidate, .. } = search.next() {
        counts[candidate] += 1;
        turn += 1;
        let wobble = 1.0 + 0.02 * (f64::from(turn) * 2.4).sin();
        search.observe(candidate, wobble * if candidate >= 700 { 103.0 } else { 100.0 }).expect("a value");
    }
    let Next::Done(Finding::Culprit { candidates, probability, step_ratio }) = search.next() else {
        panic!("no culprit")
    };
    assert_eq!(candidates, [700]);
    assert!(probability >= 0.95 && (1.02..1.04).contains(&step_ratio), "{probability} {step_ratio}");
    assert!(counts[699] >= 2 && counts[700] >= 2, "{} and {}", counts[699], counts[700]);
}

#[test]
fn skipped_candidates_stay_suspects() {
    let mut search = search(20, &ends(20));
    for skipped in 8..12 {
        search.skip(skipped).expect("not an end");
    }
    loop {
        match search.next() {
            Next::Measure { candidate, .. } => {
                assert!(!(8..12).contains(&candidate), "{candidate} is skipped");
                let i = search.trials() as f64;
                search.observe(candidate, if candidate >= 10 { 150.0 } else { 100.0 } + i.sin()).expect("a value");
            }
            Next::Done(Finding::Culprit { candidates, probability, .. }) => {
                assert_eq!(candidates, [8, 9, 10, 11, 12]);
                assert!(probability >= 0.95);
                break;
            }
            end => panic!("{end:?}"),
        }
    }
}

#[test]
fn a_candidate_without_prior_is_never_named() {
    let weights = (0..20).map(|c| if c == 10 { 0.0 } else { 1.0 }).collect();
    let mut search = search_with(
        Candidates { prior_weights: Some(weights), ..Candidates::alike(20) },
        Options::default(),
        &ends(20),
    );
    while let Next::Measure { candidate, .. } = search.next() {
        let i = search.trials() as f64;
        search.observe(candidate, if candidate >= 10 { 150.0 } else { 100.0 } + i.sin()).expect("a value");
        assert!(search.posterior()[10].abs() < 1e-300 && search.trials() < 2000);
    }
}

#[test]
fn a_step_the_other_way_is_said_to_be_one() {
    let options = Options { direction: Direction::Up, ..Options::default() };
    let mut world = World::new(200, -0.1, 0.02);
    world.candidates = Candidates::alike(200);
    let outcome = simulate_search(&world, 1, &options).expect("an outcome");
    let Next::Done(Finding::WrongDirection { probability, step_ratio }) = outcome.end else { panic!("{outcome:?}") };
    assert!(probability >= 0.95 && (0.85..0.95).contains(&step_ratio), "{probability} {step_ratio}");
    let options = Options { direction: Direction::Down, ..options };
    assert!(simulate_search(&world, 1, &options).expect("an outcome").found);
}

#[test]
fn a_search_gives_up_and_says_among_whom() {
    let options = Options { most_trials: 12, ..Options::default() };
    let outcome = simulate_search(&World::new(1000, 0.03, 0.02), 3, &options).expect("an outcome");
    let Next::Undecidable { reason, credible } = outcome.end else { panic!("{outcome:?}") };
    assert!(reason.contains("12 trials"), "{reason}");
    assert!(credible.len() > 100 && credible.windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn the_same_trials_give_the_same_bits() {
    let world = World::new(300, 0.05, 0.02);
    let run = || simulate_search(&world, 5, &Options::default()).expect("an outcome");
    assert_eq!(run(), run());
}

fn play(count: u64, world: &World, options: &Options) -> Vec<Outcome> {
    (0..count).map(|seed| simulate_search(world, seed, options).expect("an outcome")).collect()
}

fn share(outcomes: &[Outcome], holds: impl Fn(&Outcome) -> bool) -> f64 {
    outcomes.iter().filter(|o| holds(o)).count() as f64 / outcomes.len() as f64
}

fn mean_trials(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|o| o.trials as f64).sum::<f64>() / outcomes.len() as f64
}

// The shares below are of few searches, so that they are quick; the bounds leave room for that.

#[test]
fn it_is_right_as_often_as_it_says_with_two_thirds_of_the_trials_of_binary_search() {
    let world = World::new(1000, 0.03, 0.02);
    let ours = play(60, &world, &Options::default());
    let theirs: Vec<Outcome> =
        (0..60).map(|seed| simulate_binary_search(&world, seed, 10).expect("an outcome")).collect();
    assert!(ours.iter().zip(&theirs).all(|(a, b)| a.culprit == b.culprit), "both search the same history");
    let (found, peer) = (share(&ours, |o| o.found), share(&theirs, |o| o.found));
    assert!(found >= 0.93 && peer < found - 0.05, "{found} against {peer}");
    let (trials, peer) = (mean_trials(&ours), mean_trials(&theirs));
    assert!((110.0..=120.0).contains(&peer) && trials < 0.7 * peer, "{trials} against {peer}");
}

#[test]
fn without_a_step_no_commit_is_accused() {
    let outcomes = play(40, &World::new(1000, 0.0, 0.02), &Options::default());
    let (accused, none) = (share(&outcomes, |o| o.false_accusation), share(&outcomes, |o| o.found));
    assert!(accused <= 0.05 && none >= 0.9, "{accused} accused, {none} no step");
}

#[test]
fn outliers_cost_trials_and_some_answers() {
    let tail = Tail::Outliers { share: 0.05, times: 10.0 };
    let world = World { tail, ..World::new(200, 0.06, 0.02) };
    let found = |outlier_limit| {
        let outcomes = play(30, &world, &Options { outlier_limit, ..Options::default() });
        (share(&outcomes, |o| o.found), mean_trials(&outcomes))
    };
    let ((kept_down, trials), (as_normal, trials_normal)) = (found(Some(2.5)), found(None));
    assert!(kept_down >= 0.9, "{kept_down}");
    assert!(trials < 0.8 * trials_normal, "{trials} {trials_normal} trials, {kept_down} {as_normal} found");
}

#[test]
fn builds_that_differ_need_their_ratio() {
    let world = World { build_cv: 0.02, ..World::new(100, 0.1, 0.01) };
    let found = |build_variance_ratio| {
        let options = Options { build_variance_ratio, most_trials: 100, ..Options::default() };
        let outcomes = play(30, &world, &options);
        (share(&outcomes, |o| o.found), share(&outcomes, |o| o.false_accusation))
    };
    let ((found_with, accused_with), (_, accused_without)) = (found(Some(4.0)), found(Some(0.0)));
    assert!(accused_with <= 0.05 && found_with >= 0.6, "{found_with} {accused_with} {accused_without}");
    assert!(accused_without > accused_with, "{found_with} {accused_with} {accused_without}");
}

#[test]
fn a_history_of_which_a_third_does_not_build_is_searched_all_the_same() {
    let world = World { skipped_share: 0.33, ..World::new(300, 0.06, 0.02) };
    let outcomes = play(30, &world, &Options::default());
    let several =
        share(&outcomes, |o| matches!(&o.end, Next::Done(Finding::Culprit { candidates, .. }) if candidates.len() > 1));
    assert!(share(&outcomes, |o| o.found) >= 0.9 && (0.1..0.9).contains(&several), "{several}");
}

/// Three trials of each of these candidates, of noise of 0.7 %.
fn measured(candidates: &[usize], level: impl Fn(usize) -> f64) -> Vec<(usize, f64)> {
    let thrice = (0..3).flat_map(|_| candidates.iter().copied());
    thrice.enumerate().map(|(i, c)| (c, level(c) * (1.0 + 0.01 * (i as f64 * 2.4).sin()))).collect()
}

#[test]
fn two_steps_are_said_and_one_is_not() {
    let one = search(21, &measured(&[0, 5, 9, 10, 15, 20], |c| if c < 10 { 100.0 } else { 106.0 }));
    assert_eq!(one.two_steps(), None);
    let level = |c| [100.0, 106.0, 112.0][usize::from(c >= 7) + usize::from(c >= 14)];
    let two = search(21, &measured(&[0, 3, 6, 7, 10, 13, 14, 17, 20], level)).two_steps().expect("two");
    assert_eq!(two.ranges, [(6, 7), (13, 14)]);
    assert!(two.probability > 0.95, "{two:?}");
}

#[test]
fn fresh_trials_say_how_large_a_step_is_and_not_on_which_level() {
    let wobble = |i: usize| 1.0 + 0.01 * (i as f64 * 2.4).sin();
    let fresh = |low: f64, high: f64| -> Vec<(f64, f64)> {
        (0..20).map(|i| (low * wobble(2 * i), high * wobble(2 * i + 1))).collect()
    };
    let between = |c: usize| if c < 7 { 100.0 } else { 106.0 };
    let level = |c: usize| if c >= 14 { 112.0 } else { between(c) };
    let search = |level: &dyn Fn(usize) -> f64| search(21, &measured(&[0, 3, 6, 7, 17, 20], level));
    let said = search(&level).two_steps_with((6, 7), &fresh(110.0, 116.6)).expect("they exist").expect("two");
    assert_eq!(said.ranges, [(6, 7), (7, 17)]);
    assert_eq!(search(&between).two_steps_with((6, 7), &fresh(110.0, 116.6)), Ok(None));
    assert!(search(&level).two_steps_with((6, 21), &fresh(1.0, 1.1)).is_err());
}
