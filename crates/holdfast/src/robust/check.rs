//! Every state that a few threads can bring a robust mutex into, with a death at every step.
//!
//! The model has the words, the kernel's queue and threads that take the lock a few times; what they do to the word is decided by
//! `protocol`, as in the lock itself. One step is one access to shared memory or one system call.

use super::protocol::{self, State, Step, WAITERS};
use std::collections::HashSet;

const THREADS: usize = 3;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// Before its next round.
    Outside,
    /// About to look at the word.
    Looks {
        has_slept: bool,
    },
    /// About to exchange the word it saw.
    Exchanges {
        seen: u64,
        has_slept: bool,
    },
    /// About to sleep on the word it saw: the call compares and queues in one step.
    FallsAsleep {
        seen: u32,
        has_slept: bool,
    },
    Asleep,
    Inside {
        knows_of_death: bool,
    },
    Releases {
        seen: u64,
    },
    Wakes {
        left: u64,
    },
    Clears {
        left: u64,
    },
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    words: u64,
    at: [At; THREADS],
    rounds_left: [u8; THREADS],
    /// Sleepers in their order.
    queue: Vec<usize>,
    deaths_left: u8,
    /// Deaths inside that no owner has been shown.
    unreported: u8,
}

fn id(thread: usize) -> u32 {
    thread as u32 + 1
}

impl World {
    fn wake_one(&mut self) -> u32 {
        if self.queue.is_empty() {
            return 0;
        }
        let woken = self.queue.remove(0);
        self.at[woken] = At::Looks { has_slept: true };
        1
    }

    fn enter(&mut self, thread: usize, died: bool) {
        assert!(!self.at.iter().any(|at| matches!(at, At::Inside { .. })), "two are inside");
        // A death after the release of the word cannot have hurt the data.
        assert!(died || self.unreported == 0, "a death was not reported");
        self.unreported = 0;
        self.at[thread] = At::Inside { knows_of_death: died };
    }

    /// The next step of a thread that can make one.
    fn step(&self, thread: usize) -> Option<World> {
        let mut world = self.clone();
        world.at[thread] = match self.at[thread] {
            At::Outside if self.rounds_left[thread] > 0 => {
                world.rounds_left[thread] -= 1;
                At::Looks { has_slept: false }
            }
            At::Outside | At::Asleep | At::Dead => return None,
            At::Looks { has_slept } => match protocol::look(self.words, id(thread), has_slept) {
                Step::Sleep(seen) => At::FallsAsleep { seen, has_slept },
                Step::Deadlock => panic!("no thread takes it twice"),
                Step::Take(_) | Step::Mark(_) => At::Exchanges { seen: self.words, has_slept },
            },
            At::Exchanges { seen, has_slept } if seen != self.words => At::Looks { has_slept },
            At::Exchanges { seen, has_slept } => match protocol::look(seen, id(thread), has_slept) {
                Step::Take(new) => {
                    world.words = new;
                    world.enter(thread, protocol::state(new) == State::Died);
                    return Some(world);
                }
                Step::Mark(new) => {
                    world.words = new;
                    At::Looks { has_slept }
                }
                Step::Sleep(_) | Step::Deadlock => panic!("nothing is exchanged before a sleep"),
            },
            At::FallsAsleep { seen, has_slept } if seen != self.words as u32 => At::Looks { has_slept },
            At::FallsAsleep { .. } => {
                world.queue.push(thread);
                At::Asleep
            }
            At::Inside { .. } => {
                // Each owner repairs what it was shown.
                world.words = protocol::make_whole(self.words);
                At::Releases { seen: world.words }
            }
            At::Releases { seen } if seen != self.words => At::Releases { seen: self.words },
            At::Releases { seen } => {
                let (new, must_wake) = protocol::release(seen);
                world.words = new;
                if must_wake { At::Wakes { left: new } } else { At::Outside }
            }
            At::Wakes { left } => {
                let woken = world.wake_one();
                if protocol::after_wake(left, woken).is_some() { At::Clears { left } } else { At::Outside }
            }
            At::Clears { left } => {
                if left == self.words {
                    world.words = protocol::after_wake(left, 0).expect("no thread was woken");
                }
                At::Outside
            }
        };
        Some(world)
    }

    /// The thread is killed where it stands. Outside, the kernel has nothing to look at.
    fn kill(&self, thread: usize) -> Option<World> {
        if self.deaths_left == 0 || matches!(self.at[thread], At::Dead | At::Outside) {
            return None;
        }
        let mut world = self.clone();
        world.deaths_left -= 1;
        world.queue.retain(|sleeper| *sleeper != thread);
        world.at[thread] = At::Dead;
        let (new, must_wake) = protocol::death(self.words, id(thread));
        if let Some(new) = new {
            world.words = new;
            world.unreported = 1;
        }
        if must_wake {
            world.wake_one();
        }
        Some(world)
    }

    fn next(&self) -> Vec<World> {
        let steps: Vec<World> = (0..THREADS).filter_map(|thread| self.step(thread)).collect();
        if steps.is_empty() {
            let asleep = self.at.contains(&At::Asleep);
            assert!(!asleep, "a wake-up was lost: words {:#x}, {self:?}", self.words);
            assert!(protocol::owner(self.words) == 0, "held by no thread: {self:?}");
        }
        steps.into_iter().chain((0..THREADS).filter_map(|thread| self.kill(thread))).collect()
    }
}

/// Every state that can be reached. Returns how many there are, and how many deaths inside were reported.
fn explore(rounds: [u8; THREADS], deaths: u8) -> (usize, usize) {
    let first = World {
        words: 0,
        at: [At::Outside; THREADS],
        rounds_left: rounds,
        queue: Vec::new(),
        deaths_left: deaths,
        unreported: 0,
    };
    let (mut seen, mut left) = (HashSet::from([first.clone()]), vec![first]);
    let mut reported = 0;
    while let Some(world) = left.pop() {
        for next in world.next() {
            if seen.insert(next.clone()) {
                reported += usize::from(next.at.contains(&At::Inside { knows_of_death: true }));
                left.push(next);
            }
        }
    }
    (seen.len(), reported)
}

#[test]
fn no_death_at_any_step_loses_a_wake_up_or_goes_unreported() {
    for (rounds, deaths) in [([2, 2, 0], 2), ([2, 1, 1], 2), ([1, 1, 1], 3), ([2, 2, 2], 1)] {
        let (states, reported) = explore(rounds, deaths);
        assert!(states > 100 && reported > 0, "{rounds:?}: {states} states, {reported} with a report");
    }
}

/// The C library's release clears the bit, and with it what the next owner must know.
#[test]
fn the_model_finds_what_a_release_that_clears_the_bit_loses() {
    let lost = std::panic::catch_unwind(|| {
        let mut world = World {
            words: 1 | WAITERS,
            at: [At::Inside { knows_of_death: false }, At::Asleep, At::Outside],
            rounds_left: [0, 0, 1],
            queue: vec![1],
            deaths_left: 1,
            unreported: 0,
        };
        // The first gives back as the library does, and dies before it wakes, when the third has taken the lock.
        (world.words, world.at[0]) = (0, At::Wakes { left: 0 });
        for _ in 0..3 {
            world = world.step(2).expect("the third takes the free lock");
        }
        world = world.kill(0).expect("it lives");
        while let Some(next) = world.step(2) {
            world = next;
        }
        world.next()
    });
    assert!(lost.is_err());
}
