//! Time to find the changes of a long series: `cargo bench -p holdup-stats --bench change_points`.
//! The aim is less than a second for 10,000 values on one core.

use holdup_stats::{ChangeOptions, change_points};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

fn main() {
    divan::main();
}

/// Values of about 100 with a spread of about 2 %, and `steps` steps of 5 %, up and down in turn.
fn series(n: usize, steps: usize) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..n)
        .map(|i| {
            let level = if (i * (steps + 1) / n).is_multiple_of(2) { 100.0 } else { 105.0 };
            level * (1.0 + 0.07 * (uniform() - 0.5))
        })
        .collect()
}

#[divan::bench(sample_count = 20, args = [(100, 0), (100, 1), (1_000, 3), (10_000, 0), (10_000, 1), (10_000, 3), (10_000, 20)])]
fn of_values_with_steps(bencher: divan::Bencher<'_, '_>, (n, steps): (usize, usize)) {
    let values = series(n, steps);
    bencher.bench_local(|| {
        let found = change_points(&values, ChangeOptions::default()).expect("an answer");
        assert!(found.len() >= steps, "{} of {steps}", found.len());
        found
    });
}
