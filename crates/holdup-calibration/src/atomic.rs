//! An atomic operation on a line that no other CPU uses.

use super::bench::{on_cpu, pieces_ns, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const COST: Cost = Cost {
    name: "atomic_ns",
    docs: "an exchange on a line of the CPU's own, each after the one before, 50 pieces of 2,000",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    let word = AtomicU32::new(0);
    on_cpu(context.cpu()?, || {
        let mut value = 1;
        let mut exchange = || value = black_box(&word).swap(value, Ordering::SeqCst).wrapping_add(1);
        repeats("atomic operations", || Ok(quiet(pieces_ns(50, 2_000, &mut exchange))))
    })
}
