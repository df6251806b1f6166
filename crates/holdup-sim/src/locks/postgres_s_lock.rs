//! PostgreSQL's spinlock: turns, then sleeps (src/backend/storage/lmgr/s_lock.c, 15 to 18).
//!
//! A waiter spins for spins_per_delay turns, then sleeps for at least 1 ms, each time longer by a random share.
//! spins_per_delay grows by 100 after an acquisition that waited without sleeping and shrinks by 1 after one that slept.

use crate::locking::{Algorithm, FREE, spinning};
use crate::program::Preemption;
use crate::stats::SwitchOut;
use crate::world::{Segment, Then, World};

const MIN_SPINS_PER_DELAY: u32 = 10;
const MAX_SPINS_PER_DELAY: u32 = 1000;
const MIN_DELAY_US: u32 = 1_000;
const MAX_DELAY_US: u32 = 1_000_000;

/// After this number of sleeps PostgreSQL calls the lock stuck and panics.
const NUM_DELAYS: u16 = 1000;

/// The waiter spins.
const SPINS: u8 = 0;
/// It enters the kernel to sleep.
const ENTERS: u8 = 1;
/// It is awake again.
const WAKES: u8 = 2;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "postgres-s-lock",
    waits: |world, cpu, task, lock| {
        let waiting = &mut world.tasks[task as usize].waiting;
        (waiting.delay_us, waiting.sleeps) = (0, 0);
        // TAS() before s_lock() has taken the line from the holder, which fetches it back.
        world.tasks[task as usize].extra_ns += world.contended_atomic_ns(cpu, task, lock);
        spins(world, cpu, task, lock);
    },
    over,
    ..Algorithm::BASE
};

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        SPINS => {
            if spinning::sees(world, task, lock) {
                world.no_longer_spins(task, lock);
                takes(world, cpu, task, lock);
                return world.has_it(cpu, task);
            }
            if world.spins_on(cpu, task) {
                return spinning::elect(world, lock);
            }
            world.no_longer_spins(task, lock);
            // Turns are counted, and there were none while it waited for the line.
            let stalled_ns = stalls(world, task, lock);
            if stalled_ns > 0 {
                world.spin(cpu, task, lock, stalled_ns);
                return spinning::elect(world, lock);
            }
            spinning::elect(world, lock);
            world.kernel_for_lock(cpu, task, lock, ENTERS, world.machine.costs.syscall_ns);
        }
        ENTERS => sleeps(world, cpu, task, lock),
        _ => {
            // Awake, and back in user mode: a look, then turns again.
            if world.locks[lock as usize].holder == FREE {
                takes(world, cpu, task, lock);
                return world.has_it_in_kernel(cpu, task);
            }
            spins(world, cpu, task, lock);
        }
    }
}

/// TAS_SPIN() that saw the lock free; then `finish_spin_delay()`.
fn takes(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let takes = if world.locks[lock as usize].algorithm.exchanges { spinning::exchanges } else { spinning::wins };
    takes(world, cpu, task, lock);
    let t = &mut world.tasks[task as usize];
    t.spins_per_delay = if t.waiting.delay_us > 0 {
        (t.spins_per_delay - 1).max(MIN_SPINS_PER_DELAY)
    } else {
        (t.spins_per_delay + 100).min(MAX_SPINS_PER_DELAY)
    };
}

fn spins(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let t = &mut world.tasks[task as usize];
    t.waiting.step = SPINS;
    let turns = u64::from(t.spins_per_delay);
    // What it knew is of another lock or of an earlier wait.
    t.waiting.stalled_ns = world.locks[lock as usize].stalled_ns;
    let ns = turns * spinning::turn_ns(world, lock);
    world.spin(cpu, task, lock, ns);
    spinning::elect(world, lock);
}

/// How long spinners have waited for the line since the waiter asked this last, ns.
fn stalls(world: &mut World, task: u32, lock: u32) -> u64 {
    let stalled_ns = world.locks[lock as usize].stalled_ns;
    stalled_ns - std::mem::replace(&mut world.tasks[task as usize].waiting.stalled_ns, stalled_ns)
}

fn sleeps(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let share = world.random.share();
    let kernel_ns = world.machine.costs.syscall_ns / 2;
    let t = &mut world.tasks[task as usize];
    let delay_us = t.waiting.delay_us.max(MIN_DELAY_US);
    // Rounded to the nearest microsecond, as the original does by adding one half before it cuts.
    let longer_us = delay_us + (f64::from(delay_us) * share + 0.5) as u32;
    t.waiting.delay_us = if longer_us > MAX_DELAY_US { MIN_DELAY_US } else { longer_us };
    (t.waiting.step, t.waiting.slept) = (WAKES, true);
    t.waiting.sleeps = t.waiting.sleeps.saturating_add(1);
    let is_stuck = t.waiting.sleeps == NUM_DELAYS;
    t.segment = Segment::kernel(kernel_ns, Preemption::On, Then::Lock);
    let seen = &mut world.seen.locks[lock as usize];
    seen.sleeps += 1;
    seen.stuck += u64::from(is_stuck);
    let at = world.now + u64::from(delay_us) * 1000 + world.machine.costs.timer_slack_ns;
    world.agenda.set(world.timer_slot(task), at);
    world.schedule(cpu, SwitchOut::Blocked);
}
