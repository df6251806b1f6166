//! What locks have in common on which whoever comes first gets in.

use super::FREE;
use crate::world::World;

/// The lock is free: of those that spin on a CPU one sees it first. Each looks once a turn, so the first of k sees it
/// after the least of k uniform shares of a turn, and after the line has come to its CPU.
pub(super) fn elect(world: &mut World, lock: u32) {
    let l = &world.locks[lock as usize];
    if l.holder != FREE || l.first_to_see != FREE || l.spinners.is_empty() {
        return;
    }
    let (count, last_cpu) = (l.spinners.len(), l.last_cpu);
    let winner = l.spinners[world.random.below(count as u64) as usize];
    let turn_ns = world.machine.costs.spin_ns;
    // The least of k shares is 1 - u^(1/k).
    let least = 1.0 - libm::pow(world.random.share(), 1.0 / count as f64);
    let cpu = world.tasks[winner as usize].cpu;
    let ns = (turn_ns as f64 * least) as u64 + world.transfer_ns(last_cpu, cpu);
    world.lock(lock).first_to_see = winner;
    world.sees_after(winner, ns);
}

/// A spinner was taken off: if it was to see the lock first, another one is.
pub(super) fn switched_out(world: &mut World, task: u32, lock: u32) {
    world.no_longer_spins(task, lock);
    // What it spins on has no end of its own; one that has sets it anew.
    world.tasks[task as usize].segment.left = u64::MAX;
    let l = world.lock(lock);
    if l.first_to_see == task {
        l.first_to_see = FREE;
        elect(world, lock);
    }
}

/// A spinner has a CPU again.
pub(super) fn switched_in(world: &mut World, task: u32, lock: u32) {
    world.lock(lock).spinners.push(task);
    elect(world, lock);
}

/// A spinner's segment is over because it saw the lock free. Whether it is its own now.
pub(super) fn seen(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let l = world.lock(lock);
    if l.first_to_see == task {
        l.first_to_see = FREE;
    }
    if !l.may_take() {
        return false;
    }
    world.no_longer_spins(task, lock);
    world.take(cpu, task, lock);
    true
}
