//! What holds of every lock on any machine.

mod differences;

use super::NONE;
use crate::locks::ALL;
use crate::machine::{Costs, Kernel, Machine, Topology};
use crate::preempt;
use crate::program::{Op, Preemption, Program};
use crate::random::{Random, Span};
use crate::world::{Load, LogSpec, RegionSpec, TaskSpec, World};
use std::collections::VecDeque;

fn machine(topology: Topology, model: &'static preempt::Model, hz: u32) -> Machine {
    let costs = Costs::DEFAULT;
    let kernel = Kernel::of("6.18", model, hz, topology.cpus()).expect("a kernel");
    Machine { topology, costs, kernel }
}

fn small(cpus: u32) -> Machine {
    machine(Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 }, preempt::ALL[0], 250)
}

/// Tasks that all run one program.
fn load(ops: Vec<Op>, tasks: u32, locks: Vec<&'static str>) -> Load {
    let spec = |process| TaskSpec::new(0, process);
    Load {
        programs: vec![Program::new("worker", ops)],
        tasks: (0..tasks).map(spec).collect(),
        locks,
        regions: vec![RegionSpec { huge: false, steps: 1, together: false, end: 0, mapped: false }],
        marks: 1,
        ..Load::default()
    }
}

/// What a seed makes: a machine, a program whose tasks end, and what was chosen, to be printed where it fails.
struct Swarm {
    options: String,
    machine: Machine,
    load: Load,
    /// How often the mark is done in all.
    operations: u64,
}

impl Swarm {
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let mut one_of = |n: u64| random.below(n) as u32;
        let topology = Topology { smt: 1 + one_of(2), cores: 1 + one_of(4), llcs: 1 + one_of(2), nodes: 1 + one_of(2) };
        let model = preempt::ALL[one_of(preempt::ALL.len() as u64) as usize];
        let hz = [100, 250, 1000][one_of(3) as usize];
        let names: Vec<&'static str> = (0..1 + one_of(2)).map(|_| ALL[one_of(ALL.len() as u64) as usize].id).collect();
        let tasks = 1 + one_of(3 * u64::from(topology.cpus()) + 2);
        let times = 5 + one_of(20);
        let mut ops = Vec::new();
        for _ in 0..1 + one_of(2) {
            // Locks are always taken in the same order, so that nothing can wait for itself.
            let taken: Vec<u32> = (0..names.len() as u32).filter(|_| one_of(4) > 0).collect();
            for &lock in &taken {
                ops.push(if one_of(3) == 0 { Op::LockShared(lock) } else { Op::Lock(lock) });
                match one_of(6) {
                    0 => ops.push(Op::Sleep(Span::Uniform(1_000, 200_000))),
                    1 => ops.push(Op::Touch { region: 0, pages: 1 + one_of(3) }),
                    2 => ops.push(Op::System {
                        work: Span::Uniform(0, 50_000),
                        preemption: Preemption::CondResched(10_000),
                    }),
                    3 => ops.push(Op::Yield),
                    _ => {}
                }
                ops.push(Op::Compute(Span::Exponential(u64::from(1 + one_of(5_000)))));
            }
            ops.extend(taken.iter().rev().map(|lock| Op::Unlock(*lock)));
            if one_of(2) == 0 {
                ops.push(Op::Compute(Span::Exponential(u64::from(1 + one_of(3_000)))));
            }
        }
        ops.extend([Op::Done(0), Op::Repeat { to: 0, counter: 0, times }]);
        let options = format!("seed {seed}: {topology:?} {} {hz} Hz, {names:?}, {tasks} tasks: {ops:?}", model.id);
        let operations = u64::from(tasks) * u64::from(times);
        Swarm { options, machine: machine(topology, model, hz), load: load(ops, tasks, names), operations }
    }
}

#[test]
fn locks_exclude_and_let_everyone_in_on_any_machine() {
    for seed in 0..150 {
        let swarm = Swarm::of(seed);
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(&swarm.machine, &swarm.load, seed);
            world.run_until(200_000_000_000);
            let inside: Vec<[u32; 2]> = world.locks.iter().map(|l| l.inside).collect();
            (world.close().marks[0].count, inside, world.locks.iter().all(|l| l.spinners.is_empty()))
        });
        let Ok((operations, inside, none_spins)) = run else { panic!("{}", swarm.options) };
        assert_eq!(operations, swarm.operations, "{}", swarm.options);
        assert!(inside.iter().all(|i| *i == [0, 0]) && none_spins, "{}: {inside:?}", swarm.options);
    }
}

#[test]
fn fair_locks_are_handed_over_in_the_order_of_arrival() {
    for name in ["ticket", "mcs", "clh"] {
        let ops = vec![
            Op::Lock(0),
            Op::Compute(Span::Exponential(2_000)),
            Op::Unlock(0),
            Op::Done(0),
            Op::Compute(Span::Exponential(5_000)),
            Op::Jump(0),
        ];
        let mut world = World::new(&small(4), &load(ops, 9, vec![name]), 3);
        let (mut before, mut handed): (VecDeque<u32>, u32) = (VecDeque::new(), 0);
        while handed < 500 {
            let Some((at, _)) = world.agenda.next() else { panic!("{name}: nothing happens") };
            world.run_until(at);
            let l = &world.locks[0];
            if let Some(first) = before.pop_front() {
                if l.queue.front() == Some(&first) {
                    before.push_front(first);
                } else {
                    handed += 1;
                    assert_eq!(l.holder, first, "{name}");
                }
            }
            assert!(before.iter().zip(&l.queue).all(|(a, b)| a == b), "{name}: {before:?} became {:?}", l.queue);
            before.clone_from(&l.queue);
        }
    }
}

fn rate(name: &'static str, cpus: u32) -> f64 {
    let ops = vec![Op::Lock(0), Op::Compute(Span::Fixed(100)), Op::Unlock(0), Op::Done(0), Op::Jump(0)];
    let mut world = World::new(&small(cpus), &load(ops, cpus, vec![name]), 1);
    world.run_until(1_000_000);
    world.open();
    world.run_until(4_000_000);
    world.close().marks[0].count as f64
}

#[test]
fn spinners_slow_the_holder_but_where_each_spins_on_its_own_line() {
    for name in ["tas", "ticket"] {
        assert!(rate(name, 32) < 0.7 * rate(name, 4), "{name}: {} and {}", rate(name, 32), rate(name, 4));
    }
    for name in ["mcs", "clh"] {
        assert!(rate(name, 32) > 0.9 * rate(name, 4), "{name}: {} and {}", rate(name, 32), rate(name, 4));
    }
}

#[test]
fn a_shared_lock_is_held_by_several_and_an_exclusive_one_by_one() {
    for (name, op, at_once) in
        [("lwlock", Op::LockShared(0), 4), ("lwlock", Op::Lock(0), 1), ("lwlock-futex", Op::LockShared(0), 4)]
    {
        let ops = vec![op, Op::Compute(Span::Fixed(50_000)), Op::Unlock(0), Op::Jump(0)];
        let mut world = World::new(&small(4), &load(ops, 4, vec![name]), 1);
        let most = (0..200)
            .map(|step| {
                world.run_until(step * 5_000);
                world.locks[0].inside.iter().sum::<u32>()
            })
            .max();
        assert_eq!(most, Some(at_once), "{name} {op:?}");
    }
}

#[test]
fn backends_hand_their_estimate_on_and_adapt_it() {
    let ops = vec![
        Op::Lock(0),
        Op::Compute(Span::Exponential(2_000)),
        Op::Unlock(0),
        Op::Compute(Span::Exponential(1_000)),
        Op::Repeat { to: 0, counter: 0, times: 3_000 },
    ];
    let mut world = World::new(&small(2), &load(ops, 2, vec!["postgres-s-lock"]), 1);
    world.run_until(20_000_000_000);
    let own: Vec<u32> = world.tasks.iter().map(|t| t.spins_per_delay).collect();
    assert!(own.iter().any(|spins| *spins > 100), "{own:?}");
    // Both ended; the first to end counts first.
    let after = |first: u32, second: u32| ((100 * 15 + first) / 16 * 15 + second) / 16;
    let either = [after(own[0], own[1]), after(own[1], own[0])];
    assert!(either.contains(&world.spins_per_delay), "{} of {own:?}", world.spins_per_delay);
    world.backend_begins(0);
    assert_eq!(world.tasks[0].spins_per_delay, world.spins_per_delay);
}

#[test]
fn spinners_know_their_place() {
    let mut world = World::new(&small(1), &load(vec![Op::Exit], 5, vec!["tas"]), 1);
    for task in 0..5 {
        world.looks(task, 0);
    }
    for (task, rest) in [(1, vec![0, 4, 2, 3]), (3, vec![0, 4, 2]), (0, vec![2, 4])] {
        world.no_longer_spins(task, 0);
        assert_eq!(world.locks[0].spinners, rest);
        assert_eq!(world.tasks[task as usize].waiting.place, NONE);
        for (place, spinner) in rest.iter().enumerate() {
            assert_eq!(world.tasks[*spinner as usize].waiting.place, place as u32);
        }
    }
}

#[test]
fn waiters_for_the_log_wake_at_every_release_and_one_at_a_time_writes() {
    for name in ["lwlock", "lwlock-futex"] {
        let ops = vec![Op::Compute(Span::Exponential(3_000)), Op::Append(0), Op::Flush(0), Op::Done(0), Op::Jump(0)];
        let spec = LogSpec { device: 0, write: Span::Fixed(40_000), lock: Some(0) };
        let with_log = Load { devices: vec![1], logs: vec![spec], ..load(ops, 24, vec![name]) };
        let mut world = World::new(&small(4), &with_log, 1);
        world.run_until(1_000_000);
        world.open();
        world.run_until(51_000_000);
        let goes_on = world.tasks.iter().filter(|t| t.waiting.lock == NONE && t.waiting.outer == NONE);
        assert!(goes_on.clone().all(|t| t.waiting.wanted == NONE), "{name}: one continues and still wants the lock");
        assert!(goes_on.count() > 0 && world.deadlock().is_none(), "{name}");
        let seen = world.close();
        // 50 ms hold at most 1,250 writes of 40 us; each serves all that are in the list by then.
        let (writes, commits) = (seen.locks[0].acquisitions, seen.marks[0].count);
        assert!((600..=2_500).contains(&writes), "{name}: {writes} times the lock was taken");
        assert!(commits > 4 * writes, "{name}: {commits} commits with {writes} acquisitions");
        let of_each = seen.by_task.iter();
        assert!(of_each.clone().min() > of_each.max().map(|most| most / 4).as_ref(), "{name}: {:?}", seen.by_task);
        assert!(seen.locks[1].acquisitions > commits / 2, "{name}: the list's lock was hardly taken");
    }
}
