//! Locks that the first spinner to see them free takes.

use super::{FREE, NONE};
use crate::world::World;

/// The lock is free: of those that spin on a CPU one sees it first. Each looks once a turn, so the first of k sees it
/// after the least of k uniform shares of a turn, and after the line has come to its CPU.
pub(crate) fn elect(world: &mut World, lock: u32) {
    let l = &world.locks[lock as usize];
    if l.holder != FREE || l.first_to_see != NONE || l.spinners.is_empty() {
        return;
    }
    let (count, last_cpu) = (l.spinners.len() as u64, l.last_cpu);
    let hidden_ns = l.visible_at.saturating_sub(world.now);
    let winner = world.locks[lock as usize].spinners[world.random.below(count) as usize];
    // The least of k uniform shares is nearly exponential with mean 1/k where k is large.
    let least = if count == 1 { world.random.share() } else { (world.random.exponential() / count as f64).min(1.0) };
    let cpu = world.tasks[winner as usize].cpu;
    let ns = (turn_ns(world, lock) as f64 * least) as u64 + world.transfer_ns(last_cpu, cpu);
    world.lock(lock).first_to_see = winner;
    world.sees_after(winner, hidden_ns + ns);
}

/// A turn of a waiter beside those that spin: a pause and a look. Exchanges on one line are carried out one after the other,
/// so that each turn takes as long as all of them.
pub(crate) fn turn_ns(world: &World, lock: u32) -> u64 {
    let costs = &world.machine.costs;
    let l = &world.locks[lock as usize];
    let served_ns = if l.algorithm.exchanges { l.spinners.len() as u64 * costs.contender_ns } else { 0 };
    costs.spin_ns.max(served_ns)
}

/// A waiter that saw the lock free by reading it takes it. All that read see that before the line has come to the winner,
/// and their exchanges, which are in vain, keep the line from the next release one after the other. Until its own is carried
/// out a loser makes no further turn.
pub(crate) fn wins(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.contended_atomic_ns(cpu, task, lock);
    let l = &world.locks[lock as usize];
    let losers_ns = l.spinners.len() as u64 * world.machine.costs.contender_ns;
    let (line, line_free_at) = (l.line, world.now + ns + losers_ns);
    world.lock(line).line_free_at = line_free_at;
    world.lock(lock).stalled_ns += losers_ns;
    world.take(cpu, task, lock, ns);
}

/// A waiter's exchange was the first to find the lock free, and the line moved once.
pub(crate) fn exchanges(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.machine.costs.atomic_ns;
    world.lock(lock).last_cpu = cpu;
    world.take(cpu, task, lock, ns);
}

/// A spinner was taken off: if it was to see the lock first, another one is.
pub(crate) fn switched_out(world: &mut World, task: u32, lock: u32) {
    world.no_longer_spins(task, lock);
    world.forgets_what_it_saw(task);
    let l = world.lock(lock);
    if l.first_to_see == task {
        l.first_to_see = NONE;
        elect(world, lock);
    }
}

/// A spinner has a CPU again.
pub(crate) fn switched_in(world: &mut World, task: u32, lock: u32) {
    world.looks(task, lock);
    elect(world, lock);
}

/// A spinner's segment is over. Whether it saw the lock free.
pub(crate) fn sees(world: &mut World, task: u32, lock: u32) -> bool {
    let now = world.now;
    let l = world.lock(lock);
    if l.first_to_see == task {
        l.first_to_see = NONE;
    }
    l.holder == FREE && l.visible_at <= now
}

/// A plain write sets the lock free. It is seen when the line has come back from those that spin on it, each of which is
/// served first where all of them write.
pub(crate) fn frees(world: &mut World, cpu: u32, lock: u32) {
    let delay_ns = world.write_ns(cpu, lock);
    let at = world.now + delay_ns;
    let l = world.lock(lock);
    (l.holder, l.last_cpu, l.visible_at) = (FREE, cpu, at);
    elect(world, lock);
}
