//! MCS queue lock: first come, first served, each waiter spins on its own line (J. Mellor-Crummey and M. Scott, ACM
//! TOCS 9(1), 1991, section 2.4).
//!
//! A waiter appends itself to a list with one exchange and spins on a flag that only its predecessor writes, so the cost of
//! a hand-over does not depend on the number of waiters.

use crate::locking::{Algorithm, NONE, queued};

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "mcs",
    waits: |world, cpu, task, lock| {
        queued::waits(world, cpu, task, lock);
        // The exchange leaves the end of the list with the newcomer.
        world.lock(lock).last_cpu = cpu;
    },
    released: |world, cpu, task, lock| {
        let tail_cpu = world.locks[lock as usize].last_cpu;
        let next = world.locks[lock as usize].queue.front().copied().unwrap_or(NONE);
        if next == NONE {
            world.atomic_release(cpu, task, lock);
            queued::hands_over(world, cpu, lock, 0);
            return true;
        }
        // The link to the successor was written there, and its flag is read there: both lines move.
        let ns = world.transfer_ns(cpu, world.tasks[next as usize].cpu);
        world.tasks[task as usize].extra_ns += ns;
        queued::hands_over(world, cpu, lock, 2 * ns);
        world.lock(lock).last_cpu = tail_cpu;
        true
    },
    ..queued::BASE
};
