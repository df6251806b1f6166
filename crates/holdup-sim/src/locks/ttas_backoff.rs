//! Test-and-test-and-set with bounded exponential back-off.

use super::{Algorithm, FREE, spinning};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "ttas-backoff",
    summary: "test-and-test-and-set with bounded exponential back-off",
    docs: "A waiter stays away for a random number of turns up to a bound, then reads until the lock looks free and \
           tries the exchange. All that saw it free and came second stay away again, up to twice the bound: from 4 to \
           1024 turns.",
    references: &["T. E. Anderson, IEEE TPDS 1(1), 1990, sections 3.2 and 3.3"],
};

const FIRST_BOUND: u32 = 4;
const LAST_BOUND: u32 = 1024;

/// The waiter looks.
const LOOKS: u8 = 0;
/// It stays away.
const AWAY: u8 = 1;

#[derive(Debug)]
pub(super) struct TtasBackoff;

impl Algorithm for TtasBackoff {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, _lock: u32) {
        world.tasks[task as usize].waiting.bound = FIRST_BOUND;
        let ns = stays_away(world, task);
        world.spin_unseeing(cpu, task, ns);
    }

    fn released(&self, world: &mut World, cpu: u32, _task: u32, lock: u32) -> bool {
        spinning::frees(world, cpu, lock, false);
        true
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        if world.tasks[task as usize].waiting.step == AWAY {
            world.tasks[task as usize].waiting.step = LOOKS;
            world.looks(task, lock);
            world.tasks[task as usize].waiting.budget_ns = u64::MAX;
            world.spins_on(cpu, task);
            return spinning::elect(world, lock);
        }
        if !spinning::sees(world, task, lock) {
            world.spins_on(cpu, task);
            return spinning::elect(world, lock);
        }
        world.no_longer_spins(task, lock);
        let ns = world.atomic_ns(cpu, lock);
        world.take(cpu, task, lock, ns);
        others_lose(world, lock);
        world.has_it(cpu, task);
    }

    fn switched_out(&self, world: &mut World, task: u32, lock: u32) {
        if world.tasks[task as usize].waiting.step == LOOKS {
            spinning::switched_out(world, task, lock);
        }
    }

    fn switched_in(&self, world: &mut World, task: u32, lock: u32) {
        if world.tasks[task as usize].waiting.step == LOOKS {
            spinning::switched_in(world, task, lock);
        }
    }
}

/// The waiter stays away for so long, ns.
fn stays_away(world: &mut World, task: u32) -> u64 {
    let bound = world.tasks[task as usize].waiting.bound;
    let turns = 1 + world.random.below(u64::from(bound));
    let ns = turns * world.machine.costs.spin_ns;
    let t = &mut world.tasks[task as usize];
    (t.waiting.step, t.waiting.budget_ns) = (AWAY, ns);
    ns
}

/// Moving the line to the winner takes longer than a turn, so all that look see it free and lose the exchange. Each of
/// them has an event of its own at the end of its back-off, which pays for the walk.
fn others_lose(world: &mut World, lock: u32) {
    debug_assert_ne!(world.locks[lock as usize].holder, FREE);
    while let Some(&loser) = world.locks[lock as usize].spinners.last() {
        world.no_longer_spins(loser, lock);
        let t = &mut world.tasks[loser as usize];
        t.waiting.bound = (t.waiting.bound * 2).min(LAST_BOUND);
        let ns = stays_away(world, loser);
        world.spins_anew(loser, ns);
    }
}
