//! What an interrupt takes from the task that it interrupts.

use super::bench::{beside, gaps_ns, repeats};
use super::ipi::{barrier, register};
use super::samples::middle;
use super::{Context, Cost, Samples};
use holdup_load::clock::now_ns;
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const COST: Cost = Cost {
    name: "interrupt_ns",
    docs: "the middle gap between readings of the clock of 200 ns and more in a loop of 3 ms while a second CPU sends an interrupt by \
           membarrier(2) every 20 us; the handler does next to nothing",
    measure,
};

/// The fewest gaps that a repeat may have; about 150 are to be expected.
const FEWEST: usize = 40;

/// A shorter gap is a line that was not in the cache, no interrupt.
const LEAST_NS: f64 = 200.0;

fn measure(context: &Context) -> Result<Samples, Problem> {
    let (cpu, other) = context.two_cpus()?;
    register()?;
    let sends = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            barrier();
            let until = now_ns() + 20_000;
            while now_ns() < until {
                std::hint::spin_loop();
            }
        }
    };
    beside((cpu, &[other]), &sends, &|| (), || {
        repeats("interrupts", || {
            let gaps: Vec<f64> =
                gaps_ns(3_000_000).into_iter().map(|(_, ns)| ns).filter(|ns| *ns >= LEAST_NS).collect();
            let enough = gaps.len() >= FEWEST;
            Ok(middle(gaps).filter(|_| enough))
        })
    })
}
