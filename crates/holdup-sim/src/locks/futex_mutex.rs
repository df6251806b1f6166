//! Waiters sleep in the kernel.

use super::{Algorithm, FREE};
use crate::program::Inside;
use crate::seen::Left;
use crate::world::{Then, World};
use holdup_model::Meta;

const META: Meta = Meta {
    id: "futex-mutex",
    summary: "three-state futex mutex: waiters sleep at once, nobody spins",
    docs: "A waiter marks the lock and sleeps; who gives a marked lock back wakes one sleeper, which tries again.",
    references: &["U. Drepper, Futexes Are Tricky, 2011, section 6", "Linux: kernel/futex/waitwake.c, v6.18"],
};

/// The waiter enters FUTEX_WAIT.
const WAITS: u8 = 0;
/// It is awake again and returns.
const WOKEN: u8 = 1;

#[derive(Debug)]
pub(super) struct FutexMutex;

impl Algorithm for FutexMutex {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        world.lock(lock).has_sleepers = true;
        enters(world, cpu, task);
    }

    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        if !std::mem::take(&mut world.lock(lock).has_sleepers) {
            return true;
        }
        // FUTEX_WAKE: the system call, and the wake-up where there is somebody to wake.
        let costs = &world.machine.costs;
        let mut ns = costs.syscall_ns;
        if let Some(woken) = world.lock(lock).queue.pop_front() {
            ns += world.machine.costs.wake_ns;
            world.wake(woken, Some(cpu));
        }
        world.begin(cpu, task, World::kernel(ns, Inside::On, Then::ToUser));
        false
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        let step = world.tasks[task as usize].waiting.step;
        if step == WAITS && world.locks[lock as usize].holder != FREE && world.locks[lock as usize].has_sleepers {
            let l = world.lock(lock);
            l.queue.push_back(task);
            world.seen.locks[lock as usize].sleeps += 1;
            let t = &mut world.tasks[task as usize];
            t.waiting.step = WOKEN;
            t.waiting.slept = true;
            t.segment = World::kernel(world.machine.costs.syscall_ns / 2, Inside::On, Then::Lock);
            return world.schedule(cpu, Left::Waits);
        }
        if world.locks[lock as usize].may_take() {
            world.take(cpu, task, lock);
            // Others may still sleep: the mark stays.
            world.lock(lock).has_sleepers = true;
            return world.return_to_user(cpu, task);
        }
        world.lock(lock).has_sleepers = true;
        enters(world, cpu, task);
    }

    fn switched_out(&self, _world: &mut World, _cpu: u32, _task: u32, _lock: u32) {}

    fn switched_in(&self, _world: &mut World, _cpu: u32, _task: u32, _lock: u32) {}
}

fn enters(world: &mut World, cpu: u32, task: u32) {
    world.tasks[task as usize].waiting.step = WAITS;
    let ns = world.machine.costs.syscall_ns;
    world.begin(cpu, task, World::kernel(ns, Inside::On, Then::Lock));
}
