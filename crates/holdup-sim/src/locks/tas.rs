//! Test-and-set: an atomic exchange in a loop (T. E. Anderson, IEEE TPDS 1(1), 1990, section 3.1).
//!
//! Each waiter writes the lock's line at every turn, so the holder's release waits for each of them.

use crate::locking::{Algorithm, spinning};
use crate::world::World;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "tas",
    waits: |world, cpu, task, lock| {
        world.spin(cpu, task, lock, u64::MAX);
        spinning::elect(world, lock);
    },
    exchanges: true,
    over,
    ..Algorithm::BASE
};

/// A waiter's exchange: it has the lock, or continues to spin.
fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    if !spinning::sees(world, task, lock) {
        world.spins_on(cpu, task);
        return spinning::elect(world, lock);
    }
    world.no_longer_spins(task, lock);
    spinning::exchanges(world, cpu, task, lock);
    world.has_it(cpu, task);
}
