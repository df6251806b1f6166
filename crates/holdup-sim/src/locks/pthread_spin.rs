//! The C library's spinlock: an exchange, then reads until the lock is free, then a compare-exchange (glibc 2.36,
//! nptl/pthread_spin_lock.c, pthread_spin_unlock.c).
//!
//! There is no back-off. All waiters see the lock free at the same time, and the compare-exchanges of those that lose keep the
//! line from the holder one after the other.

use crate::locking::{Algorithm, spinning};
use crate::world::World;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "pthread-spin",
    waits: |world, cpu, task, lock| {
        // The exchange writes the line, and the holder has to fetch it back.
        world.tasks[task as usize].extra_ns += world.atomic_ns(cpu, lock);
        world.spin(cpu, task, lock, u64::MAX);
        spinning::elect(world, lock);
    },
    over,
    ..Algorithm::BASE
};

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    if !spinning::sees(world, task, lock) {
        world.spins_on(cpu, task);
        return spinning::elect(world, lock);
    }
    world.no_longer_spins(task, lock);
    spinning::wins(world, cpu, task, lock);
    world.has_it(cpu, task);
}
