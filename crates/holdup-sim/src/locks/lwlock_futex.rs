//! PostgreSQL's LWLock with a futex mutex in front of its list.

use super::lwlock::{self, LwLock};
use super::{Algorithm, futex_mutex::FutexMutex};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "lwlock-futex",
    summary: "lwlock whose list of waiters a futex mutex protects",
    docs: "The LWLock in which whoever finds the list taken sleeps in the kernel instead of spinning, as a patch of 2026 \
           for machines with many CPUs has it.",
    references: &[
        "pgsql-hackers, H. Okanovic, 2026-06-05: a futex in place of the spin on the wait list",
        "PostgreSQL src/backend/storage/lmgr/lwlock.c (16 to 18)",
    ],
};

#[derive(Debug)]
pub(super) struct LwLockFutex;

impl Algorithm for LwLockFutex {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn inner(&self) -> Option<&'static dyn Algorithm> {
        Some(&FutexMutex)
    }

    fn tries(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        lwlock::tries(world, cpu, task, lock)
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        LwLock.waits(world, cpu, task, lock);
    }

    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        lwlock::released(world, cpu, task, lock)
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        lwlock::over(world, cpu, task, lock);
    }
}
