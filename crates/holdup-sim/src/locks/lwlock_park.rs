//! PostgreSQL's LWLock whose list is protected by a futex mutex with looks before the sleep
//! (patches/postgresql-18/lwlock-wait-list-park.patch).
//!
//! A backend that finds the list taken looks seven times, with pauses that double, as long as no backend sleeps. After a sleep
//! it tries once and sleeps again.

use super::lwlock;
use crate::locking::Algorithm;
use crate::locking::looking::{self, LOCKED, MARKED, Next, Rules};
use crate::world::World;

/// `LW_LIST_LOOKS`, and the turns of the first pause.
const LOOKS: u32 = 7;
const FIRST_PAUSE: u32 = 4;

const RULES: Rules = Rules { sees, writes, sleeps: looking::enters };

const LIST: Algorithm = Algorithm { id: "lwlock-park", looking: Some(&RULES), ..looking::BASE };

pub(super) const ALGORITHM: Algorithm = Algorithm { id: "lwlock-park", inner: Some(&LIST), ..lwlock::ALGORITHM };

fn sees(world: &mut World, task: u32, _lock: u32, word: u16) -> Next {
    let waiting = &mut world.tasks[task as usize].waiting;
    if word & LOCKED == 0 {
        return Next::Write;
    }
    if word & MARKED == 0 && !waiting.must_mark && waiting.looks < LOOKS {
        return Next::Pause(FIRST_PAUSE << waiting.looks);
    }
    waiting.must_mark = true;
    if word & MARKED == 0 { Next::Write } else { Next::Sleep }
}

/// `pg_atomic_fetch_or_u32()`. A waiter that wanted to sleep leaves the mark, because others may sleep.
fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    let must_mark = world.tasks[task as usize].waiting.must_mark;
    world.lock(lock).is_marked |= must_mark;
    if found & LOCKED == 0 {
        world.take(cpu, task, lock, 0);
        return Next::Has;
    }
    if must_mark {
        world.tasks[task as usize].waiting.word = LOCKED | MARKED;
        return Next::Sleep;
    }
    looking::sees(world, task, lock, found)
}
