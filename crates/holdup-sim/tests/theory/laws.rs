//! Laws that hold of every run and not only in the mean: Little's law and the utilisation law, to the nanosecond.
//!
//! Histograms keep lengths below 2,048 ns as they are, so sums of short ones are exact.

use crate::theory::common::{accounts_for_all_time, free, machine, program};
use holdup_sim::locks;
use holdup_sim::machine::{Kernel, Machine};
use holdup_sim::preempt;
use holdup_sim::program::Op;
use holdup_sim::random::{Random, Span};
use holdup_sim::stats::WindowStats;
use holdup_sim::world::{Load, Policy, TaskSpec, World};

const ROUNDS: u32 = 400;
/// What histograms keep exactly, ns.
const EXACT_NS: u64 = 2_047;

/// Runs until everybody has ended; then all that came has gone.
fn run_to_end(machine: &Machine, load: &Load, seed: u64) -> WindowStats {
    let end_ns = 100_000_000;
    let mut world = World::new(machine, load, seed);
    world.run_until(end_ns);
    let seen = world.close().clone();
    accounts_for_all_time(&seen, u64::from(machine.topology.cpus()) * end_ns);
    assert!(seen.roles.iter().all(|r| r.switch_outs[3] > 0) && seen.idle_ns > 0, "all have ended");
    seen
}

/// The sum of the lengths of a mark, ns.
fn sum_ns(seen: &WindowStats, mark: usize) -> u64 {
    let lengths = &seen.marks[mark].lengths;
    assert!(lengths.range_ns().is_some_and(|(_, most)| most <= EXACT_NS), "kept exactly: {:?}", lengths.range_ns());
    lengths.buckets().map(|(low, _, count)| low * count).sum()
}

/// The time that all are at a lock is the sum of the times that each is: what a core does there is held or spun.
#[test]
fn littles_law_holds_of_every_spinning_lock() {
    for name in ["tas", "ttas-backoff", "ticket", "mcs"] {
        assert!(locks::id(name).is_some(), "{name}");
        for seed in 0..10 {
            let mut random = Random::new(seed, 1);
            let (tasks, think, section) = (2 + random.below(5) as u32, random.below(400), 1 + random.below(40));
            let ops = vec![
                Op::Compute(Span::Uniform(0, think)),
                Op::Begin(0),
                Op::Lock(0),
                Op::Compute(Span::Fixed(section)),
                Op::Done(0),
                Op::Unlock(0),
                Op::Repeat { to: 0, counter: 0, times: ROUNDS },
            ];
            let load = Load {
                programs: vec![program(ops)],
                tasks: (0..tasks).map(|cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::default() }).collect(),
                locks: vec![name],
                marks: 1,
                ..Load::default()
            };
            let seen = run_to_end(&machine(tasks, free()), &load, seed);
            let (lock, what) = (&seen.locks[0], format!("{name} seed {seed}: {tasks} {think} {section}"));
            assert_eq!(lock.acquisitions, u64::from(tasks * ROUNDS), "{what}");
            assert_eq!(lock.held_ns, lock.acquisitions * section, "the utilisation law: {what}");
            assert_eq!(lock.held_ns + lock.spin_ns, sum_ns(&seen, 0), "Little's law: {what}");
        }
    }
}

/// The same of CPUs: a task that can run waits or runs, and what all of them do there is what each of them does. Everything
/// takes an even time from the same begin on, so that a wait that histograms keep as 1 ns was none.
#[test]
fn littles_law_holds_of_cpus_under_every_policy_and_model() {
    for policy in [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo(1), Policy::Rr(1)] {
        for (seed, model) in (0..).zip(preempt::ALL) {
            let mut random = Random::new(seed, 2);
            let (cpus, tasks) = (1 + random.below(2) as u32, 2 + random.below(5) as u32);
            let (asleep, work) = (2 * random.below(100), 2 + 2 * random.below(30));
            let begin = vec![Op::Fork(1), Op::Repeat { to: 0, counter: 0, times: tasks }];
            let ops = vec![
                Op::Begin(0),
                Op::Sleep(Span::Fixed(asleep)),
                Op::Compute(Span::Fixed(work)),
                Op::Done(0),
                Op::Repeat { to: 0, counter: 0, times: ROUNDS },
            ];
            let load = Load {
                programs: vec![program(begin), program(ops)],
                tasks: vec![TaskSpec { policy, ..TaskSpec::default() }],
                most_tasks: 1 + tasks as usize,
                marks: 1,
                ..Load::default()
            };
            let kernel = Kernel::of("6.18", model, 250, cpus).expect("a kernel");
            let seen = run_to_end(&Machine { kernel, ..machine(cpus, free()) }, &load, seed);
            let what = format!("{policy:?} {} seed {seed}: {cpus} {tasks} {asleep} {work}", model.id);
            let (role, count) = (&seen.roles[1], u64::from(tasks * ROUNDS));
            assert_eq!(role.user_ns, count * work, "the utilisation law: {what}");
            let waited_ns: u64 = role.waited.buckets().map(|(ns, _, n)| if ns == 1 { 0 } else { ns * n }).sum();
            assert!(role.waited.range_ns().is_some_and(|(_, most)| most <= EXACT_NS), "{what}");
            assert_eq!(waited_ns + role.user_ns + count * asleep, sum_ns(&seen, 0), "Little's law: {what}");
        }
    }
}
