//! Test-and-set that asks the kernel for a longer slice while it holds the lock (kernel/rseq.c,
//! include/linux/rseq_entry.h, v7.2).
//!
//! It asks before the exchange and withdraws the request after the release; a grant that was used is returned by a system
//! call then. Whether the kernel grants it is the kernel's part.

use super::tas;
use crate::locking::{Algorithm, FREE};

/// A store and a load on the task's own line, ns.
const ASKING_NS: u64 = 1;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "slice-extension",
    tries: |world, cpu, task, lock| {
        if world.locks[lock as usize].holder != FREE {
            return false;
        }
        let ns = world.atomic_ns(cpu, lock) + ASKING_NS;
        world.take(cpu, task, lock, ns);
        world.asks_to_extend(task, true);
        true
    },
    released: |world, cpu, task, lock| {
        (tas::ALGORITHM.released)(world, cpu, task, lock);
        world.tasks[task as usize].extra_ns += ASKING_NS;
        world.gives_slice_back(cpu, task)
    },
    over: |world, cpu, task, lock| {
        if tas::exchanges(world, cpu, task, lock) {
            world.tasks[task as usize].extra_ns += ASKING_NS;
            world.asks_to_extend(task, true);
            world.has_it(cpu, task);
        }
    },
    ..tas::ALGORITHM
};
