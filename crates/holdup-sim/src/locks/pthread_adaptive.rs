//! The C library's adaptive mutex (PTHREAD_MUTEX_ADAPTIVE_NP): looks, then the futex mutex of three states (glibc 2.36,
//! nptl/pthread_mutex_lock.c, sysdeps/nptl/pthread_mutex_backoff.h, nptl/lowlevellock.c).
//!
//! The pauses between looks double from 1 to 16 turns, each longer by a random part of itself. A waiter gives up when they would come
//! to 10 turns and twice the lock's mean, or to 100, and exchanges until it has the lock, with a sleep after each.

use crate::locking::Algorithm;
use crate::locking::looking::{self, LOCKED, MARKED, Next, Rules};
use crate::world::World;

/// `MAX_ADAPTIVE_COUNT`, the tunable glibc.pthread.mutex_spin_count.
const MOST_TURNS: i32 = 100;
/// `MAX_BACKOFF`.
const LONGEST_PAUSE: u32 = 16;
/// The call, the check of the kind and storing the owner, ns: as for pthread-mutex.
const CALL_NS: u64 = 2;

const RULES: Rules = Rules { sees, writes, sleeps: looking::enters };

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "pthread-adaptive",
    looking: Some(&RULES),
    tries: |world, cpu, task, lock| {
        world.tasks[task as usize].extra_ns += CALL_NS;
        (looking::BASE.tries)(world, cpu, task, lock)
    },
    released: |world, cpu, task, lock| {
        world.tasks[task as usize].extra_ns += CALL_NS;
        (looking::BASE.released)(world, cpu, task, lock)
    },
    ..looking::BASE
};

fn sees(world: &mut World, task: u32, lock: u32, word: u16) -> Next {
    let waiting = &world.tasks[task as usize].waiting;
    if word & LOCKED == 0 || waiting.gave_up {
        return Next::Write;
    }
    let pause = (1 << waiting.looks.min(31)).min(LONGEST_PAUSE);
    let turns = pause + world.random.below(u64::from(pause)) as u32;
    let waiting = &mut world.tasks[task as usize].waiting;
    waiting.turns += turns;
    if waiting.turns as i32 >= most_turns(world.locks[lock as usize].mean_turns) {
        waiting.gave_up = true;
        return Next::Write;
    }
    Next::Pause(turns)
}

/// `max_cnt`.
pub(crate) fn most_turns(mean: i32) -> i32 {
    MOST_TURNS.min(mean * 2 + 10)
}

fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    let waiting = &mut world.tasks[task as usize].waiting;
    if found == 0 {
        let (must_mark, turns) = (waiting.must_mark, waiting.turns as i32);
        let l = world.lock(lock);
        l.is_marked = must_mark;
        // C divides towards zero.
        l.mean_turns += (turns - l.mean_turns) / 8;
        world.take(cpu, task, lock, 0);
        return Next::Has;
    }
    if !waiting.gave_up {
        return looking::sees(world, task, lock, found);
    }
    // `__lll_lock_wait()`: a word that is marked already is slept on, any other one is exchanged for the mark.
    if waiting.must_mark || found & MARKED != 0 {
        (waiting.must_mark, waiting.word) = (true, LOCKED | MARKED);
        world.lock(lock).is_marked = true;
        return Next::Sleep;
    }
    waiting.must_mark = true;
    Next::Write
}
