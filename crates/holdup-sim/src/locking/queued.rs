//! Locks that are handed over to spinning waiters in the order of arrival.

use super::{Algorithm, FREE, NONE};
use crate::world::{Mode, World};

/// A lock whose waiters spin in a queue; `released` is missing.
pub(crate) const BASE: Algorithm = Algorithm { waits, over, switched_out, switched_in, ..Algorithm::BASE };

/// A waiter stands in the queue and spins. What taking its place there costs passes while others hold the lock.
pub(crate) fn waits(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.atomic_ns(cpu, lock);
    world.tasks[task as usize].waiting.queued_at = world.now + ns;
    world.lock(lock).queue.push_back(task);
    world.spin(cpu, task, lock, u64::MAX);
}

/// The lock goes to the first of the queue, which sees that `after_ns` later; a waiter that has no CPU sees it when it
/// has one. Whether there was one.
pub(crate) fn hands_over(world: &mut World, cpu: u32, lock: u32, visible_ns: u64) -> bool {
    let at = world.now + visible_ns;
    let l = world.lock(lock);
    (l.last_cpu, l.visible_at) = (cpu, at);
    let next = l.queue.pop_front();
    l.holder = next.unwrap_or(FREE);
    let Some(next) = next else { return false };
    if world.tasks[next as usize].waiting.place != NONE {
        debug_assert_eq!(world.tasks[next as usize].segment.mode, Mode::Spin);
        served(world, next, lock);
    }
    true
}

/// The waiter that has the lock sees that: when the line has come, within a turn.
fn served(world: &mut World, task: u32, lock: u32) {
    let l = &world.locks[lock as usize];
    let (hidden_ns, last_cpu) = (l.visible_at.saturating_sub(world.now), l.last_cpu);
    let turn_ns = world.machine.costs.spin_ns;
    let cpu = world.tasks[task as usize].cpu;
    let ns = hidden_ns + world.random.below(turn_ns.max(1)) + world.transfer_ns(last_cpu, cpu);
    let rest_ns = world.tasks[task as usize].waiting.queued_at.saturating_sub(world.now);
    world.sees_after(task, ns.max(rest_ns));
}

/// A waiter saw that it is served.
fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.no_longer_spins(task, lock);
    world.take(cpu, task, lock, 0);
    world.has_it(cpu, task);
}

/// A waiter was taken off its CPU; its place in the queue stays.
fn switched_out(world: &mut World, task: u32, lock: u32) {
    world.no_longer_spins(task, lock);
    world.forgets_what_it_saw(task);
}

/// A waiter has a CPU again.
fn switched_in(world: &mut World, task: u32, lock: u32) {
    world.looks(task, lock);
    if world.locks[lock as usize].holder == task {
        served(world, task, lock);
    }
}
