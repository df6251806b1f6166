//! Single cases: what gives a number, what gives a reason, and which verdict.

use holdup_model::{Histogram, Verdict};
use holdup_stats::{
    BlockPair, BlockValue, DriftPoint, Effect, drift, geometric_mean, judge, judge_corrected, littles_law,
    mean_estimate, noise_floor, quantile_shift, quantile_table, ratio_paired, unsteady,
};

fn pairs(ab: &[(f64, f64)]) -> Vec<BlockPair> {
    (0_u32..).zip(ab).map(|(block, &(a, b))| BlockPair { session: 0, block, a, b }).collect()
}

#[track_caller]
fn check_reason(ab: &[(f64, f64)], expect: &str) {
    let error = ratio_paired(&pairs(ab), 0.95).expect_err("a reason");
    assert!(error.reason.contains(expect), "{:?} does not say {expect:?}", error.reason);
}

#[test]
fn no_number_without_its_reason() {
    check_reason(&[], "no block");
    check_reason(&[(1.0, 2.0)], "one block only");
    check_reason(&[(1.0, 2.0), (1.0, f64::NAN)], "not a number");
    check_reason(&[(1.0, 2.0), (f64::INFINITY, 1.0)], "infinite");
    check_reason(&[(1.0, 2.0), (0.0, 1.0)], "zero");
    check_reason(&[(1.0, 2.0), (1.0, -1.0)], "negative");
    check_reason(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], "no spread");
    check_reason(&[(5e-324, f64::MAX), (f64::MAX, 5e-324)], "wider than numbers can hold");
    assert!(ratio_paired(&pairs(&[(1.0, 2.0), (1.0, 3.0)]), 1.0).is_err(), "a confidence of 1 has no interval");
}

#[test]
fn trials_of_a_block_are_averaged_before_they_count() {
    let once = pairs(&[(100.0, 110.0), (100.0, 120.0)]);
    let mut twice = once.clone();
    twice.extend(once.iter().copied());
    let (once, twice) = (ratio_paired(&once, 0.95).expect("once"), ratio_paired(&twice, 0.95).expect("twice"));
    assert_eq!(once, twice, "repeating trials of a block must not make an interval narrower");
}

#[test]
fn identical_ratios_are_a_sign_test_and_say_so() {
    let same = |n: usize, ratio: f64| Effect::paired(&pairs(&vec![(100.0, 100.0 * ratio); n])).expect("an effect");
    let six = same(6, 1.1).estimate(0.95).expect("2^-5 is 3.1 %");
    assert_eq!((six.low, six.high), (six.value, six.value));
    assert!(six.method.contains("sign test") && six.method.contains("no spread"), "{}", six.method);
    assert_eq!(judge(&same(6, 1.1), 0.02), Verdict::Different);
    assert_eq!(judge(&same(6, 1.0), 0.02), Verdict::Equivalent);
    assert!(same(5, 1.1).estimate(0.95).is_err(), "2^-4 is 6.3 %");
    let Verdict::Undecided { blocks_needed, .. } = judge(&same(4, 1.1), 0.02) else { panic!("four cannot decide") };
    assert_eq!(blocks_needed, Some(2));
    assert!(noise_floor(&pairs(&[(1.0, 1.0); 8])).is_err(), "no noise seen is not a floor of zero");
}

#[test]
fn verdicts() {
    let check = |ab: &[(f64, f64)], margin: f64| judge(&Effect::paired(&pairs(ab)).expect("an effect"), margin);
    let small = [(100.0, 100.5), (100.0, 100.6), (100.0, 100.4), (100.0, 100.5), (100.0, 100.55)];
    assert_eq!(check(&small, 0.02), Verdict::Different, "both hold: different wins");
    let level = [(100.0, 100.1), (100.0, 99.9), (100.0, 100.05), (100.0, 99.95)];
    assert_eq!(check(&level, 0.02), Verdict::Equivalent);
    for no_margin in [0.0, -1.0, f64::NAN] {
        assert!(matches!(check(&level, no_margin), Verdict::Undecided { .. }), "margin {no_margin}");
    }
    let Verdict::Undecided { reason, blocks_needed } = check(&small[..3], 0.02) else { panic!("three decided") };
    assert!(reason.contains("3 blocks are too few") && blocks_needed.is_some_and(|n| n >= 1), "{reason}");
    let wild = [(100.0, 140.0), (100.0, 75.0), (100.0, 100.0), (100.0, 95.0)];
    let Verdict::Undecided { reason, blocks_needed } = check(&wild, 0.02) else { panic!("wild decided") };
    assert!(reason.contains("±2 %"), "{reason}");
    assert_eq!(blocks_needed, None, "more than a thousand blocks are hopeless");
}

/// Three runs of a database against three, as they were published with "55 %" and "23 %" (swingbench on 384 CPUs, with
/// and without the slice extension; kernel commit messages of November 2025), with the p of Welch's t on the values.
const PUBLISHED: [([f64; 3], [f64; 3], f64, f64); 2] = [
    ([36_422.80, 33_186.00, 44_309.80], [50_008.10, 59_160.60, 67_342.70], 1.549, 0.032),
    ([33_036.50, 35_939.60, 40_461.70], [50_824.10, 54_058.30, 30_212.50], 1.234, 0.372),
];

#[test]
fn three_erratic_runs_against_three_are_no_finding() {
    for (without, with, ratio_of_means, welch_p) in PUBLISHED {
        let mean = |v: [f64; 3]| v.iter().sum::<f64>() / 3.0;
        assert!((mean(with) / mean(without) - ratio_of_means).abs() < 0.0006, "the published percentage");
        // Paired in the order given, or as two sides: whichever way they are laid out, three against three decide nothing.
        let ab: Vec<(f64, f64)> = without.into_iter().zip(with).collect();
        let Verdict::Undecided { reason, blocks_needed } =
            judge(&Effect::paired(&pairs(&ab)).expect("an effect"), 0.02)
        else {
            panic!("three runs were enough for {ratio_of_means}")
        };
        assert!(reason.contains("too few"), "{reason}");
        assert!(blocks_needed.is_none_or(|n| n >= 1));
        let side = |v: [f64; 3]| -> Vec<BlockValue> {
            (0..).zip(v).map(|(block, value)| BlockValue { session: 0, block, value }).collect()
        };
        let apart = Effect::unpaired(&side(without), &side(with)).expect("an effect");
        assert!(matches!(judge(&apart, 0.02), Verdict::Undecided { .. }));
        // On the logs the p differs a little from the published one on the values themselves.
        assert!((apart.p_difference() - welch_p).abs() < 0.06, "{} and {welch_p}", apart.p_difference());
        let estimate = apart.estimate(0.95).expect("an interval");
        assert!(estimate.high / estimate.low > 1.9, "an interval as wide as the runs are erratic: {estimate:?}");
    }
}

#[test]
fn a_control_that_drifts_is_caught() {
    // Only the baseline was measured again, and it had moved by 1 to 9 points in each round: the "control drift" of
    // published tables. Measured one arm after the other, the drift is the effect; the order of the runs shows it.
    let drifting: Vec<DriftPoint> = [100.0, 98.9, 98.1, 96.7, 96.0, 94.8, 94.1, 93.0, 92.2, 91.1]
        .map(|value| DriftPoint { arm: 0, value })
        .to_vec();
    let found = drift(&drifting).expect("a drift");
    assert!(found.p < 0.001 && found.change < -0.08, "{found:?}");
    // The same rounds with both arms in each: what moved the control moved the other arm too, and pairing removes it.
    let wobble = [0.1, -0.2, 0.15, -0.05, 0.2, -0.1, 0.05, -0.15, 0.1, -0.1];
    let both: Vec<(f64, f64)> =
        drifting.iter().zip(wobble).map(|(p, w)| (p.value, p.value * (1.0 + w / 100.0))).collect();
    assert_eq!(judge(&Effect::paired(&pairs(&both)).expect("an effect"), 0.02), Verdict::Equivalent);
    // And one arm that drifts away from a steady control is no effect of one size.
    let away: Vec<(f64, f64)> = drifting.iter().map(|p| (100.0, p.value)).collect();
    assert!(unsteady(&pairs(&away)).is_some());
}

#[test]
fn a_family_needs_a_smaller_p() {
    let ab = [(100.0, 104.0), (100.0, 101.0), (100.0, 103.5), (100.0, 100.7), (100.0, 102.0)];
    let effect = Effect::paired(&pairs(&ab)).expect("an effect");
    assert_eq!(judge(&effect, 0.001), Verdict::Different);
    let p = (effect.p_difference() * 12.0).min(1.0);
    let Verdict::Undecided { reason, blocks_needed } = judge_corrected(&effect, 0.001, p, 12) else { panic!("{p}") };
    assert!(reason.contains("12 comparisons") && blocks_needed.is_some(), "{reason}");
}

#[test]
fn sessions_are_the_pieces_where_there_are_several() {
    let of = |sessions: u32| -> Effect {
        let pairs: Vec<BlockPair> = (0..12)
            .map(|block| {
                let session = block * sessions / 12;
                let b = 100.0 + f64::from(session) * 3.0 + f64::from(block % 3) * 0.1;
                BlockPair { session, block, a: 100.0, b }
            })
            .collect();
        Effect::paired(&pairs).expect("an effect")
    };
    let (one, three) = (of(1), of(3));
    assert_eq!((one.pieces(), one.blocks_per_piece()), (12, 1));
    assert_eq!((three.pieces(), three.blocks_per_piece(), three.blocks()), (3, 4, 12));
    assert!(three.method().contains("3 session means of 12 blocks"), "{}", three.method());
    let Verdict::Undecided { reason, blocks_needed } = judge(&three, 0.02) else { panic!("decided") };
    assert!(reason.contains("sessions"), "{reason}");
    assert_eq!(blocks_needed.map(|n| n % 4), Some(0), "whole sessions");
}

#[test]
fn an_aa_that_differs_reaches_to_its_far_end() {
    let off = [(100.0, 103.0), (100.0, 103.5), (100.0, 102.5), (100.0, 103.2), (100.0, 102.8)];
    let floor = noise_floor(&pairs(&off)).expect("a floor");
    assert!(floor.differs);
    assert!((floor.floor - (floor.ratio.high - 1.0)).abs() < 1e-9, "{floor:?}");
}

#[test]
fn littles_law_of_a_closed_loop() {
    let law = littles_law(64.0, 8_000.0, 0.008, 0.0).expect("a law");
    assert!(law.holds && law.deviation.abs() < 1e-12 && (law.found - 64.0).abs() < 1e-9);
    let law = littles_law(64.0, 8_000.0, 0.006, 0.0).expect("a law");
    assert!(!law.holds && (law.deviation + 0.25).abs() < 1e-12);
    assert!(littles_law(64.0, 8_000.0, 0.006, 0.002).expect("a law").holds, "think time counts");
    assert!(littles_law(0.0, 1.0, 1.0, 0.0).is_err());
    assert!(littles_law(1.0, f64::NAN, 1.0, 0.0).is_err());
}

#[test]
fn drift_needs_enough_and_sees_a_slope() {
    let line = |n: u32, slope: f64| -> Vec<DriftPoint> {
        (0..n)
            .map(|i| DriftPoint {
                arm: i % 2,
                value: 100.0 * (slope * f64::from(i)).exp() * (1.0 + 0.003 * f64::from((i * 7) % 5)),
            })
            .collect()
    };
    assert!(drift(&line(9, 0.0)).is_err(), "nine trials of two arms");
    let found = drift(&line(30, -0.003)).expect("drift");
    assert!(found.p < 1e-6 && found.rank_correlation < -0.9, "{found:?}");
    assert!((found.change - (-0.003_f64 * 29.0).exp_m1()).abs() < 0.01, "{found:?}");
    assert!(drift(&[DriftPoint { arm: 0, value: 5.0 }; 20]).is_err(), "no spread");
}

#[test]
fn quantiles_are_marked_where_fewer_than_ten_lie_beyond() {
    let mut h = Histogram::new();
    for i in 1..=100_u64 {
        h.record_ns(i * 1_000_000);
    }
    let table = quantile_table(&h, &[0.05, 0.1, 0.5, 0.9, 0.91]);
    assert_eq!(table.iter().map(|q| q.thin).collect::<Vec<_>>(), [true, false, false, false, true]);
    assert!((table[2].value_ns / 50e6 - 1.0).abs() < 0.001);
    assert!(quantile_table(&Histogram::new(), &[0.5]).is_empty());
}

#[test]
fn a_shifted_tail_shows_in_the_tail_only() {
    let (mut a, mut b) = (Histogram::new(), Histogram::new());
    for i in 0..100_000_u64 {
        a.record_ns(1_000_000 + i);
        b.record_ns(if i >= 95_000 { 3_000_000 + i } else { 1_000_000 + i });
    }
    let shift = quantile_shift(&a, &b);
    assert_eq!(shift.len(), 100);
    let at = |q: f64| shift.iter().find(|s| (s.quantile - q).abs() < 1e-9).expect("the quantile");
    assert!((at(0.5).ratio - 1.0).abs() < 0.002 && (at(0.99).ratio - 2.82).abs() < 0.05 && !at(0.999).thin);
    assert!(quantile_shift(&a, &Histogram::new()).is_empty());
}

#[test]
fn means() {
    assert_eq!(geometric_mean(&[2.0, 8.0]).map(|m| (m * 1e9).round()), Some(4e9));
    assert_eq!((geometric_mean(&[]), geometric_mean(&[1.0, 0.0])), (None, None));
    let e = mean_estimate(&[90.0, 100.0, 110.0], 0.95).expect("an estimate");
    assert!(e.low < e.value && e.value < e.high && e.n == 3);
    let lone = [BlockValue { session: 0, block: 0, value: 1.0 }];
    assert!(
        Effect::unpaired(&lone, &lone).expect_err("one block").reason.starts_with("the baseline has one block only")
    );
}
