//! Machines whose tasks send messages to one another, with an event for each stretch and without: the same is seen.

use crate::machine::{Costs, Kernel, Machine, Topology};
use crate::preempt;
use crate::program::{Channel, Op, Preemption, Program};
use crate::random::{Random, Span};
use crate::stats::WindowStats;
use crate::world::{ChannelSpec, Load, LogSpec, Policy, TaskSpec, World};

const MS: u64 = 1_000_000;

fn one_of<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

fn machine(random: &mut Random) -> Machine {
    let topology = Topology {
        smt: one_of(random, &[1, 2]),
        cores: one_of(random, &[1, 2, 3]),
        llcs: one_of(random, &[1, 2]),
        nodes: one_of(random, &[1, 1, 2]),
    };
    let version = one_of(random, &["5.10", "6.6", "6.12", "6.18", "7.0", "7.1"]);
    let model = one_of(random, &Kernel::models(version).expect("known"));
    let mut kernel =
        Kernel::of(version, preempt::find(model).expect("a model"), 1000, topology.cpus()).expect("a kernel");
    kernel.hrtick = random.below(4) == 0;
    if version >= "7.0" {
        kernel.slice_extension_ns = one_of(random, &[0, 5_000]);
    }
    // Where calls take no time, no stretch follows another.
    let syscall_ns = one_of(random, &[0, 150, 150, 150]);
    Machine { topology, costs: Costs { syscall_ns, ..Costs::DEFAULT }, kernel }
}

/// What a task does between two messages.
fn between(random: &mut Random, ops: &mut Vec<Op>) {
    let ns = one_of(random, &[0, 300, 5_000, 60_000]);
    let span = one_of(random, &[Span::Fixed(ns), Span::Exponential(ns), Span::Uniform(0, ns)]);
    match random.below(10) {
        0 => ops.push(Op::Sleep(span)),
        1 => ops.push(Op::System {
            work: span,
            preemption: one_of(random, &[Preemption::On, Preemption::CondResched(500)]),
        }),
        2 => ops.extend([Op::ExtendBegin, Op::Lock(0), Op::Compute(span), Op::Unlock(0), Op::ExtendEnd]),
        3 => ops.extend([Op::Append(0), Op::Flush(0)]),
        4 => ops.push(Op::Yield),
        _ => ops.push(Op::Compute(span)),
    }
}

/// Who is asked answers, now and then in two messages.
fn server(random: &mut Random) -> Program {
    let mut ops = vec![Op::Receive(Channel::Mine)];
    for _ in 0..1 + random.below(2) {
        between(random, &mut ops);
    }
    let answer = ops.len() as u32 + 3;
    ops.push(Op::IfTag { tag: 1, to: answer });
    ops.push(Op::Send { to: Channel::Sender, tag: 0 });
    ops.push(Op::Compute(Span::Uniform(100, 2_000)));
    ops.extend([Op::Send { to: Channel::Sender, tag: 1 }, Op::Done(0), Op::Jump(0)]);
    Program { name: "server".to_owned(), role: "server".to_owned(), ops }
}

fn client(random: &mut Random) -> Program {
    let mut ops = Vec::new();
    let asks = 1 + random.below(3);
    for _ in 0..asks {
        ops.push(Op::Send { to: Channel::Peer, tag: 1 });
    }
    let again = ops.len() as u32;
    ops.push(Op::Receive(Channel::Mine));
    for _ in 0..1 + random.below(2) {
        between(random, &mut ops);
    }
    ops.extend([
        Op::IfTag { tag: 0, to: again },
        Op::Done(1),
        Op::Send { to: Channel::Peer, tag: one_of(random, &[0, 1]) },
    ]);
    ops.push(Op::Jump(again));
    Program::new("client", ops)
}

fn load(random: &mut Random, cpus: u32) -> Load {
    let programs = vec![server(random), client(random), client(random)];
    let servers = 1 + random.below(u64::from(cpus)) as u32;
    let clients = 1 + random.below(u64::from(cpus) * 3) as u32;
    let policy = |random: &mut Random| one_of(random, &[Policy::Other, Policy::Other, Policy::Batch, Policy::Fifo(5)]);
    let mut tasks = Vec::new();
    for n in 0..servers + clients {
        let is_server = n < servers;
        tasks.push(TaskSpec {
            policy: policy(random),
            pinned: (random.below(5) == 0).then(|| random.below(u64::from(cpus)) as u32),
            // Now and then two servers take from one channel.
            inbox: Some(if is_server && random.below(6) == 0 { 0 } else { n }),
            peer: (!is_server).then(|| random.below(u64::from(servers)) as u32),
            ..TaskSpec::new(if is_server { 0 } else { 1 + n % 2 }, n)
        });
    }
    let channel = |random: &mut Random| ChannelSpec {
        most: 1 + random.below(4) as u32,
        refills_at: (random.below(4) == 0).then_some(1),
        carries: (random.below(6) == 0).then_some(1),
    };
    let channels = (0..tasks.len()).map(|_| channel(random)).collect();
    let lock = (random.below(3) == 0).then_some(1);
    let write = Span::Uniform(5_000, 90_000);
    Load {
        programs,
        tasks,
        locks: vec!["postgres-s-lock", "lwlock"],
        channels,
        devices: vec![1],
        logs: vec![LogSpec { device: 0, write, lock }],
        marks: 2,
        ..Load::default()
    }
}

fn seen(machine: &Machine, load: &Load, seed: u64, each_stretch: bool) -> (WindowStats, u64) {
    let mut world = World::new(machine, load, seed);
    world.each_stretch = each_stretch;
    world.run_until(3 * MS + seed);
    world.open();
    for step in 1..=10 {
        world.run_until(3 * MS + seed + step * 2 * MS / 3);
        world.check_invariants().expect("the machine is in order");
    }
    let mut seen = world.close().clone();
    let events = std::mem::take(&mut seen.events);
    (seen, events)
}

#[test]
fn stretches_that_are_one_event_change_nothing_that_is_seen() {
    let (mut all, mut fewer, mut messages) = (0, 0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed, 9);
        let machine = machine(&mut random);
        let load = load(&mut random, machine.topology.cpus());
        let (with, each) = seen(&machine, &load, seed, true);
        let (without, joined) = seen(&machine, &load, seed, false);
        assert!(with == without, "seed {seed}: {machine:#?} {load:#?}");
        assert!(joined <= each, "seed {seed}: {joined} events instead of {each}");
        (all, fewer, messages) = (all + each, fewer + joined, messages + with.marks[0].count);
    }
    assert!(fewer * 10 < all * 9, "{fewer} events instead of {all}");
    assert!(messages > 5_000, "{messages} messages");
}
