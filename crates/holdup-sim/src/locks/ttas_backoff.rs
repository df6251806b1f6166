//! Test-and-test-and-set with bounded exponential back-off (T. E. Anderson, IEEE TPDS 1(1), 1990, sections 3.2 and 3.3).
//!
//! A waiter backs off for a random number of turns up to a bound, then reads until the lock looks free and tries the
//! exchange. All that saw it free and lost back off again, up to twice the bound: from 4 to 1024 turns.

use crate::locking::{Algorithm, FREE, spinning};
use crate::world::World;

const FIRST_BOUND: u32 = 4;
const LAST_BOUND: u32 = 1024;

/// The waiter reads the lock.
const READS: u8 = 0;
const BACKS_OFF: u8 = 1;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "ttas-backoff",
    waits: |world, cpu, task, _| {
        world.tasks[task as usize].waiting.bound = FIRST_BOUND;
        let ns = back_off_ns(world, task);
        world.spin_unseeing(cpu, task, ns);
    },
    over,
    switched_out: |world, task, lock| {
        if world.tasks[task as usize].waiting.step == READS {
            spinning::switched_out(world, task, lock);
        }
    },
    switched_in: |world, task, lock| {
        if world.tasks[task as usize].waiting.step == READS {
            spinning::switched_in(world, task, lock);
        }
    },
    ..Algorithm::BASE
};

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    if world.tasks[task as usize].waiting.step == BACKS_OFF {
        world.tasks[task as usize].waiting.step = READS;
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
    spinning::wins(world, cpu, task, lock);
    others_lose(world, lock);
    world.has_it(cpu, task);
}

/// The length of the back-off that the waiter begins, ns.
fn back_off_ns(world: &mut World, task: u32) -> u64 {
    let bound = world.tasks[task as usize].waiting.bound;
    let turns = 1 + world.random.below(u64::from(bound));
    let ns = turns * world.machine.costs.spin_ns;
    let t = &mut world.tasks[task as usize];
    (t.waiting.step, t.waiting.budget_ns) = (BACKS_OFF, ns);
    ns
}

/// Moving the line to the winner takes longer than a turn, so all that read see it free and lose the exchange.
fn others_lose(world: &mut World, lock: u32) {
    debug_assert_ne!(world.locks[lock as usize].holder, FREE);
    while let Some(&loser) = world.locks[lock as usize].spinners.last() {
        world.no_longer_spins(loser, lock);
        let t = &mut world.tasks[loser as usize];
        t.waiting.bound = (t.waiting.bound * 2).min(LAST_BOUND);
        let ns = back_off_ns(world, loser);
        world.spins_anew(loser, ns);
    }
}
