//! What each further spinner adds to a write.

use super::bench::{beside, on_cpu, pieces_ns, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_load::board::CachePadded;
use holdup_model::Problem;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(super) const COST: Cost = Cost {
    name: "contender_ns",
    docs: "how much longer an exchange takes for each further CPU that exchanges on the line with a pause at each turn, \
           between one and up to seven from all parts of the machine; pieces of 100",
    measure,
};

/// The most others: more add the same each, and make it likelier that one of them is not running.
const MOST: usize = 7;

fn measure(context: &Context) -> Result<Samples, Problem> {
    if context.cpus.len() < 3 {
        return Err(Problem::host("a second spinner", "it takes three CPUs"));
    }
    // From all parts of the machine: what a spinner adds is the way of the line to it.
    let step = (context.cpus.len() / (MOST + 1)).max(1);
    let cpus: Vec<u32> = context.cpus.iter().map(|place| place.cpu).step_by(step).take(MOST + 1).collect();
    let (cpu, others) = (cpus[0], &cpus[1..]);
    let line = CachePadded(AtomicU32::new(0));
    on_cpu(cpu, || Ok(()))?;
    let spins = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            black_box(line.0.swap(1, Ordering::SeqCst));
            spin_loop();
        }
    };
    let among = |others: &[u32]| {
        beside((cpu, others), &spins, &|| (), || {
            let pieces = pieces_ns(50, 100, || {
                black_box(line.0.swap(2, Ordering::SeqCst));
                spin_loop();
            });
            Ok(quiet(pieces).unwrap_or_default())
        })
    };
    repeats("spinners", || {
        let (one, all) = (among(&others[..1])?, among(others)?);
        Ok(Some((all - one) / (others.len() - 1) as f64))
    })
}
