//! The C library's mutex.

use super::{Algorithm, FREE, futex_mutex::FutexMutex};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "pthread-mutex",
    summary: "pthread_mutex_t with default attributes, as the C library has it",
    docs: "In glibc the futex mutex of three states, behind a call into the library and its checks for other kinds.",
    references: &["glibc nptl/pthread_mutex_lock.c, nptl/lowlevellock.c (2.36)"],
};

/// The call, the look at the kind and the owner that is written down.
const CALL_NS: u64 = 2;

#[derive(Debug)]
pub(super) struct PthreadMutex;

impl Algorithm for PthreadMutex {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn tries(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        let is_free = world.locks[lock as usize].holder == FREE;
        world.tasks[task as usize].extra_ns += CALL_NS;
        is_free && FutexMutex.tries(world, cpu, task, lock)
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        FutexMutex.waits(world, cpu, task, lock);
    }

    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        world.tasks[task as usize].extra_ns += CALL_NS;
        FutexMutex.released(world, cpu, task, lock)
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        FutexMutex.over(world, cpu, task, lock);
    }
}
