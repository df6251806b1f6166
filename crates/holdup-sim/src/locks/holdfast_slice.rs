//! holdfast's mutex whose holder asks the kernel for a longer slice (crates/holdfast/src/hold/mod.rs `hold()`; kernel/rseq.c,
//! include/linux/rseq_entry.h, v7.2).
//!
//! It asks when it has the lock and withdraws the request after the release; a grant that was used is returned by a system
//! call then. A release that wakes ends a grant by its own system call, in a hand-over before the lock is free.

use super::holdfast;
use crate::locking::{Algorithm, looking};

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "holdfast-slice",
    asks: true,
    over: |world, cpu, task, lock| {
        // The lock is free, and in a system call nothing is granted.
        if looking::is_waking(world.tasks[task as usize].waiting.step) {
            world.asks_to_extend(task, false);
        }
        holdfast::over(world, cpu, task, lock);
    },
    ..holdfast::ALGORITHM
};
