//! The C library's mutex: in glibc the futex mutex of three states, behind a call into the library and its checks for other
//! kinds (nptl/pthread_mutex_lock.c, nptl/lowlevellock.c, 2.36).

use super::futex_mutex;
use crate::locking::{Algorithm, take_if_free};

/// The call, the check of the kind and storing the owner, ns.
const CALL_NS: u64 = 2;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "pthread-mutex",
    tries: |world, cpu, task, lock| {
        world.tasks[task as usize].extra_ns += CALL_NS;
        take_if_free(world, cpu, task, lock)
    },
    released: |world, cpu, task, lock| {
        world.tasks[task as usize].extra_ns += CALL_NS;
        (futex_mutex::ALGORITHM.released)(world, cpu, task, lock)
    },
    ..futex_mutex::ALGORITHM
};
