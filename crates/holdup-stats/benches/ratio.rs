//! The ratio of two arms: the effect that is judged, and the bootstrap with 10,000 resamples beside it.

use holdup_stats::{BlockPair, Effect, judge, ratio_bootstrap};

fn main() {
    divan::main();
}

fn pairs(sessions: u32, blocks: u32) -> Vec<BlockPair> {
    (0..blocks)
        .map(|block| {
            let wobble = |factor: u32| f64::from((block * factor) % 101) / 5_000.0;
            BlockPair { session: block % sessions, block, a: 1000.0 + wobble(7919), b: 1003.0 + wobble(104_729) }
        })
        .collect()
}

#[divan::bench(args = [20, 1_000])]
fn effect_and_verdict(bencher: divan::Bencher<'_, '_>, blocks: u32) {
    let pairs = pairs(1, blocks);
    bencher.bench_local(|| {
        let effect = Effect::paired(&pairs).expect("an effect");
        (effect.estimate(0.95), judge(&effect, 0.02))
    });
}

#[divan::bench(args = [1, 10])]
fn bootstrap_of_1000_blocks_with_10000_resamples(bencher: divan::Bencher<'_, '_>, sessions: u32) {
    let pairs = pairs(sessions, 1_000);
    bencher.bench_local(|| ratio_bootstrap(&pairs, 0.95, 10_000, 1));
}
