//! What holdfast's mutex could be where many CPUs want it: at most four of its waiters look for long.
//!
//! It differs in three steps. A waiter whose compare-exchange failed continues its row of looks, which holdfast begins anew. From its
//! third look on a waiter is counted, in memory of the process and on another line than the lock's, and sleeps where four are
//! counted already. And a release fetches the line for writing before it reads the word, so that it crosses the machine once.

use super::holdfast::{self, LOOKS};
use crate::locking::Algorithm;
use crate::locking::looking::{self, MARKED, Next, Rules};
use crate::world::World;

/// The most waiters that are counted.
pub(crate) const MOST_LOOKERS: u32 = 4;
/// Pauses before a waiter is counted.
pub(crate) const UNCOUNTED_LOOKS: u32 = 2;

const RULES: Rules = Rules { sees, writes, ..holdfast::RULES };

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "holdfast-capped",
    only_simulated: Some("a proposal for holdfast, to be measured before it is real"),
    looking: Some(&RULES),
    released: holdfast::gives_back,
    ..holdfast::ALGORITHM
};

fn sees(world: &mut World, task: u32, lock: u32, word: u8) -> Next {
    let next = (holdfast::RULES.sees)(world, task, lock, word);
    if next == Next::Sleep {
        leaves(world, task, lock);
    }
    let waiting = &world.tasks[task as usize].waiting;
    let is_counted = waiting.is_counted || waiting.looks < UNCOUNTED_LOOKS;
    if !matches!(next, Next::Pause(_)) || is_counted || joins(world, task, lock) {
        return next;
    }
    world.tasks[task as usize].waiting.looks = LOOKS;
    if word & MARKED == 0 { Next::Write } else { Next::Sleep }
}

fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    if found != world.tasks[task as usize].waiting.word {
        return looking::sees(world, task, lock, found);
    }
    leaves(world, task, lock);
    holdfast::acts(world, cpu, task, lock)
}

/// Counts a waiter if there is room. Whether there was.
fn joins(world: &mut World, task: u32, lock: u32) -> bool {
    fetches_count(world, task, lock);
    let l = world.lock(lock);
    let may = l.lookers < MOST_LOOKERS;
    l.lookers += u32::from(may);
    world.tasks[task as usize].waiting.is_counted = may;
    may
}

/// A waiter no longer looks.
fn leaves(world: &mut World, task: u32, lock: u32) {
    if std::mem::take(&mut world.tasks[task as usize].waiting.is_counted) {
        fetches_count(world, task, lock);
        world.lock(lock).lookers -= 1;
    }
}

/// The line of the count is here, for an atomic operation.
fn fetches_count(world: &mut World, task: u32, lock: u32) {
    let cpu = world.tasks[task as usize].cpu;
    let from = std::mem::replace(&mut world.lock(lock).lookers_cpu, cpu);
    world.tasks[task as usize].extra_ns += world.machine.costs.atomic_ns + world.transfer_ns(from, cpu);
}
