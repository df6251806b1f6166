//! PostgreSQL's spinlock: turns, then sleeps.

use super::{Algorithm, spinning};
use crate::program::Inside;
use crate::seen::Left;
use crate::world::{Mode, Then, World};
use holdup_model::Meta;

const META: Meta = Meta {
    id: "postgres-s-lock",
    summary: "PostgreSQL's s_lock: adaptive spinning, then sleeps of 1 ms to 1 s",
    docs: "A waiter spins for spins_per_delay turns, then sleeps for at least 1 ms, each time longer by a random share. \
           spins_per_delay grows by 100 after an acquisition that waited without sleeping and shrinks by 1 after one \
           that slept.",
    references: &["PostgreSQL src/backend/storage/lmgr/s_lock.c (15 to 18)"],
};

const MIN_SPINS_PER_DELAY: u32 = 10;
const MAX_SPINS_PER_DELAY: u32 = 1000;
const MIN_DELAY_NS: u64 = 1_000_000;
const MAX_DELAY_NS: u64 = 1_000_000_000;

/// The waiter spins.
const SPINS: u8 = 0;
/// It enters the kernel to sleep.
const ENTERS: u8 = 1;
/// It is awake again.
const WAKES: u8 = 2;

#[derive(Debug)]
pub(super) struct SLock;

impl Algorithm for SLock {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        world.tasks[task as usize].waiting.delay_ns = 0;
        spins(world, cpu, task, lock);
    }

    fn released(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) -> bool {
        let spinners = world.locks[lock as usize].spinners.len() as u64;
        world.tasks[task as usize].extra_ns += spinners.min(1) * world.machine.costs.contender_ns;
        spinning::elect(world, lock);
        true
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        match world.tasks[task as usize].waiting.step {
            SPINS => {
                if spinning::seen(world, cpu, task, lock) {
                    finish(world, task);
                    return world.goes_on(cpu, task);
                }
                let left_ns = world.tasks[task as usize].waiting.spin_end_ns.saturating_sub(world.now);
                if left_ns > 0 {
                    return world.spins_on(cpu, task, left_ns);
                }
                world.no_longer_spins(task, lock);
                world.tasks[task as usize].waiting.step = ENTERS;
                let ns = world.machine.costs.syscall_ns;
                world.begin(cpu, task, World::kernel(ns, Inside::On, Then::Lock));
            }
            ENTERS => sleeps(world, cpu, task, lock),
            _ => {
                // Awake, and back in user mode: a try, then turns again.
                if world.locks[lock as usize].may_take() {
                    world.take(cpu, task, lock);
                    finish(world, task);
                    return world.return_to_user(cpu, task);
                }
                spins(world, cpu, task, lock);
            }
        }
    }

    fn switched_out(&self, world: &mut World, _cpu: u32, task: u32, lock: u32) {
        let t = &mut world.tasks[task as usize];
        let left_ns = t.waiting.spin_end_ns.saturating_sub(world.now);
        t.waiting.spin_end_ns = left_ns;
        spinning::switched_out(world, task, lock);
        world.tasks[task as usize].segment.left = left_ns;
    }

    fn switched_in(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        let from = world.cpus[cpu as usize].busy_from;
        let t = &mut world.tasks[task as usize];
        t.waiting.spin_end_ns += from;
        spinning::switched_in(world, task, lock);
    }
}

fn spins(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = u64::from(world.tasks[task as usize].spins_per_delay) * world.machine.costs.spin_ns;
    let from = world.cpus[cpu as usize].busy_from.max(world.now);
    let t = &mut world.tasks[task as usize];
    (t.waiting.step, t.waiting.spin_end_ns) = (SPINS, from + ns + t.extra_ns);
    world.spin(cpu, task, lock, ns);
    spinning::elect(world, lock);
}

fn sleeps(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let share = world.random.share();
    let t = &mut world.tasks[task as usize];
    let delay_ns = t.waiting.delay_ns.max(MIN_DELAY_NS);
    let longer_ns = delay_ns + (delay_ns as f64 * share) as u64;
    t.waiting.delay_ns = if longer_ns > MAX_DELAY_NS { MIN_DELAY_NS } else { longer_ns };
    (t.waiting.step, t.waiting.slept) = (WAKES, true);
    t.segment = World::kernel(world.machine.costs.syscall_ns / 2, Inside::On, Then::Lock);
    debug_assert_eq!(t.segment.mode, Mode::Kernel);
    world.seen.locks[lock as usize].sleeps += 1;
    let at = world.now + delay_ns + world.machine.costs.timer_slack_ns;
    world.agenda.set(world.timer_slot(task), at);
    world.schedule(cpu, Left::Waits);
}

/// `finish_spin_delay()`.
fn finish(world: &mut World, task: u32) {
    let t = &mut world.tasks[task as usize];
    t.spins_per_delay = if t.waiting.slept {
        (t.spins_per_delay - 1).max(MIN_SPINS_PER_DELAY)
    } else {
        (t.spins_per_delay + 100).min(MAX_SPINS_PER_DELAY)
    };
}
