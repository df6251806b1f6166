//! Numbers, served in order.

use super::{Algorithm, queued};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "ticket",
    summary: "ticket lock: spinning, first come, first served",
    docs: "A waiter draws a number and spins until it is served. The lock goes to the next number even when its waiter \
           is not on a CPU, and everyone behind it waits for that. Every release makes all waiters read the line \
           again, and the one whose number it is comes somewhere among them.",
    references: &[
        "J. Mellor-Crummey and M. Scott, ACM TOCS 9(1), 1991, section 2.2",
        "S. Boyd-Wickizer et al., Non-scalable locks are dangerous, Linux Symposium 2012",
    ],
};

#[derive(Debug)]
pub(super) struct Ticket;

impl Algorithm for Ticket {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        queued::waits(world, cpu, task, lock);
    }

    fn released(&self, world: &mut World, cpu: u32, _task: u32, lock: u32) -> bool {
        let readers = world.locks[lock as usize].spinners.len() as u64;
        let place = if readers > 1 { world.random.below(readers) } else { 0 };
        let ns = world.write_ns(cpu, lock, false) + place * world.machine.costs.contender_ns;
        queued::hands_over(world, cpu, lock, ns);
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
