//! Test-and-set in a loop.

use super::{Algorithm, spinning};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "tas",
    summary: "test-and-set: an atomic exchange in a loop, nothing else",
    docs: "Waiters spin without end; each writes the lock's line at every turn, so the holder's release waits for each \
           of them. Behind a preempted holder every waiter burns its whole time slice.",
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
        spinning::elect(world, lock);
    }

    fn released(&self, world: &mut World, cpu: u32, _task: u32, lock: u32) -> bool {
        spinning::frees(world, cpu, lock, true);
        true
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        if exchanges(world, cpu, task, lock) {
            world.has_it(cpu, task);
        }
    }

    fn switched_out(&self, world: &mut World, task: u32, lock: u32) {
        spinning::switched_out(world, task, lock);
    }

    fn switched_in(&self, world: &mut World, task: u32, lock: u32) {
        spinning::switched_in(world, task, lock);
    }
}

/// A waiter's exchange. Whether it has the lock; if not, it spins on.
pub(super) fn exchanges(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    if !spinning::sees(world, task, lock) {
        world.spins_on(cpu, task);
        spinning::elect(world, lock);
        return false;
    }
    // The exchange that sees it free is the one that takes it, so the line moves once.
    world.no_longer_spins(task, lock);
    let ns = world.machine.costs.atomic_ns;
    world.lock(lock).last_cpu = cpu;
    world.take(cpu, task, lock, ns);
    true
}
