//! Traces whose waits are known are replayed: a simulated machine makes them, so that nothing in them is left to luck.

use holdup_model::{Histogram, Parameters, Replay, ReplayStep, SparseHistogram, Value};
use holdup_sim::factors;
use holdup_sim::machine::{Machine, catalogue};
use holdup_sim::program::{Channel, Op, Program};
use holdup_sim::random::Span;
use holdup_sim::record::{Entry, RecordedEvent};
use holdup_sim::stats::{SwitchOut, WindowStats};
use holdup_sim::workloads::{self, Files, Levels};
use holdup_sim::world::{ChannelSpec, Load, Policy, TaskSpec, World};
use holdup_traces::{Event, Left, Name, Reduction, TaskId, What};
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A machine with this number of CPUs.
fn machine(cpus: i64, preempt: &str) -> Machine {
    let mut machine = catalogue::find("server-8").unwrap().machine;
    let levels = [(factors::CPUS, Value::from(cpus)), ("preempt", Value::Text(preempt.to_owned()))];
    factors::set_all(&mut machine, levels.iter().map(|(name, value)| (*name, value))).unwrap();
    machine
}

fn waits_of(seen: &WindowStats) -> SparseHistogram {
    let mut all = Histogram::new();
    seen.roles.iter().for_each(|role| all.add(&role.waited));
    SparseHistogram::from(&all)
}

/// What ftrace would have written of a load in this time, as work, and how long its tasks waited for a CPU by the simulator's own
/// count.
fn traced(machine: &Machine, load: &Load, ns: u64) -> (Replay, SparseHistogram) {
    traced_with(1, machine, load, ns)
}

fn traced_with(seed: u64, machine: &Machine, load: &Load, ns: u64) -> (Replay, SparseHistogram) {
    let mut world = World::new(machine, load, seed);
    world.record(10_000_000);
    world.open();
    world.advance(ns).unwrap();
    let recorded = world.recorded().unwrap();
    assert!(!recorded.is_full);
    let mut reduction = Reduction::default();
    recorded.entries.iter().filter_map(|entry| event(entry, load)).for_each(|event| reduction.add(&event));
    let seen = world.close();
    (reduction.finish("simulated").unwrap(), waits_of(seen))
}

/// The priority that the kernel shows.
fn priority(policy: Policy) -> i32 {
    match policy {
        Policy::Fifo(priority) | Policy::Rr(priority) => 99 - i32::from(priority),
        _ => 120,
    }
}

fn id(task: Option<u32>, load: &Load) -> TaskId {
    let Some(task) = task else { return TaskId { tid: 0, priority: 120, name: Name::of(b"swapper") } };
    let spec = &load.tasks[task as usize];
    let name = Name::of(load.programs[spec.program as usize].name.as_bytes());
    TaskId { tid: task + 1, priority: priority(spec.policy), name }
}

fn event(entry: &Entry, load: &Load) -> Option<Event> {
    let what = match entry.what {
        RecordedEvent::Switch { from, to, left, .. } => {
            let left = match left {
                SwitchOut::Blocked => Left::Sleeping,
                SwitchOut::AtBoundary => Left::UserBoundary,
                SwitchOut::InKernel => Left::InKernel,
                SwitchOut::Exited => Left::Exited,
            };
            What::Switch { from: id(from, load), left, to: id(to, load) }
        }
        RecordedEvent::Wakeup { task, by } => {
            What::Waking { task: id(Some(task), load), cpu: entry.cpu, by: by.map(|by| by + 1) }
        }
        _ => return None,
    };
    Some(Event { at_ns: entry.at_ns, cpu: entry.cpu, what })
}

/// The replay on a machine, and how long its tasks waited.
fn replayed(machine: &Machine, replay: &Replay) -> (WindowStats, SparseHistogram, u64) {
    let workload = workloads::find("replay").unwrap();
    let files = Files { trace: Some(Arc::new(replay.clone())) };
    let load = workload.load(&Parameters::default(), &Levels::new(), machine, &files).unwrap();
    load.check(machine, &holdup_sim::names::Names::of(&load)).unwrap();
    let mut world = World::new(machine, &load, 2);
    world.open();
    let mut now_ns = 0;
    while world.replayed_until_ns().is_none() {
        now_ns += MS;
        assert!(now_ns < 20 * replay.span_ns, "it ends");
        world.advance(now_ns).unwrap();
    }
    let end_ns = world.replayed_until_ns().unwrap();
    let seen = world.close().clone();
    let waits = waits_of(&seen);
    (seen, waits, end_ns)
}

/// Hogs beside tasks that sleep and compute.
fn hogs_and_sleepers(hogs: usize, sleepers: usize) -> Load {
    let hog = Program::new("hog", vec![Op::Compute(Span::Fixed(700_000)), Op::Jump(0)]);
    let work = vec![Op::Compute(Span::Exponential(200_000)), Op::Sleep(Span::Exponential(2_000_000)), Op::Jump(0)];
    let tasks = (0..hogs + sleepers).map(|n| TaskSpec::new(u32::from(n >= hogs), n as u32));
    Load { programs: vec![hog, Program::new("sleeper", work)], tasks: tasks.collect(), ..Load::default() }
}

/// Tasks that a timer wakes, each with one that it hands work over to, beside a hog.
fn hand_overs(pairs: u32) -> Load {
    let (sleep, compute) = (Op::Sleep(Span::Exponential(3 * MS)), |ns| Op::Compute(Span::Exponential(ns)));
    let giver = vec![sleep, compute(100_000), Op::Send { to: Channel::Peer, tag: 0 }, Op::Jump(0)];
    let taker = vec![Op::Receive(Channel::Mine), compute(150_000), Op::Jump(0)];
    let hog = vec![Op::Compute(Span::Fixed(700_000)), Op::Jump(0)];
    let pair = |pair: u32| {
        let giver = TaskSpec { peer: Some(pair), ..TaskSpec::new(0, 2 * pair) };
        [giver, TaskSpec { inbox: Some(pair), ..TaskSpec::new(1, 2 * pair + 1) }]
    };
    Load {
        programs: vec![Program::new("giver", giver), Program::new("taker", taker), Program::new("hog", hog)],
        tasks: (0..pairs).flat_map(pair).chain([TaskSpec::new(2, 2 * pairs)]).collect(),
        channels: vec![ChannelSpec::from(1_000); pairs as usize],
        ..Load::default()
    }
}

/// Clients that ask a server each, and wait for its answer.
fn calls(pairs: u32) -> Load {
    let compute = |ns| Op::Compute(Span::Exponential(ns));
    let send = Op::Send { to: Channel::Peer, tag: 0 };
    let client = vec![compute(60_000), send, Op::Receive(Channel::Mine), Op::Jump(0)];
    let server = vec![Op::Receive(Channel::Mine), compute(150_000), send, Op::Jump(0)];
    let pair = |pair: u32| {
        let task = |of: u32| {
            let (inbox, peer) = (Some(2 * pair + of), Some(2 * pair + 1 - of));
            TaskSpec { inbox, peer, ..TaskSpec::new(of, 2 * pair + of) }
        };
        [task(0), task(1)]
    };
    Load {
        programs: vec![Program::new("client", client), Program::new("server", server)],
        tasks: (0..pairs).flat_map(pair).collect(),
        channels: vec![ChannelSpec::from(4); 2 * pairs as usize],
        ..Load::default()
    }
}

/// Clients with several sessions each, which they serve in the order of their answers.
fn sessions(clients: u32, each: u32) -> Load {
    let compute = |ns| Op::Compute(Span::Exponential(ns));
    let client =
        vec![Op::Receive(Channel::Mine), compute(15_000), Op::Send { to: Channel::Sender, tag: 0 }, Op::Jump(0)];
    let session =
        vec![compute(30_000), Op::Send { to: Channel::Peer, tag: 0 }, Op::Receive(Channel::Mine), Op::Jump(0)];
    let client_of = |n: u32| TaskSpec { inbox: Some(n), ..TaskSpec::new(0, n) };
    let session_of = |n: u32| {
        let own = clients + n;
        TaskSpec { inbox: Some(own), peer: Some(n % clients), ..TaskSpec::new(1, own) }
    };
    Load {
        programs: vec![Program::new("client", client), Program::new("session", session)],
        tasks: (0..clients).map(client_of).chain((0..clients * each).map(session_of)).collect(),
        channels: vec![ChannelSpec::from(64); (clients * (each + 1)) as usize],
        ..Load::default()
    }
}

/// Groups in which each sender sends to each receiver in turn, as `perf bench sched messaging` does: a full queue stops its senders until
/// a quarter of it is left.
fn messages(groups: u32, each: u32) -> Load {
    let send = |to| [Op::Compute(Span::Exponential(2_000)), Op::Send { to: Channel::Of(to), tag: 0 }];
    let sender = |group: u32| {
        let sends = (group * each..(group + 1) * each).flat_map(send);
        Program::new(&format!("sender-{group}"), sends.chain([Op::Jump(0)]).collect())
    };
    let receiver = vec![Op::Receive(Channel::Mine), Op::Compute(Span::Exponential(2_000)), Op::Jump(0)];
    let all = groups * each;
    let receivers = (0..all).map(|n| TaskSpec { inbox: Some(n), ..TaskSpec::new(groups, n) });
    let senders = (0..all).map(|n| TaskSpec::new(n / each, all + n));
    Load {
        programs: (0..groups).map(sender).chain([Program::new("receiver", receiver)]).collect(),
        tasks: receivers.chain(senders).collect(),
        channels: vec![ChannelSpec { refills_at: Some(50), ..ChannelSpec::from(200) }; all as usize],
        ..Load::default()
    }
}

fn mean_us(waits: &SparseHistogram) -> f64 {
    waits.mean_ns().unwrap() / 1e3
}

/// Mean, p50, p90 and p99, us.
fn distribution(waits: &SparseHistogram) -> [f64; 4] {
    let us = |q| waits.quantile_ns(q).unwrap() as f64 / 1e3;
    [mean_us(waits), us(0.5), us(0.9), us(0.99)]
}

/// Waits in traces of a load and in their replays: mean, p50, p90 and p99, us. Half a second has too few of the longest waits, so these
/// are means over eight traces.
fn before_and_after(name: &str, load: &Load) -> ([f64; 4], [f64; 4]) {
    let machine = machine(2, "full");
    let (mut before, mut after) = ([0.0; 4], [0.0; 4]);
    for seed in 1..=8 {
        let (replay, counted) = traced_with(seed, &machine, load, 500 * MS);
        // What is read out of the trace is what the machine counted, but for what had not begun or ended.
        let (read, counted) = (distribution(&replay.waits), distribution(&counted));
        for (read, count) in read.iter().zip(counted) {
            assert!((read - count).abs() <= 0.03 * count + 0.2, "{name}: {read:?} {counted:?}");
        }
        let again = distribution(&replayed(&machine, &replay).1);
        for place in 0..4 {
            before[place] += read[place] / 8.0;
            after[place] += again[place] / 8.0;
        }
    }
    (before, after)
}

#[test]
fn a_trace_of_a_machine_waits_there_as_it_did() {
    let loads = [
        ("hogs and sleepers", hogs_and_sleepers(2, 8)),
        ("calls", calls(2)),
        ("more calls", calls(6)),
        ("hand-overs", hand_overs(6)),
        ("sessions", sessions(2, 4)),
        ("messages", messages(2, 20)),
    ];
    for (name, load) in loads {
        let (before, after) = before_and_after(name, &load);
        for (place, (replayed, traced)) in after.iter().zip(before).enumerate() {
            // A message that finds its receiver awake is in no trace, and could wake it in the replay: which short waits there are is
            // not known.
            let is_short = name == "messages" && place == 1;
            let is_near = (replayed / traced - 1.0).abs() < 0.15;
            assert!(is_near || is_short, "{name}: traced {before:?}, replayed {after:?}");
        }
    }
}

#[test]
fn fewer_cpus_make_waits_longer_and_more_make_them_shorter() {
    let (replay, _) = traced(&machine(2, "full"), &hogs_and_sleepers(2, 8), 300 * MS);
    let [one, two, four] = [1, 2, 4].map(|cpus| {
        let (seen, waits, end_ns) = replayed(&machine(cpus, "full"), &replay);
        (mean_us(&waits), end_ns, seen.marks[0].count)
    });
    assert!(one.0 > 1.5 * two.0 && two.0 > 1.5 * four.0, "{one:?} {two:?} {four:?}");
    // Two hogs on one CPU take twice as long; on four CPUs nothing is faster than on two but for the waits.
    assert!(one.1 > 2 * 290 * MS && two.1 < 330 * MS && four.1 <= two.1, "{one:?} {two:?} {four:?}");
    assert_eq!((one.2, four.2), (two.2, two.2), "all of the trace is done on each");
}

/// A thread of the kernel that computes for long, and tasks that wake up meanwhile.
fn beside_the_kernel(policy: Policy, machine: &Machine) -> Replay {
    let worker = vec![Op::Compute(Span::Fixed(15 * MS)), Op::Sleep(Span::Fixed(3 * MS)), Op::Jump(0)];
    let other = vec![Op::Compute(Span::Fixed(50_000)), Op::Sleep(Span::Uniform(MS, 2 * MS)), Op::Jump(0)];
    let load = Load {
        programs: vec![Program::new("kworker/u2:0", worker), Program::new("other", other)],
        tasks: vec![TaskSpec::new(0, 0), TaskSpec { policy, ..TaskSpec::new(1, 1) }],
        ..Load::default()
    };
    let (replay, _) = traced(machine, &load, 500 * MS);
    assert!(replay.tasks.iter().any(|task| task.is_kernel));
    replay
}

#[test]
fn a_thread_of_the_kernel_is_left_where_the_preemption_model_allows_it() {
    let wait_ns = |policy: Policy, model: &str| {
        let replay = beside_the_kernel(policy, &machine(1, "full"));
        // Programs are in the order of the time that they ran.
        let (seen, ..) = replayed(&machine(1, model), &replay);
        seen.roles[1].waited.mean_ns().unwrap()
    };
    let [full, lazy, none] = ["full", "lazy", "none"].map(|model| wait_ns(Policy::Fifo(50), model));
    // A real-time task asks for its CPU earnestly under lazy, too.
    assert!(full < 20_000.0 && lazy < 20_000.0 && none > MS as f64, "full {full}, lazy {lazy}, none {none} ns");
    let [full, lazy, none] = ["full", "lazy", "none"].map(|model| wait_ns(Policy::Other, model));
    // A fair one waits for the tick after its request under lazy, and for the end of the work under none.
    assert!(lazy > 1.2 * full && none > 1.2 * lazy, "full {full}, lazy {lazy}, none {none} ns");
}

#[test]
fn a_longer_slice_makes_hogs_wait_longer() {
    let (replay, _) = traced(&machine(1, "full"), &hogs_and_sleepers(3, 1), 500 * MS);
    let with_slice = |ns: i64| {
        let mut machine = machine(1, "full");
        factors::set(&mut machine, "base-slice", &ns.into()).unwrap();
        let (seen, ..) = replayed(&machine, &replay);
        seen.roles[0].waited.quantile_ns(0.9).unwrap()
    };
    // Two others run before each: for a tick, within which a short slice ends, or for three.
    let (short, long) = (with_slice(1_000_000), with_slice(12_000_000));
    assert!(2 * long > 3 * short, "12 ms {long} ns, 1 ms {short} ns");
}

#[test]
fn a_message_is_waited_for_and_a_timer_is_not_moved() {
    let ping = vec![
        Op::Compute(Span::Fixed(400_000)),
        Op::Send { to: Channel::Of(0), tag: 0 },
        Op::Sleep(Span::Fixed(MS)),
        Op::Jump(0),
    ];
    let pong = vec![Op::Receive(Channel::Mine), Op::Compute(Span::Fixed(200_000)), Op::Jump(0)];
    let load = Load {
        programs: vec![Program::new("ping", ping), Program::new("pong", pong)],
        tasks: vec![TaskSpec::new(0, 0), TaskSpec { inbox: Some(0), ..TaskSpec::new(1, 1) }],
        channels: vec![ChannelSpec::from(8)],
        ..Load::default()
    };
    let (replay, _) = traced(&machine(2, "full"), &load, 100 * MS);
    let pong = replay.tasks.iter().find(|task| task.name == "pong").unwrap();
    let ping = replay.tasks.iter().find(|task| task.name == "ping").unwrap();
    let count =
        |task: &holdup_model::ReplayTask, is: fn(&ReplayStep) -> bool| task.steps.iter().filter(|s| is(s)).count();
    assert_eq!(count(pong, |step| matches!(step, ReplayStep::Sleep(_))), 0, "{:?}", pong.steps);
    assert!(count(pong, |step| matches!(step, ReplayStep::Wait)) > 50);
    assert_eq!(count(ping, |step| matches!(step, ReplayStep::Wait)), 0);
    assert!(count(ping, |step| matches!(step, ReplayStep::Sleep(_))) > 50);
}
