//! Test-and-set in a loop.

use super::{Algorithm, spinning};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "tas",
    summary: "test-and-set: an atomic exchange in a loop, nothing else",
    docs: "Waiters spin without end; each writes the lock's line at every turn, so each one more makes the holder's \
           release slower.",
    references: &["T. E. Anderson, The Performance of Spin Lock Alternatives, IEEE TPDS 1(1), 1990, section 3.1"],
};

#[derive(Debug)]
pub(super) struct Tas;

impl Algorithm for Tas {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        world.spin(cpu, task, lock, u64::MAX);
    }

    fn released(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) -> bool {
        let spinners = world.locks[lock as usize].spinners.len() as u64;
        world.tasks[task as usize].extra_ns += spinners * world.machine.costs.contender_ns;
        spinning::elect(world, lock);
        true
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        if spinning::seen(world, cpu, task, lock) {
            return world.goes_on(cpu, task);
        }
        world.spins_on(cpu, task, u64::MAX);
    }

    fn switched_out(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) {
        spinning::switched_out(world, task, lock);
    }

    fn switched_in(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) {
        spinning::switched_in(world, task, lock);
    }
}
