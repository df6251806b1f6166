//! Quantile shifts with their bands: `cargo bench -p holdup-stats --bench quantile_shift`.

use holdup_model::Histogram;
use holdup_stats::{quantile_shift, quantile_shift_over_blocks};

fn main() {
    divan::main();
}

/// A histogram of about `samples` latencies from 1 µs to 1 s, spread over all buckets between, with a long tail.
fn spread_out(samples: u64, offset: u64) -> Histogram {
    let mut histogram = Histogram::new();
    let mut value_ns = 1_000.0 + offset as f64;
    let steps = 20_000;
    for step in 0..steps {
        let weight = 1.0 + (step % 7) as f64;
        histogram.record_n_ns(value_ns as u64, (samples as f64 / f64::from(steps) * weight / 4.0) as u64);
        value_ns *= 1.000_69;
    }
    histogram
}

#[divan::bench(args = [10_000_000, 1_000_000_000])]
fn two_histograms(bencher: divan::Bencher<'_, '_>, samples: u64) {
    let (a, b) = (spread_out(samples, 0), spread_out(samples, 50));
    assert!(a.count() > samples / 10 * 9);
    bencher.bench_local(|| quantile_shift(divan::black_box(&a), &b));
}

#[divan::bench(args = [5, 10, 20, 100])]
fn over_blocks(bencher: divan::Bencher<'_, '_>, blocks: u64) {
    let pairs: Vec<_> = (0..blocks).map(|i| (spread_out(1_000_000, i), spread_out(1_000_000, 2 * i % 7))).collect();
    bencher.bench_local(|| quantile_shift_over_blocks(divan::black_box(&pairs), 1).map(|shift| shift.len()));
}
