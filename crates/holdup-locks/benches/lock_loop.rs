//! The measured loop of `lock-contention` beside a hand-written one: one thread, `tas`, nothing inside or outside.
//!
//! `cargo bench -p holdup-locks --bench lock_loop`. Two rows that were measured one after the other
//! differ by what the machine did meanwhile; for the ratio with its interval see `lock_loop_pairs`.

#[path = "by_hand/mod.rs"]
mod by_hand;

use holdup_locks::algorithms;
use holdup_locks::bare::Bare;

/// Operations of one sample: about 10 ms.
const OPERATIONS: u64 = 1 << 20;

fn main() {
    divan::main();
}

#[divan::bench]
fn hand_written(bencher: divan::Bencher<'_, '_>) {
    let by_hand = by_hand::ByHand::default();
    bencher.counter(divan::counter::ItemsCount::new(OPERATIONS)).bench_local(|| by_hand.run(OPERATIONS));
}

#[divan::bench(args = [1, 64, 2048, 1_000_000_000])]
fn holdup_tas_sampling_every(bencher: divan::Bencher<'_, '_>, sample_every: u64) {
    let tas = algorithms::find("tas").expect("the catalogue has it");
    let mut bare = Bare::new(tas, sample_every).expect("memory for one worker");
    bencher.counter(divan::counter::ItemsCount::new(OPERATIONS)).bench_local(|| bare.run(OPERATIONS));
}

#[divan::bench(args = algorithms::usable().map(|a| a.meta.id))]
fn holdup_each_algorithm(bencher: divan::Bencher<'_, '_>, id: &str) {
    let algorithm = algorithms::find(id).expect("the catalogue has it");
    let mut bare = Bare::new(algorithm, 64).expect("memory for one worker");
    bencher.counter(divan::counter::ItemsCount::new(OPERATIONS)).bench_local(|| bare.run(OPERATIONS));
}
