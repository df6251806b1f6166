//! Ticket lock: numbers, served in order (J. Mellor-Crummey and M. Scott, ACM TOCS 9(1), 1991, section 2.2).
//!
//! The lock goes to the next number even when its waiter is not on a CPU, and all behind it wait for that. Every release
//! makes all waiters read the line again, and the one whose number it is comes at a random position among them
//! (S. Boyd-Wickizer et al., Non-scalable locks are dangerous, Linux Symposium 2012).

use crate::locking::{Algorithm, queued};

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "ticket",
    released: |world, cpu, _, lock| {
        let readers = world.locks[lock as usize].spinners.len() as u64;
        let place = if readers > 1 { world.random.below(readers) } else { 0 };
        let ns = world.write_ns(cpu, lock) + place * world.machine.costs.contender_ns;
        queued::hands_over(world, cpu, lock, ns);
        true
    },
    ..queued::BASE
};
