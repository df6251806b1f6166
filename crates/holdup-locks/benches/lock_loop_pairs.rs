//! How much faster or slower the measured loop of `lock-contention` is than a hand-written one.
//!
//! `cargo bench -p holdup-locks --bench lock_loop_pairs [-- PAIRS]`
//!
//! Pairs of short runs, in alternating order, so that what else the machine does falls on both; the
//! ratio is that of the medians, and the middle one of the pairs' ratios with a distribution-free
//! 95 % interval (order statistics, binomial).
#![allow(clippy::print_stdout, reason = "a bench prints its numbers on stdout")]

#[path = "by_hand/mod.rs"]
mod by_hand;
#[path = "by_hand/pairs.rs"]
mod pairs;
#[path = "by_hand/whole_trial.rs"]
mod whole_trial;

use holdup_locks::algorithms;
use holdup_locks::bare::Bare;
use std::time::Instant;

/// Operations of one run: about 20 ms.
const OPERATIONS: u64 = 2 << 20;

fn main() {
    // Cargo passes --bench; the first number is ours.
    let count = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok()).unwrap_or(51).max(15);
    let by_hand = by_hand::ByHand::default();
    let mut hand = || each(|| by_hand.run(OPERATIONS));
    let tas = algorithms::find("tas").expect("the catalogue has it");
    for sample_every in [64, 1024, 2048, 1_000_000_000] {
        let mut bare = Bare::new(tas, sample_every).expect("memory for one worker");
        let runs = pairs::interleaved(count, &mut hand, &mut || each(|| bare.run(OPERATIONS)));
        report(&format!("loop, one timed of {sample_every}"), &runs);
    }
    let mut trial = whole_trial::Trial::new();
    let runs = pairs::interleaved(count, &mut hand, &mut || trial.run());
    report("whole trial, default sampling", &runs);
}

/// ns for each operation of one run.
fn each(mut run: impl FnMut() -> u64) -> f64 {
    let begin = Instant::now();
    let done = run();
    begin.elapsed().as_secs_f64() * 1e9 / done as f64
}

fn report(what: &str, runs: &[(f64, f64)]) {
    println!("{what}: {}", pairs::in_words("hand-written", "ns per operation", runs));
}
