//! What it costs to record a latency: counting it, and reading the clock beside.
//!
//! `cargo bench -p holdup-load --bench record`. Each sample is a thousand; divan divides the throughput.

use divan::counter::ItemsCount;
use holdup_load::clock::now_ns;
use holdup_load::record::Record;
use std::hint::black_box;

/// Latencies of one sample.
const LATENCIES: u64 = 1_000;

fn main() {
    divan::main();
}

/// Latencies as they come: most are near each other, one of a hundred is far.
fn latencies() -> Vec<u64> {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..LATENCIES).map(|i| if i % 100 == 0 { random() % 50_000_000 } else { 2_000 + random() % 3_000 }).collect()
}

#[divan::bench]
fn count(bencher: divan::Bencher<'_, '_>) {
    let (record, latencies) = (Record::boxed(), latencies());
    record.touch();
    bencher.counter(ItemsCount::new(LATENCIES)).bench_local(|| {
        for ns in &latencies {
            record.count(black_box(*ns));
        }
    });
}

#[divan::bench]
fn clock_alone(bencher: divan::Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(LATENCIES)).bench_local(|| {
        for _ in 0..LATENCIES {
            black_box(now_ns());
        }
    });
}

#[divan::bench]
fn clock_and_count(bencher: divan::Bencher<'_, '_>) {
    let (record, latencies) = (Record::boxed(), latencies());
    record.touch();
    bencher.counter(ItemsCount::new(LATENCIES)).bench_local(|| {
        for ns in &latencies {
            let begin = black_box(now_ns() - *ns);
            record.count(now_ns().saturating_sub(begin));
        }
    });
}
