//! Numbers, served in order.

use super::{Algorithm, FREE};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "ticket",
    summary: "ticket lock: first come, first served; nobody sleeps",
    docs: "A waiter draws a number and spins until it is served. The lock goes to the next number even when its waiter \
           is not on a CPU, and everyone behind it waits for that.",
    references: &["J. Mellor-Crummey and M. Scott, ACM TOCS 9(1), 1991, section 2.2"],
};

#[derive(Debug)]
pub(super) struct Ticket;

impl Algorithm for Ticket {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        world.lock(lock).queue.push_back(task);
        world.spin(cpu, task, lock, u64::MAX);
    }

    fn released(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) -> bool {
        let Some(next) = world.lock(lock).queue.pop_front() else { return true };
        let spinners = world.locks[lock as usize].spinners.len() as u64;
        world.tasks[task as usize].extra_ns += spinners * world.machine.costs.contender_ns;
        let l = world.lock(lock);
        l.holder = next;
        if l.spinners.contains(&next) {
            served(world, next, lock);
        }
        true
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        world.no_longer_spins(task, lock);
        world.take(cpu, task, lock);
        world.goes_on(cpu, task);
    }

    fn switched_out(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) {
        world.no_longer_spins(task, lock);
        world.tasks[task as usize].segment.left = u64::MAX;
    }

    fn switched_in(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) {
        world.lock(lock).spinners.push(task);
        if world.locks[lock as usize].holder == task {
            served(world, task, lock);
        }
    }
}

/// The number of a waiter on a CPU is served: it sees that when the line has come, within a turn.
fn served(world: &mut World, task: u32, lock: u32) {
    debug_assert_ne!(world.locks[lock as usize].holder, FREE);
    let turn_ns = world.machine.costs.spin_ns;
    let cpu = world.tasks[task as usize].cpu;
    let ns = world.random.below(turn_ns.max(1)) + world.transfer_ns(world.locks[lock as usize].last_cpu, cpu);
    world.sees_after(task, ns);
}
