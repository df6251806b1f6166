//! How long the next choice of a bisection takes: `cargo bench -p holdup-stats --bench bisection`.

use holdup_stats::bisection::{Bisection, Candidates, Costs, Next, Options, TrialCost};

fn main() {
    divan::main();
}

/// A search of `n` candidates after that number of trials, with a step of 3 % at two thirds of the way.
fn under_way(n: usize, trials: usize) -> Bisection {
    // Costs that all differ keep the search from treating candidates alike.
    let cost = |i: usize| TrialCost { build_s: 300.0 + (i % 7) as f64, boot_s: 60.0, run_s: 30.0 };
    let costs = Costs::Each((0..n).map(cost).collect());
    let options = Options { confidence: 1.0 - 1e-12, ..Options::default() };
    let mut search = Bisection::new(Candidates { n, prior_weights: None, costs }, options).expect("good candidates");
    while search.trials() < trials {
        let Next::Measure { candidate, .. } = search.next() else { break };
        let wobble = 1.0 + 0.02 * (search.trials() as f64 * 2.4).sin();
        let level = if candidate >= n * 2 / 3 { 103.0 } else { 100.0 };
        search.observe(candidate, level * wobble).expect("a good value");
    }
    search
}

#[divan::bench(args = [(1_000, 10), (1_000, 50), (10_000, 10), (10_000, 50), (10_000, 200), (100_000, 50)])]
fn next(bencher: divan::Bencher<'_, '_>, (n, trials): (usize, usize)) {
    let search = under_way(n, trials);
    bencher.bench_local(|| divan::black_box(&search).next());
}
