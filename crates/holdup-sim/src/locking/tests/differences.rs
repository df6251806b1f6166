//! In what the locks differ: who is next, who sleeps and after how many looks, and what bounds barging.

use super::{load, small};
use crate::locking::{FREE, NONE, Place};
use crate::locks::{ALL, holdfast, pthread_adaptive};
use crate::program::{Op, Program};
use crate::random::Span;
use crate::stats::{SwitchOut, WindowStats};
use crate::world::{Load, TaskSpec, World};

const FAIR: &[&str] = &["ticket", "mcs", "clh"];
const NEVER_SLEEP: &[&str] =
    &["tas", "slice-extension", "ttas", "ttas-backoff", "pthread-spin", "ticket", "mcs", "clh"];

/// Tasks that take the lock, stay inside for this long, and are back after that time.
fn worker(inside_ns: u64, outside_ns: u64) -> Vec<Op> {
    vec![
        Op::Lock(0),
        Op::Compute(Span::Exponential(inside_ns)),
        Op::Unlock(0),
        Op::Done(0),
        Op::Compute(Span::Exponential(outside_ns)),
        Op::Jump(0),
    ]
}

fn run(name: &'static str, cpus: u32, tasks: u32, ops: Vec<Op>, ms: u64) -> WindowStats {
    let mut world = World::new(&small(cpus), &load(ops, tasks, vec![name]), 1);
    world.advance(ms * 1_000_000).expect("no deadlock");
    world.check_invariants().expect("in order");
    world.close().clone()
}

#[test]
fn every_lock_is_held_by_one_at_a_time_and_lets_every_task_in() {
    for algorithm in ALL {
        // Two of three tasks share a CPU with another one, so that holders and waiters are preempted.
        let mut world = World::new(&small(4), &load(worker(3_000, 3_000), 6, vec![algorithm.id]), 1);
        for step in 1..=20_000 {
            world.run_until(step * 20_000);
            let inside = world.locks[0].inside;
            assert!(inside[0] + inside[1] <= 1, "{}: {inside:?}", algorithm.id);
        }
        let seen = world.close();
        assert!(seen.by_task.iter().all(|count| *count > 20), "{}: {:?}", algorithm.id, seen.by_task);
    }
}

/// How often a task had the lock before one that had wanted it earlier.
fn overtaken(name: &'static str) -> u32 {
    let mut world = World::new(&small(4), &load(worker(2_000, 5_000), 9, vec![name]), 3);
    let (mut overtaken, mut before) = (0, FREE);
    let mut since = [0; 9];
    while world.now_ns() < 20_000_000 {
        let (at, _) = world.agenda.next().expect("something happens");
        world.run_until(at);
        let holder = world.locks[0].holder;
        if holder != before && holder != FREE {
            let waits = |task: u32| world.tasks[task as usize].waiting.wanted == 0;
            let own = if waits(holder) { world.tasks[holder as usize].waiting.since } else { since[holder as usize] };
            let own = if own == 0 { world.now_ns() } else { own };
            let earlier = |task: &u32| {
                *task != holder && waits(*task) && since[*task as usize] < own && since[*task as usize] > 0
            };
            overtaken += u32::from((0..9).any(|task| earlier(&task)));
        }
        before = holder;
        for (task, since) in world.tasks.iter().zip(&mut since) {
            *since = if task.waiting.wanted == NONE { 0 } else { task.waiting.since };
        }
    }
    overtaken
}

#[test]
fn locks_are_fair_or_not_as_the_real_ones_are() {
    for algorithm in ALL {
        let times = overtaken(algorithm.id);
        if FAIR.contains(&algorithm.id) {
            assert_eq!(times, 0, "{} was overtaken", algorithm.id);
        } else {
            assert!(times > 20, "{} was overtaken {times} times only", algorithm.id);
        }
    }
}

#[test]
fn waiters_sleep_or_spin_as_the_real_ones_do() {
    for algorithm in ALL {
        let seen = run(algorithm.id, 4, 4, worker(200_000, 1_000), 100);
        let blocked = seen.roles[0].switch_outs[SwitchOut::Blocked as usize];
        if NEVER_SLEEP.contains(&algorithm.id) {
            assert_eq!(blocked, 0, "{}", algorithm.id);
            assert!(seen.roles[0].spin_ns > 250_000_000, "{}: {}", algorithm.id, seen.roles[0].spin_ns);
        } else {
            assert!(blocked > 20, "{}: {blocked}", algorithm.id);
        }
    }
}

#[test]
fn those_that_lose_the_race_for_a_spinlock_keep_its_holder_waiting() {
    // Of those that wait for s_lock some sleep.
    for (name, times) in [("pthread-spin", 2.0), ("postgres-s-lock", 1.5)] {
        let rate = |cpus| run(name, cpus, cpus, worker(100, 1_000), 5).marks[0].count as f64;
        assert!(times * rate(64) < rate(8), "{name}: {} and {}", rate(64), rate(8));
    }
}

/// How long the waiters of a holder that keeps the lock spin before they sleep, ns for each.
fn spun_ns(name: &'static str, waiters: u32) -> u64 {
    let held = |lock| vec![Op::Lock(lock), Op::Compute(Span::Fixed(900_000)), Op::Unlock(lock), Op::Exit];
    let task = |number| TaskSpec { begins_ns: Some(u64::from(number) * 1_000), ..TaskSpec::new(0, number) };
    let load = Load {
        programs: vec![Program::new("task", held(0))],
        tasks: (0..=waiters).map(task).collect(),
        locks: vec![name],
        ..Load::default()
    };
    let mut world = World::new(&small(waiters + 1), &load, 1);
    world.run_until(900_000);
    world.close().roles[0].spin_ns / u64::from(waiters)
}

/// 100 turns of 40 ns each, or of as long as all exchanges take where each turn is one.
#[test]
fn turns_that_exchange_take_as_long_as_all_of_them() {
    let looking = [1, 30].map(|waiters| spun_ns("postgres-s-lock", waiters));
    assert!(looking.iter().all(|ns| (4_000..4_300).contains(ns)), "{looking:?}");
    let exchanging = [1, 30].map(|waiters| spun_ns("postgres-s-lock-exchange", waiters));
    assert!((4_000..4_300).contains(&exchanging[0]) && exchanging[1] > 5 * exchanging[0], "{exchanging:?}");
}

/// A list that half of 64 CPUs spin on collapses, and one whose waiters sleep does not.
#[test]
fn a_list_that_many_spin_on_collapses() {
    let rate = |name, contender_ns| {
        let mut machine = small(64);
        machine.costs.contender_ns = contender_ns;
        let mut world = World::new(&machine, &load(worker(100, 3_000), 128, vec![name]), 1);
        world.advance(20_000_000).expect("no deadlock");
        world.close().marks[0].count
    };
    for (name, falls) in [("lwlock", true), ("lwlock-futex", false)] {
        let (quick, slow) = (rate(name, 5), rate(name, 200));
        assert_eq!(slow * 3 < quick, falls, "{name}: {quick} and {slow}");
    }
}

/// For how many turns a waiter pauses before it sleeps for a lock that is held for long, and how often it yields.
fn looks_before_sleep(name: &'static str) -> (u64, u64) {
    let holder = Program::new("holder", vec![Op::Lock(0), Op::Compute(Span::Fixed(20_000_000)), Op::Unlock(0)]);
    let waiter = Program::new("waiter", vec![Op::Lock(0), Op::Unlock(0)]);
    let task = |program: u32| TaskSpec { pinned: Some(program), ..TaskSpec::new(program, 0) };
    let of_two = Load {
        programs: vec![holder, waiter],
        tasks: vec![TaskSpec { begins_ns: Some(0), ..task(0) }, TaskSpec { begins_ns: Some(100_000), ..task(1) }],
        locks: vec![name],
        marks: 1,
        ..Load::default()
    };
    let mut machine = small(2);
    // What is no pause takes no time, so that turns are what is left.
    (machine.costs.atomic_ns, machine.costs.transfer_ns) = (0, [0; 5]);
    let mut world = World::new(&machine, &of_two, 1);
    world.run_until(10_000_000);
    let seen = world.close();
    assert_eq!(seen.locks[0].sleeps, 1, "{name}");
    let turns = seen.roles[1].spin_ns / machine.costs.spin_ns;
    // A sleeper is half-way through FUTEX_WAIT; parking_lot's has checked its word before.
    let before_sleep = u64::from(name == "parking-lot");
    (turns, seen.roles[1].kernel_ns / machine.costs.syscall_ns - before_sleep)
}

#[test]
fn a_spin_that_ends_in_sleep_takes_the_looks_of_the_real_one() {
    let of_holdfast: u32 = (0..holdfast::LOOKS).map(|look| holdfast::FIRST_PAUSE << look).sum();
    // No other sleeps, so it looks 20 times more.
    assert_eq!(of_holdfast + 20 * (holdfast::FIRST_PAUSE << 5), 3068);
    for name in ["holdfast", "holdfast-slice"] {
        assert_eq!(looks_before_sleep(name), (3068, 0), "{name}");
    }
    assert_eq!(looks_before_sleep("std-mutex"), (100, 0));
    assert_eq!(looks_before_sleep("parking-lot"), (2 + 4 + 8, 7));
    assert_eq!(looks_before_sleep("pthread-mutex").0, 0);
    // Pauses of 1, of 2 or 3 and of 4 to 7 turns, as long as they come to less than 10.
    let (turns, _) = looks_before_sleep("pthread-adaptive");
    assert!((3..10).contains(&turns), "{turns}");
    assert_eq!([0, 20, 45, 90].map(pthread_adaptive::most_turns), [10, 50, 100, 100]);
}

#[test]
fn an_adaptive_mutex_learns_how_long_its_waiters_look() {
    let mut world = World::new(&small(4), &load(worker(1_500, 500), 4, vec!["pthread-adaptive"]), 1);
    world.run_until(50_000_000);
    assert!((10..=100).contains(&world.locks[0].mean_turns), "{}", world.locks[0].mean_turns);
}

/// The longest time that a waiter waits, ns, where one task takes the lock again as soon as it has given it back and others
/// want it now and then.
fn longest_wait_ns(name: &'static str, hands_over: bool) -> u64 {
    let greedy = vec![Op::Lock(0), Op::Compute(Span::Fixed(30_000)), Op::Unlock(0), Op::Jump(0)];
    let modest = vec![
        Op::Lock(0),
        Op::Compute(Span::Fixed(1_000)),
        Op::Unlock(0),
        Op::Compute(Span::Fixed(300_000)),
        Op::Jump(0),
    ];
    let task = |number: u32| TaskSpec { pinned: Some(number), ..TaskSpec::new(u32::from(number > 0), 0) };
    let of_all = Load {
        programs: vec![Program::new("greedy", greedy), Program::new("modest", modest)],
        tasks: (0..4).map(task).collect(),
        locks: vec![name],
        marks: 1,
        ..Load::default()
    };
    let mut world = World::new(&small(4), &of_all, 1);
    if !hands_over {
        world.lock(0).places = vec![Place { not_before_us: u64::MAX, ..Place::default() }];
        world.lock(0).fair_at = u64::MAX;
    }
    world.run_until(200_000_000);
    let now = world.now_ns();
    let waits = |task: &crate::world::Task| if task.waiting.wanted == 0 { now - task.waiting.since } else { 0 };
    let still_waits = world.tasks.iter().map(waits).max().unwrap_or(0);
    still_waits.max(world.close().locks[0].waits.range_ns().map_or(0, |(_, most)| most))
}

#[test]
fn hand_overs_bound_barging() {
    for name in ["holdfast", "holdfast-slice", "parking-lot"] {
        let (with, without) = (longest_wait_ns(name, true), longest_wait_ns(name, false));
        // Three waiters, and at most 0.5 ms (holdfast) or 1 ms between two hand-overs.
        assert!(with < 5_000_000, "{name}: {with} ns");
        assert!(without > 4 * with, "{name}: {with} ns, and {without} ns without hand-overs");
    }
}

#[test]
fn a_lock_that_stood_still_rests_before_the_next_hand_over() {
    // The woken waiter's CPU is another task's for a while.
    let busy = Program::new("busy", vec![Op::Compute(Span::Fixed(100_000)), Op::Jump(0)]);
    let worker =
        Program::new("worker", vec![Op::Lock(0), Op::Compute(Span::Fixed(30_000)), Op::Unlock(0), Op::Jump(0)]);
    let not_before = |busy_tasks: u32| {
        let task = |number: u32| TaskSpec { pinned: Some(number), ..TaskSpec::new(1, 0) };
        let mut tasks: Vec<TaskSpec> = (0..2).map(task).collect();
        tasks.extend((0..busy_tasks).map(|_| TaskSpec { pinned: Some(1), ..TaskSpec::new(0, 0) }));
        let of_all = Load {
            programs: vec![busy.clone(), worker.clone()],
            tasks,
            locks: vec!["holdfast"],
            marks: 1,
            ..Load::default()
        };
        let mut world = World::new(&small(2), &of_all, 1);
        let mut longest_us = 0;
        for step in 1..4_000 {
            world.run_until(step * 50_000);
            if let Some(place) = world.locks[0].places.first() {
                longest_us = longest_us.max(place.not_before_us.saturating_sub(place.handed_over_us));
            }
        }
        longest_us
    };
    assert_eq!(not_before(0), 500, "a woken waiter that has a CPU causes no rest");
    assert!(not_before(3) > 16 * 500, "{} us", not_before(3));
}

#[test]
fn a_holder_that_asked_is_preempted_less_where_the_kernel_grants() {
    for name in ["slice-extension", "holdfast-slice", "postgres-s-lock-slice"] {
        let preempted = |slice_extension_ns| {
            let mut machine = small(2);
            machine.kernel.slice_extension_ns = slice_extension_ns;
            let mut world = World::new(&machine, &load(worker(5_000, 5_000), 6, vec![name]), 1);
            world.run_until(3_000_000_000);
            let seen = world.close();
            (seen.roles[0].switch_outs_holding[SwitchOut::AtBoundary as usize], seen.grants)
        };
        let ((without, none), (with, grants)) = (preempted(0), preempted(50_000));
        assert_eq!(none, 0);
        assert!(grants > 100 && with * 4 < without, "{name}: {without} without, {with} with {grants} grants");
    }
}

/// Releases that wake, and hand-overs, end a request as well as plain ones.
#[test]
fn no_request_for_a_longer_slice_stands_outside_of_a_section() {
    for name in ["slice-extension", "holdfast-slice", "postgres-s-lock-slice"] {
        let mut machine = small(2);
        machine.kernel.slice_extension_ns = 50_000;
        let mut world = World::new(&machine, &load(worker(30_000, 20_000), 6, vec![name]), 1);
        while world.now_ns() < 300_000_000 {
            let (at, _) = world.agenda.next().expect("something happens");
            world.run_until(at);
            for (number, task) in world.tasks.iter().enumerate() {
                let gives_back = task.waiting.lock == 0 && task.waiting.wanted == NONE;
                assert!(!task.asks || task.held > 0 || gives_back, "{name}: task {number} asks at {at} ns");
            }
        }
        assert!(world.close().grants > 20, "{name}");
    }
}

#[test]
fn few_waiters_of_holdfast_look_for_long() {
    // Threads: each process has its own count.
    let tasks = vec![TaskSpec::new(0, 0); 32];
    let of_all = Load { tasks, ..load(worker(500, 500), 0, vec!["holdfast"]) };
    let mut world = World::new(&small(32), &of_all, 1);
    let mut most = 0;
    for step in 1..2_000 {
        world.run_until(step * 2_000);
        let counted = world.tasks.iter().filter(|task| task.waiting.is_counted).count() as u32;
        assert_eq!(world.locks[0].places.first().map_or(0, |place| place.looking), counted);
        most = most.max(counted);
    }
    assert_eq!(most, holdfast::FEW);
}

/// A woken waiter waits for its CPU behind others, and one that has a CPU of its own sleeps behind it.
#[test]
fn a_waiter_that_waits_for_its_cpu_keeps_no_other_asleep() {
    let busy = Program::new("busy", vec![Op::Compute(Span::Fixed(100_000)), Op::Jump(0)]);
    let task = |program, cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::new(program, 0) };
    let mut tasks = vec![task(1, 0), task(1, 1), task(1, 2)];
    tasks.extend((0..20).map(|_| task(0, 1)));
    let of_all = Load {
        programs: vec![busy, Program::new("worker", worker(20_000, 1_000))],
        tasks,
        locks: vec!["holdfast"],
        marks: 1,
        ..Load::default()
    };
    let mut world = World::new(&small(3), &of_all, 1);
    world.run_until(2_000_000_000);
    let counts = world.close().by_task.clone();
    assert!(counts[1] > 20 && 20 * counts[1] < counts[2] && counts[0] < 4 * counts[2], "{:?}", &counts[..3]);
}
