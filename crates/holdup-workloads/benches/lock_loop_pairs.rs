//! How much faster or slower the measured loop of `lock-contention` is than a hand-written one.
//!
//! `cargo bench -p holdup-workloads --bench lock_loop_pairs [-- PAIRS]`
//!
//! Pairs of short runs, in alternating order, so that what else the machine does falls on both; the
//! ratio is that of the medians, and the middle one of the pairs' ratios with a distribution-free
//! 95 % interval (order statistics, binomial).
#![allow(clippy::print_stdout, reason = "a bench tells its numbers on stdout")]

#[path = "by_hand/mod.rs"]
mod by_hand;
#[path = "by_hand/whole_trial.rs"]
mod whole_trial;

use holdup_workloads::algorithms;
use holdup_workloads::contention::bare::Bare;
use std::time::Instant;

/// Operations of one run: about 20 ms.
const OPERATIONS: u64 = 2 << 20;

fn main() {
    // Cargo passes --bench; the first number is ours.
    let pairs = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok()).unwrap_or(51).max(15);
    let by_hand = by_hand::ByHand::default();
    let mut hand = || each(|| by_hand.run(OPERATIONS));
    let tas = algorithms::find("tas").expect("the catalogue has it");
    for sample_every in [64, 1024, 2048, 1_000_000_000] {
        let mut bare = Bare::new(tas, sample_every).expect("memory for one worker");
        let runs = interleaved(pairs, &mut hand, &mut || each(|| bare.run(OPERATIONS)));
        report(&format!("loop, one timed of {sample_every}"), &runs);
    }
    let mut trial = whole_trial::Trial::new();
    let runs = interleaved(pairs, &mut hand, &mut || trial.run());
    report("whole trial, default sampling", &runs);
}

/// Pairs (hand-written, ours), in alternating order.
fn interleaved(pairs: usize, hand: &mut dyn FnMut() -> f64, ours: &mut dyn FnMut() -> f64) -> Vec<(f64, f64)> {
    hand();
    ours();
    let pair = |i: usize| {
        if i.is_multiple_of(2) {
            let first = hand();
            (first, ours())
        } else {
            let first = ours();
            (hand(), first)
        }
    };
    (0..pairs).map(pair).collect()
}

/// ns for each operation of one run.
fn each(mut run: impl FnMut() -> u64) -> f64 {
    let begin = Instant::now();
    let done = run();
    begin.elapsed().as_secs_f64() * 1e9 / done as f64
}

fn report(what: &str, runs: &[(f64, f64)]) {
    let sorted = |pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (hand, ours, ratios) = (sorted(|r| r.0), sorted(|r| r.1), sorted(|r| r.1 / r.0));
    let middle = |values: &[f64]| values[values.len() / 2];
    let (low, high) = median_interval(ratios.len());
    println!(
        "{what}: {} pairs, hand-written {:.3} ns, holdup {:.3} ns per operation (medians), \
         ratio of medians {:.4}, median of ratios {:.4} [{:.4}, {:.4}]",
        runs.len(),
        middle(&hand),
        middle(&ours),
        middle(&ours) / middle(&hand),
        middle(&ratios),
        ratios[low],
        ratios[high],
    );
}

/// The places, from 0, of the order statistics that enclose the median with at least 95 %.
fn median_interval(n: usize) -> (usize, usize) {
    let mut below = 0.0;
    let mut place = 0;
    let mut term = 0.5f64.powi(n as i32);
    loop {
        below += term;
        if below > 0.025 || place + 1 > n / 2 {
            break;
        }
        place += 1;
        term *= (n - place + 1) as f64 / place as f64;
    }
    let low = place.saturating_sub(1);
    (low, n - 1 - low)
}
