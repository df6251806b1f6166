//! The three-state futex mutex: waiters sleep in the kernel (U. Drepper, Futexes Are Tricky, 2011, section 6;
//! kernel/futex/waitwake.c, v6.18).
//!
//! A waiter marks the lock and sleeps. The release of a marked lock wakes one sleeper, which tries again and leaves the mark;
//! any newcomer may take the lock before it.

use crate::locking::{Algorithm, FREE, looking, spinning};
use crate::world::World;

/// The waiter is on its way into FUTEX_WAIT.
const ENTERS: u8 = 0;
/// It returns from there.
const RETURNS: u8 = 1;
/// The holder is in FUTEX_WAKE, and the lock is free.
const WAKES: u8 = 2;
/// It has woken a sleeper.
const WOKE: u8 = 3;

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "futex-mutex", waits: marks_and_enters, released, over, ..Algorithm::BASE };

fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    world.atomic_release(cpu, task, lock);
    spinning::frees(world, cpu, lock);
    if !std::mem::take(&mut world.lock(lock).is_marked) {
        return true;
    }
    world.kernel_for_lock(cpu, task, lock, WAKES, world.machine.costs.syscall_ns);
    false
}

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        ENTERS => {
            let l = &world.locks[lock as usize];
            if l.is_marked && l.holder != FREE {
                return looking::falls_asleep(world, cpu, task, lock, RETURNS);
            }
            world.kernel_for_lock(cpu, task, lock, RETURNS, world.machine.costs.syscall_ns / 2);
        }
        RETURNS => tries_again(world, cpu, task, lock),
        WAKES => {
            let Some(sleeper) = world.lock(lock).queue.pop_front() else { return world.returns(cpu, task) };
            // The waker's work continues after the sleeper is runnable.
            let ns = world.wakes_sleeper(cpu, sleeper);
            world.kernel_for_lock(cpu, task, lock, WOKE, ns);
        }
        _ => world.returns(cpu, task),
    }
}

/// Marks the word, and has the lock if it was free; the mark stays, because others may still sleep.
fn tries_again(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.contended_atomic_ns(cpu, task, lock);
    let is_free = world.locks[lock as usize].holder == FREE;
    world.lock(lock).is_marked = true;
    if is_free {
        world.take(cpu, task, lock, ns);
        return world.has_it_in_kernel(cpu, task);
    }
    world.tasks[task as usize].extra_ns += ns;
    enters(world, cpu, task, lock);
}

fn marks_and_enters(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.contended_atomic_ns(cpu, task, lock);
    world.tasks[task as usize].extra_ns += ns;
    world.lock(lock).is_marked = true;
    enters(world, cpu, task, lock);
}

/// Half-way through the call the word is read again under the bucket's lock (`futex_wait_setup()`), and a lock that was
/// given back by then ends it.
fn enters(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.kernel_for_lock(cpu, task, lock, ENTERS, world.machine.costs.syscall_ns / 2);
}
