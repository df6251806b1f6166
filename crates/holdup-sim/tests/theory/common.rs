//! Machines without costs, runs in batches, and chains of births and deaths.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::program::{Op, Program};
use holdup_sim::stats::WindowStats;
use holdup_sim::world::{Load, World};

/// Independent stretches of a run.
pub(crate) const BATCHES: usize = 30;
/// Student's t with 29 degrees of freedom, 99.9 % on two sides.
const STUDENT: f64 = 3.659;

/// Nothing takes any time.
pub(crate) fn free() -> Costs {
    let mut costs = Costs::DEFAULT;
    for name in Costs::NAMES {
        *costs.place(name).expect("a cost") = 0;
    }
    costs
}

/// A machine with this number of cores and one last level cache. Ticks are rare.
pub(crate) fn machine(cpus: u32, costs: Costs) -> Machine {
    let full = preempt::find("full").expect("a model");
    let kernel = Kernel::of("6.18", full, 100, cpus).expect("a kernel");
    Machine { topology: Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 }, costs, kernel }
}

pub(crate) fn program(ops: Vec<Op>) -> Program {
    Program::new("customer", ops)
}

/// An estimate, and how far it may be from the truth in one of a thousand runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl Estimate {
    /// The ratio of two sums, each by batch.
    pub(crate) fn ratio(sums: &[(f64, f64)]) -> Self {
        let (above, below) = sums.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        let (value, n) = (above / below, sums.len() as f64);
        let squares: f64 = sums.iter().map(|(x, y)| (x - value * y).powi(2)).sum();
        let deviation = (squares / (n - 1.0) / n).sqrt();
        Estimate { value, error: STUDENT * deviation / (below / n) }
    }

    pub(crate) fn map(self, constant: f64, factor: f64) -> Self {
        Estimate { value: constant + factor * self.value, error: (factor * self.error).abs() }
    }

    /// A line of the table: right when the estimate is within 1 % of what a model says, or within its interval.
    pub(crate) fn check(&self, model: &str, expect: f64) -> Result<String, String> {
        let (off, error) = (100.0 * (self.value / expect - 1.0), 100.0 * self.error / expect);
        let line = format!("{model}: expected {expect:.4}, simulated {:.4}, {off:+.2} % (+-{error:.2} %)", self.value);
        if off.abs() <= error.max(1.0) { Ok(line) } else { Err(line) }
    }
}

/// Runs a load on a machine: what was seen of each batch, after one batch for warming up.
pub(crate) fn run<T>(
    machine: &Machine,
    load: &Load,
    seed: u64,
    batch_ns: u64,
    batches: usize,
    of: impl Fn(&WindowStats) -> T,
) -> Vec<T> {
    let mut world = World::new(machine, load, seed);
    world.run_until(batch_ns);
    (0..batches)
        .map(|_| {
            world.open();
            world.run_until(world.now_ns() + batch_ns);
            let seen = world.close();
            accounts_for_all_time(seen, u64::from(machine.topology.cpus()) * batch_ns);
            of(seen)
        })
        .collect()
}

/// Every CPU is always computing, in the kernel, spinning, switching or idle.
pub(crate) fn accounts_for_all_time(seen: &WindowStats, all_ns: u64) {
    let of_tasks: u64 = seen.roles.iter().map(|r| r.user_ns + r.kernel_ns + r.spin_ns).sum();
    assert_eq!(of_tasks, seen.cpu_ns.iter().sum::<u64>());
    assert_eq!(of_tasks + seen.idle_ns + seen.overhead_ns, all_ns);
}

/// Sum and number of the lengths of a mark.
pub(crate) fn lengths(seen: &WindowStats, mark: usize) -> (f64, f64) {
    let lengths = &seen.marks[mark].lengths;
    let count = lengths.count() as f64;
    (lengths.mean_ns().map_or(0.0, |mean| mean * count), count)
}

/// How often a chain of births and deaths is in each of the states 0 to `n`.
pub(crate) fn births_and_deaths(n: u32, birth: impl Fn(u32) -> f64, death: impl Fn(u32) -> f64) -> Vec<f64> {
    let mut weights = vec![1.0];
    for k in 1..=n {
        let weight = weights[k as usize - 1] * birth(k - 1) / death(k);
        weights.push(weight);
    }
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / sum).collect()
}

/// The mean of a distribution over 0, 1, 2 and so on.
pub(crate) fn mean(distribution: &[f64]) -> f64 {
    distribution.iter().enumerate().map(|(k, p)| k as f64 * p).sum()
}

/// The lines of a table. All that deviate are reported together.
pub(crate) fn none_deviates(results: Vec<Result<String, String>>) -> String {
    let wrong: Vec<&String> = results.iter().filter_map(|line| line.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    results.into_iter().flatten().collect::<Vec<String>>().join("\n")
}
