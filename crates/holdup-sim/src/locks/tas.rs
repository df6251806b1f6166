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
    released: |world, cpu, _, lock| {
        spinning::frees(world, cpu, lock, true);
        true
    },
    over: |world, cpu, task, lock| {
        if exchanges(world, cpu, task, lock) {
            world.has_it(cpu, task);
        }
    },
    ..Algorithm::BASE
};

/// A waiter's exchange. Whether it has the lock; if not, it continues to spin.
pub(super) fn exchanges(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    if !spinning::sees(world, task, lock) {
        world.spins_on(cpu, task);
        spinning::elect(world, lock);
        return false;
    }
    // The exchange that sees it free is the one that takes it, so the line moves once.
    world.no_longer_spins(task, lock);
    let ns = world.machine.costs.atomic_ns;
    world.lock(lock).last_cpu = cpu;
    world.take(cpu, task, lock, ns);
    true
}
