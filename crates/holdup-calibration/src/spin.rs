//! A turn of a spin loop.

use super::bench::{on_cpu, pieces_ns, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const COST: Cost =
    Cost { name: "spin_ns", docs: "a load of a line that is there and a pause, 50 pieces of 1,000 turns", measure };

fn measure(context: &Context) -> Result<Samples, Problem> {
    let word = AtomicU32::new(0);
    on_cpu(context.cpu()?, || {
        let turn = || {
            black_box(black_box(&word).load(Ordering::Acquire));
            std::hint::spin_loop();
        };
        repeats("turns of a spin loop", || Ok(quiet(pieces_ns(50, 1_000, turn))))
    })
}
