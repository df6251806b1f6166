//! The mutex of Rust's standard library: the futex mutex of three states, with looks before the sleep
//! (library/std/src/sys/sync/mutex/futex.rs, 1.85 to 1.93).
//!
//! A waiter looks up to 100 times, with one pause between two looks, as long as the lock is held and no task sleeps. Then its
//! exchange leaves the mark of a sleeper, also where it finds the lock free.

use crate::locking::Algorithm;
use crate::locking::looking::{self, LOCKED, MARKED, Next, Rules};
use crate::world::World;

const LOOKS: u32 = 100;

const RULES: Rules = Rules { sees, writes, sleeps: looking::enters };

pub(super) const ALGORITHM: Algorithm = Algorithm { id: "std-mutex", looking: Some(&RULES), ..looking::BASE };

/// `Mutex::spin()`, and what its callers do with the state.
fn sees(world: &mut World, task: u32, _lock: u32, word: u16) -> Next {
    let waiting = &mut world.tasks[task as usize].waiting;
    if word == LOCKED && waiting.looks < LOOKS {
        return Next::Pause(1);
    }
    if word == LOCKED | MARKED {
        waiting.must_mark = true;
        return Next::Sleep;
    }
    waiting.must_mark |= word == LOCKED;
    Next::Write
}

/// The first one that sees the lock free takes it without a mark. All others exchange, and the mark stays.
fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    let waiting = &mut world.tasks[task as usize].waiting;
    let must_mark = std::mem::replace(&mut waiting.must_mark, true);
    if found == 0 {
        world.lock(lock).is_marked = must_mark;
        world.take(cpu, task, lock, 0);
        return Next::Has;
    }
    if must_mark {
        world.lock(lock).is_marked = true;
        world.tasks[task as usize].waiting.word = LOCKED | MARKED;
        return Next::Sleep;
    }
    // The compare-exchange has read the word.
    if found & MARKED != 0 {
        waiting.word = found;
        return Next::Sleep;
    }
    Next::Write
}
