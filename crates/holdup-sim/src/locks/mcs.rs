//! The queue lock: each waiter spins on a line of its own.

use super::{Algorithm, NONE, queued};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "mcs",
    summary: "MCS queue lock: first come, first served, each waiter spins on its own line",
    docs: "A waiter puts itself at the end of a list with one exchange and spins on a flag that only its predecessor \
           writes, so what a hand-over costs does not depend on how many wait. Like every fair spinning lock it waits \
           for a waiter that is not on a CPU.",
    references: &["J. Mellor-Crummey and M. Scott, ACM TOCS 9(1), 1991, section 2.4"],
};

#[derive(Debug)]
pub(super) struct Mcs;

impl Algorithm for Mcs {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        queued::waits(world, cpu, task, lock);
        // The exchange leaves the list's end with the newcomer.
        world.lock(lock).last_cpu = cpu;
    }

    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
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
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        queued::over(world, cpu, task, lock);
    }

    fn switched_out(&self, world: &mut World, task: u32, lock: u32) {
        queued::switched_out(world, task, lock);
    }

    fn switched_in(&self, world: &mut World, task: u32, lock: u32) {
        queued::switched_in(world, task, lock);
    }
}
