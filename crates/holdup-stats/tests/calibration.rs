//! Calibration by simulation: seeded, so that a test that passes once passes always.

use crate::common;
use common::Noise;
use holdup_model::Verdict;
use holdup_stats::{BlockPair, BlockValue, DriftPoint, Effect, drift, holm, judge, judge_corrected, noise_floor};

/// Experiments in each cell. At a true 95 %, the standard error of a share of 4,000 is 0.34 points.
const EXPERIMENTS: u32 = 4_000;

/// How pairs come about: a block shifts both arms, a session shifts the ratio, trials scatter.
#[derive(Clone, Copy)]
struct World {
    sessions: u32,
    blocks: u32,
    ratio: f64,
    trial_cv: f64,
    session_spread: f64,
}

fn pairs(world: World, noise: &mut Noise) -> Vec<BlockPair> {
    let mut pairs = Vec::new();
    for session in 0..world.sessions {
        let shift = noise.normal(world.session_spread);
        for b in 0..world.blocks {
            let level = 1000.0 * noise.normal(0.1).exp();
            let a = level * noise.normal(world.trial_cv).exp();
            let b_value = level * world.ratio * (shift + noise.normal(world.trial_cv)).exp();
            pairs.push(BlockPair { session, block: session * world.blocks + b, a, b: b_value });
        }
    }
    pairs
}

/// The share of experiments in which something holds.
fn share(seed: u64, world: World, mut holds: impl FnMut(&[BlockPair]) -> bool) -> f64 {
    let mut noise = Noise::new(seed);
    let hits = (0..EXPERIMENTS).filter(|_| holds(&pairs(world, &mut noise))).count();
    hits as f64 / f64::from(EXPERIMENTS)
}

fn covers(pairs: &[BlockPair], truth: f64) -> bool {
    let estimate = Effect::paired(pairs).and_then(|e| e.estimate(0.95)).expect("an interval");
    estimate.low <= truth && truth <= estimate.high
}

#[track_caller]
fn check_within(what: &str, found: f64, low: f64, high: f64) {
    assert!(found >= low && found <= high, "{what}: {found} is not within {low} and {high}");
}

#[test]
fn intervals_cover_with_and_without_session_effects() {
    for (sessions, blocks) in [(1, 4), (1, 10), (1, 40), (2, 5), (3, 5), (5, 4)] {
        for session_spread in [0.0, 0.02, 0.1] {
            if sessions == 1 && session_spread > 0.0 {
                continue;
            }
            let world = World { sessions, blocks, ratio: 1.05, trial_cv: 0.03, session_spread };
            let found = share(11, world, |p| covers(p, 1.05));
            check_within(&format!("{sessions} sessions of {blocks}, spread {session_spread}"), found, 0.93, 0.97);
        }
    }
}

#[test]
fn blocks_of_several_sessions_are_not_independent() {
    // Why sessions are honoured: the same data with the sessions forgotten cover far too rarely.
    let world = World { sessions: 4, blocks: 5, ratio: 1.0, trial_cv: 0.01, session_spread: 0.05 };
    let forget = |p: &[BlockPair]| -> Vec<BlockPair> { p.iter().map(|p| BlockPair { session: 0, ..*p }).collect() };
    let naive = share(12, world, |p| covers(&forget(p), 1.0));
    assert!(naive < 0.75, "naive coverage {naive}");
    check_within("with sessions", share(12, world, |p| covers(p, 1.0)), 0.93, 0.97);
}

#[test]
fn nothing_is_called_different_in_at_most_one_of_twenty() {
    for (sessions, blocks) in [(1, 5), (1, 20), (3, 4)] {
        let world = World { sessions, blocks, ratio: 1.0, trial_cv: 0.02, session_spread: 0.01 };
        // With one session its shift cannot be separated from the ratio, so it must be none.
        let world = if sessions == 1 { World { session_spread: 0.0, ..world } } else { world };
        let wrong = share(13, world, |p| judge(&Effect::paired(p).expect("an effect"), 0.02) == Verdict::Different);
        check_within(&format!("{sessions} sessions of {blocks}"), wrong, 0.03, 0.06);
    }
}

#[test]
fn a_ratio_at_the_margin_is_called_equivalent_in_at_most_one_of_twenty() {
    for blocks in [4, 10, 40] {
        for ratio in [1.02, 1.0 / 1.02] {
            let world = World { sessions: 1, blocks, ratio, trial_cv: 0.005, session_spread: 0.0 };
            let wrong = share(14, world, |p| Effect::paired(p).expect("an effect").p_equivalence(0.02) <= 0.05);
            check_within(&format!("{blocks} blocks, ratio {ratio}"), wrong, 0.03, 0.06);
        }
    }
}

#[test]
fn power_at_five_percent_change_and_ten_blocks() {
    let world = World { sessions: 1, blocks: 10, ratio: 1.05, trial_cv: 0.02, session_spread: 0.0 };
    let found = share(15, world, |p| judge(&Effect::paired(p).expect("an effect"), 0.02) == Verdict::Different);
    assert!(found >= 0.98, "power {found}");
    let world = World { ratio: 1.0, trial_cv: 0.008, ..world };
    let found = share(16, world, |p| judge(&Effect::paired(p).expect("an effect"), 0.02) == Verdict::Equivalent);
    check_within("power of equivalence", found, 0.9, 1.0);
}

#[test]
fn blocks_needed_come_true() {
    // The promise: with that many blocks in all, about 80 % of repetitions decide, if what was
    // seen is the truth. Data are built to have exactly the wanted mean and spread.
    for (ratio, spread) in [(1.03_f64, 0.06), (1.0, 0.03), (0.99, 0.02)] {
        let half = spread * (5.0_f64 / 6.0).sqrt();
        let exact: Vec<BlockPair> = (0..6)
            .map(|block| {
                let log = ratio.ln() + if block % 2 == 0 { half } else { -half };
                BlockPair { session: 0, block, a: 1000.0, b: 1000.0 * log.exp() }
            })
            .collect();
        let effect = Effect::paired(&exact).expect("an effect");
        assert!((effect.spread() - spread).abs() < 1e-9, "spread {}", effect.spread());
        let Verdict::Undecided { blocks_needed: Some(more), .. } = judge(&effect, 0.02) else {
            panic!("{ratio} {spread} is decided or hopeless: {:?}", judge(&effect, 0.02));
        };
        let trial_cv = spread / std::f64::consts::SQRT_2;
        let world = World { sessions: 1, blocks: 6 + more, ratio, trial_cv, session_spread: 0.0 };
        let decided = share(17, world, |p| {
            !matches!(judge(&Effect::paired(p).expect("an effect"), 0.02), Verdict::Undecided { .. })
        });
        check_within(&format!("ratio {ratio}, spread {spread}, {more} more"), decided, 0.75, 0.93);
    }
}

#[test]
fn unpaired_intervals_cover() {
    let mut noise = Noise::new(18);
    let side = |noise: &mut Noise, blocks: u32, centre: f64, cv: f64| -> Vec<BlockValue> {
        (0..blocks).map(|block| BlockValue { session: 0, block, value: centre * noise.normal(cv).exp() }).collect()
    };
    let hits = (0..EXPERIMENTS)
        .filter(|_| {
            let a = side(&mut noise, 6, 100.0, 0.02);
            let b = side(&mut noise, 12, 90.0, 0.06);
            let e = Effect::unpaired(&a, &b).and_then(|e| e.estimate(0.95)).expect("an interval");
            e.low <= 0.9 && 0.9 <= e.high
        })
        .count();
    check_within("Welch", hits as f64 / f64::from(EXPERIMENTS), 0.93, 0.97);
}

#[test]
fn holm_keeps_a_family_of_twelve_under_five_percent() {
    let world = World { sessions: 1, blocks: 6, ratio: 1.0, trial_cv: 0.02, session_spread: 0.0 };
    let mut noise = Noise::new(19);
    let families = 1_500;
    let wrong = (0..families)
        .filter(|_| {
            let effects: Vec<Effect> =
                (0..12).map(|_| Effect::paired(&pairs(world, &mut noise)).expect("an effect")).collect();
            let p = holm(&effects.iter().map(Effect::p_difference).collect::<Vec<_>>());
            effects.iter().zip(p).any(|(e, p)| judge_corrected(e, 0.02, p, 12) == Verdict::Different)
        })
        .count();
    check_within("family", wrong as f64 / f64::from(families), 0.02, 0.065);
}

#[test]
fn the_noise_floor_is_the_reach_of_same_against_same() {
    // Half of the 95 % interval of ten blocks at 2 % per trial: 2.262 × 0.02 × √2 / √10 = 2.02 %.
    let world = World { sessions: 1, blocks: 10, ratio: 1.0, trial_cv: 0.02, session_spread: 0.0 };
    let mut noise = Noise::new(20);
    let floors: Vec<f64> = (0..500)
        .map(|_| noise_floor(&pairs(world, &mut noise)).expect("a floor"))
        .filter(|f| !f.differs)
        .map(|f| f.floor)
        .collect();
    let mean = floors.iter().sum::<f64>() / floors.len() as f64;
    check_within("mean floor", mean, 0.0185, 0.0215);
}

#[test]
fn drift_is_seen_when_it_is_there_and_seldom_when_it_is_not() {
    let mut noise = Noise::new(21);
    let mut run = |change: f64| -> (bool, bool) {
        let points: Vec<DriftPoint> = (0..40_u32)
            .map(|i| DriftPoint {
                arm: i % 4,
                value: 1000.0 * f64::from(1 + i % 4) * (change * f64::from(i) / 39.0 + noise.normal(0.02)).exp(),
            })
            .collect();
        let found = drift(&points).expect("drift");
        (found.p <= 0.05, found.autocorrelation_p <= 0.05)
    };
    let runs = 2_000;
    let quiet: Vec<(bool, bool)> = (0..runs).map(|_| run(0.0)).collect();
    let share = |n: usize| n as f64 / f64::from(runs);
    check_within("false drift", share(quiet.iter().filter(|r| r.0).count()), 0.03, 0.06);
    check_within("false autocorrelation", share(quiet.iter().filter(|r| r.1).count()), 0.02, 0.065);
    let drifting = (0..runs).filter(|_| run(0.08).0).count();
    check_within("drift of 8 % at 2 % noise", share(drifting), 0.95, 1.0);
}
