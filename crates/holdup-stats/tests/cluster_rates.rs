//! Rates over clusters of any size: by hand, by simulation, and against any input.

use crate::common;
use common::Noise;
use holdup_stats::{Cluster, Question, bunching, cluster_rate, judge_question, rate_bound, rate_unpaired};
use proptest::prelude::*;

fn cluster(events: f64, work: f64) -> Cluster {
    Cluster { events, work }
}

#[test]
fn clusters_of_one_size_give_the_plain_ratio_estimator() {
    let side = |events: &[f64]| -> Vec<Cluster> { events.iter().map(|e| cluster(*e, 1000.0)).collect() };
    let (a, b) = (side(&[4.0, 6.0, 5.0, 5.0]), side(&[9.0, 11.0, 12.0, 8.0]));
    let effect = rate_unpaired(&a, &b).expect("an effect");
    assert!((effect.value() - 2.0).abs() < 1e-12);
    // By hand: a's shares differ from 1/4 by 0.05, 0.05; b's by 0.025, 0.025, 0.05, 0.05. Squares by n/(n − 1), summed.
    let (va, vb) = (0.005 * 4.0 / 3.0, 0.00625 * 4.0 / 3.0);
    let e = effect.estimate(0.95).expect("an interval");
    let se = f64::sqrt(va + vb);
    // The degrees of freedom are at most those of three and three pieces.
    assert!((e.high / e.value).ln() >= 2.447 * se, "{e:?} {se}");
    assert!((e.high / e.value).ln() <= 3.182 * se, "{e:?} {se}");
    let one = cluster_rate(&a, 0.95).expect("a rate");
    assert!((one.value - 0.005).abs() < 1e-12 && one.low < 0.005 && 0.005 < one.high);
}

#[test]
fn what_has_no_answer_says_why() {
    let two = [cluster(1.0, 10.0), cluster(2.0, 10.0)];
    let reason = |a: &[Cluster]| rate_unpaired(a, &two).expect_err("a reason").reason;
    assert!(reason(&[]).contains("A has no work"), "{}", reason(&[]));
    assert!(reason(&two[..1]).contains("one cluster only"));
    assert!(reason(&[cluster(0.0, 1.0), cluster(0.0, 1.0)]).contains("no event at all"));
    assert!(reason(&[cluster(1.0, 0.0), cluster(1.0, 5.0)]).contains("did all of the work"));
    assert!(reason(&[cluster(-1.0, 1.0), cluster(1.0, 1.0)]).contains("below zero"));
    assert!(reason(&[cluster(f64::NAN, 1.0), cluster(1.0, 1.0)]).contains("not a number"));
    assert!(rate_bound(&[cluster(0.0, 1.0)], 1.0).is_err());
    assert!(rate_bound(&two, 0.0).is_err());
}

#[test]
fn without_an_event_there_is_a_bound() {
    // Ten events one by one in half of all the work: none in the other half has a probability of 2⁻¹⁰.
    let with: Vec<Cluster> = (0..1000).map(|i| cluster(f64::from(u8::from(i % 100 == 0)), 10.0)).collect();
    let bound = rate_bound(&with, 10_000.0).expect("a bound");
    assert!((bound.p_difference / (2.0 * 0.5_f64.powi(10)) - 1.0).abs() < 0.2, "{bound:?}");
    // The rule of three.
    assert!((bound.rate_at_most * 10_000.0 - 3.0).abs() < 0.1, "{bound:?}");
    assert!((bound.at_least - 2.86).abs() < 0.1, "{bound:?}");
    // All ten in one cluster: they may be one bunch, and one event proves nothing.
    let bunched: Vec<Cluster> = (0..1000).map(|i| cluster(if i == 0 { 10.0 } else { 0.0 }, 10.0)).collect();
    let bound = rate_bound(&bunched, 10_000.0).expect("a bound");
    assert!(bound.p_difference > 0.9 && bound.at_least < 0.1, "{bound:?}");
    assert!(bunching(&bunched) > 9.0 && bunching(&with) < 1.2);
}

/// How connections and their events come about.
#[derive(Debug, Clone, Copy)]
struct World {
    flows: u32,
    sizes: Sizes,
    /// Events on a side, on average.
    events: f64,
    /// Events that come together.
    bunch: f64,
    /// The coefficient of variation of the connections' rates.
    rates_differ: f64,
}

#[derive(Debug, Clone, Copy)]
enum Sizes {
    Equal,
    LogNormal(f64),
    Pareto(f64),
}

/// A Poisson number, by the normal where it is large.
fn poisson(noise: &mut Noise, mean: f64) -> f64 {
    if mean > 50.0 {
        return (mean + noise.normal(mean.sqrt())).round().max(0.0);
    }
    let (limit, mut product, mut n) = ((-mean).exp(), noise.uniform(), 0.0);
    while product > limit {
        product *= noise.uniform();
        n += 1.0;
    }
    n
}

fn side(world: World, ratio: f64, noise: &mut Noise) -> Vec<Cluster> {
    let sizes: Vec<f64> = (0..world.flows)
        .map(|_| {
            let size = match world.sizes {
                Sizes::Equal => 1.0,
                Sizes::LogNormal(spread) => noise.normal(spread).exp(),
                Sizes::Pareto(shape) => noise.uniform().powf(-1.0 / shape).min(1e4),
            };
            (1000.0 * size).round()
        })
        .collect();
    // By the mean of the distribution and not of these sizes, so that both sides have the rates that are asked for.
    let mean_size = match world.sizes {
        Sizes::Equal => 1.0,
        Sizes::LogNormal(spread) => (spread * spread / 2.0).exp(),
        Sizes::Pareto(shape) => shape / (shape - 1.0),
    };
    let all = f64::from(world.flows) * 1000.0 * mean_size;
    // Log-normal rates with the wanted coefficient of variation and a mean of one.
    let spread = world.rates_differ.powi(2).ln_1p().sqrt();
    sizes
        .into_iter()
        .map(|work| {
            let own = (noise.normal(spread) - spread * spread / 2.0).exp();
            let mean = world.events * ratio * own * work / all / world.bunch;
            cluster(poisson(noise, mean) * world.bunch, work)
        })
        .collect()
}

/// The share of intervals that hold the truth, of those that there are.
fn coverage(world: World, seed: u64) -> f64 {
    let mut noise = Noise::new(seed);
    let (mut held, mut made) = (0_u32, 0_u32);
    for _ in 0..EXPERIMENTS {
        let (a, b) = (side(world, 1.0, &mut noise), side(world, 3.0, &mut noise));
        let Ok(e) = rate_unpaired(&a, &b).and_then(|effect| effect.estimate(0.95)) else { continue };
        made += 1;
        held += u32::from(e.low <= 3.0 && 3.0 <= e.high);
    }
    assert!(made > EXPERIMENTS * 9 / 10, "{made} intervals: {world:?}");
    f64::from(held) / f64::from(made)
}

/// At a true 95 % the standard error of a share of 2,000 is half a point.
const EXPERIMENTS: u32 = 2_000;

#[test]
fn intervals_cover_with_few_and_many_clusters_of_any_size() {
    for flows in [8, 20, 200] {
        for sizes in [Sizes::Equal, Sizes::LogNormal(1.0), Sizes::LogNormal(2.0), Sizes::Pareto(1.2)] {
            for (events, bunch, rates_differ) in [
                (20.0, 1.0, 0.0),
                (200.0, 1.0, 0.0),
                (200.0, 5.0, 0.0),
                (1000.0, 1.0, 0.3),
                (1000.0, 5.0, 0.5),
                (1000.0, 1.0, 1.0),
            ] {
                let world = World { flows, sizes, events, bunch, rates_differ };
                let is_heavy = matches!(sizes, Sizes::LogNormal(2.0) | Sizes::Pareto(_));
                // Few events in few connections of which one or two did most of the work, and connections whose rates differ
                // by as much as they are.
                let is_extreme = (is_heavy && events < 50.0 && flows < 50) || rates_differ >= 1.0;
                let (least, most) = if is_extreme { (0.92, 0.99) } else { (0.93, 0.98) };
                let found = coverage(world, 1);
                assert!((least..=most).contains(&found), "{world:?}: {found}");
            }
        }
    }
}

#[test]
fn taken_for_one_by_one_bunched_events_would_cover_far_too_rarely() {
    // Why clusters are honoured: the Poisson interval of the same data.
    let world = World { flows: 50, sizes: Sizes::Equal, events: 1000.0, bunch: 5.0, rates_differ: 0.5 };
    let mut noise = Noise::new(2);
    let sum = |side: &[Cluster]| side.iter().map(|c| c.events).sum::<f64>();
    let held = (0..EXPERIMENTS)
        .filter(|_| {
            let (a, b) = (side(world, 1.0, &mut noise), side(world, 1.0, &mut noise));
            let (a, b) = (sum(&a), sum(&b));
            (b / a).ln().abs() <= 1.96 * (1.0 / a + 1.0 / b).sqrt()
        })
        .count();
    assert!((held as f64) < 0.65 * f64::from(EXPERIMENTS), "{held}");
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        5 => 0.0..1e6_f64,
        1 => Just(0.0),
        1 => Just(-1.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
    ]
}

proptest! {
    #[test]
    fn any_counts_have_an_answer_or_a_reason(
        a in prop::collection::vec((any_number(), any_number()), 0..12),
        b in prop::collection::vec((any_number(), any_number()), 0..12),
        work in any_number(),
    ) {
        let [a, b] = [a, b].map(|side| side.into_iter().map(|(e, w)| cluster(e, w)).collect::<Vec<_>>());
        match rate_unpaired(&a, &b) {
            Ok(effect) => {
                prop_assert!(effect.value() >= 0.0);
                let p = effect.p_difference();
                prop_assert!((0.0..=1.0).contains(&p), "{p}");
                let _ = judge_question(&effect, &Question::alone(0.02));
                if let Ok(e) = effect.estimate(0.95) {
                    prop_assert!(e.low <= e.value && e.value <= e.high, "{e:?}");
                }
            }
            Err(no) => prop_assert!(!no.reason.is_empty()),
        }
        prop_assert!(bunching(&a) >= 1.0);
        match rate_bound(&b, work) {
            Ok(bound) => prop_assert!((0.0..=1.0).contains(&bound.p_difference), "{bound:?}"),
            Err(no) => prop_assert!(!no.reason.is_empty()),
        }
    }
}
