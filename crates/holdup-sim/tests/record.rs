//! The record of a machine, against timelines that are known exactly.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::program::{Channel, Op, Preemption, Program};
use holdup_sim::random::Span;
use holdup_sim::record::{Activity, Recorded, RecordedEvent};
use holdup_sim::workloads::lock_contention::{Setup, load as contention};
use holdup_sim::world::{Load, RegionSpec, TaskSpec, World};
use std::fmt::Write as _;

/// A machine on which most things take no time, so that the rest can be reckoned by hand.
fn machine(cpus: u32, model: &str) -> Machine {
    let free = Costs {
        switch_ns: 0,
        interrupt_ns: 0,
        tick_ns: 0,
        ipi_ns: 0,
        ipi_send_ns: 0,
        wake_ns: 0,
        idle_exit_ns: 0,
        atomic_ns: 0,
        transfer_ns: [0; 5],
        contender_ns: 0,
        spin_ns: 0,
        touch_ns: 0,
        syscall_ns: 100,
        fault_ns: 500,
        timer_slack_ns: 0,
        ..Costs::DEFAULT
    };
    Machine {
        topology: Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 },
        costs: free,
        kernel: Kernel::of("6.18", preempt::find(model).expect("a model"), 250, cpus).expect("a kernel"),
    }
}

fn program(ops: Vec<Op>) -> Program {
    Program::new("task", ops)
}

fn pinned(program: u32, cpu: u32) -> TaskSpec {
    TaskSpec { pinned: Some(cpu), ..TaskSpec::new(program, program) }
}

/// The entries as lines, with times from `zero` on.
fn lines(recorded: &Recorded, zero: u64) -> String {
    let mut text = String::new();
    for entry in &recorded.entries {
        let at = entry.at_ns - zero;
        let _ = write!(text, "{at} cpu {}: ", entry.cpu);
        let name = |task: Option<u32>| task.map_or("idle", |t| ["A", "B", "C"][t as usize]);
        let _ = match entry.what {
            RecordedEvent::Switch { from, to, left, waits, lock } => {
                writeln!(text, "{} to {}, {left:?} {waits:?} {lock:?}", name(from), name(to))
            }
            RecordedEvent::Wakeup { task, by } => writeln!(text, "{} woken by {}", name(Some(task)), name(by)),
            RecordedEvent::Did { task, doing, length_ns, lock } => {
                writeln!(text, "{} {doing:?} {lock:?} for {length_ns}", name(Some(task)))
            }
            RecordedEvent::Held { task, lock, length_ns } => {
                writeln!(text, "{} holds {lock} for {length_ns}", name(Some(task)))
            }
            RecordedEvent::Faulted { task, length_ns, lock } => {
                writeln!(text, "{} faults with {lock:?} for {length_ns}", name(Some(task)))
            }
        };
    }
    text
}

/// When a task first came to a CPU: tasks begin one after the other, up to 1,000 ns apart.
fn came(recorded: &Recorded, task: u32) -> u64 {
    let is_it = |what: &RecordedEvent| matches!(what, RecordedEvent::Switch { to: Some(to), .. } if *to == task);
    recorded.entries.iter().find(|e| is_it(&e.what)).expect("it came").at_ns
}

/// A holds the lock over a page fault while B spins for it; then B has it.
#[test]
fn a_load_that_is_reckoned_by_hand_is_recorded_as_it_must_be() {
    let holder = program(vec![
        Op::Compute(Span::Fixed(2_000)),
        Op::Lock(0),
        Op::Compute(Span::Fixed(10_000)),
        Op::Touch { region: 0, pages: 1 },
        Op::Compute(Span::Fixed(1_500)),
        Op::Unlock(0),
        Op::Compute(Span::Fixed(3_000)),
        Op::System { work: Span::Fixed(900), preemption: Preemption::On },
    ]);
    let waiter = program(vec![
        Op::Compute(Span::Fixed(4_000)),
        Op::Lock(0),
        Op::Compute(Span::Fixed(1_000)),
        Op::Unlock(0),
        Op::Compute(Span::Fixed(500)),
    ]);
    let load = Load {
        programs: vec![holder, waiter],
        tasks: vec![pinned(0, 0), pinned(1, 1)],
        locks: vec!["tas"],
        regions: vec![RegionSpec { huge: false, steps: 1, together: false, end: 0, mapped: false }],
        ..Load::default()
    };
    let recorded = records(&load);
    assert_eq!((recorded.is_full, recorded.given_up, recorded.end_ns), (false, 0, 100_000));
    let zero = came(&recorded, 0);
    let b = came(&recorded, 1) - zero;
    // A unlocks at 14,000, which takes 1 ns; from then on its times have that in them.
    let wanted = format!(
        "0 cpu 0: A woken by idle\n\
         0 cpu 0: idle to A, Blocked None None\n\
         {b} cpu 1: B woken by idle\n\
         {b} cpu 1: idle to B, Blocked None None\n\
         2000 cpu 0: A holds 0 for 12000\n\
         {spins} cpu 1: B Spin Some(0) for {spun}\n\
         12000 cpu 0: A faults with Some(0) for 500\n\
         14000 cpu 1: B holds 0 for 1000\n\
         15501 cpu 1: B Kernel None for 100\n\
         15601 cpu 1: B to idle, Exited None None\n\
         17001 cpu 0: A Kernel None for 1100\n\
         18101 cpu 0: A to idle, Exited None None\n",
        spins = b + 4_000,
        spun = 14_000 - (b + 4_000),
    );
    assert_eq!(lines(&recorded, zero), wanted);
}

/// What two CPUs do in the first 100 µs.
fn records(load: &Load) -> Recorded {
    let mut world = World::new(&machine(2, "full"), load, 1);
    world.record(1_000);
    world.open();
    world.run_until(100_000);
    world.recorded().expect("it was recorded")
}

/// B waits for A's message, then for a device; the record has the reasons.
#[test]
fn what_a_task_waits_for_is_recorded() {
    let sender = program(vec![
        Op::Compute(Span::Fixed(5_000)),
        Op::Send { to: Channel::Of(0), tag: 0 },
        Op::Compute(Span::Fixed(1_000)),
    ]);
    let receiver = program(vec![
        Op::Receive(Channel::Of(0)),
        Op::Io { device: 0, work: Span::Fixed(7_000) },
        Op::Sleep(Span::Fixed(2_000)),
    ]);
    let load = Load {
        programs: vec![sender, receiver],
        tasks: vec![pinned(0, 0), pinned(1, 1)],
        channels: vec![1.into()],
        devices: vec![1],
        ..Load::default()
    };
    let recorded = records(&load);
    let left = recorded.entries.iter().filter_map(|e| match e.what {
        RecordedEvent::Switch { from: Some(1), waits, .. } => Some(format!("{waits:?}")),
        RecordedEvent::Wakeup { task: 1, by } => Some(format!("by {by:?}")),
        _ => None,
    });
    let reasons: Vec<String> = left.collect();
    let wanted =
        ["by None", "Some(Message)", "by Some(0)", "Some(Device)", "by None", "Some(Other)", "by None", "None"];
    assert_eq!(reasons, wanted);
}

fn contended(algorithm: &'static str, model: &str, most: Option<usize>) -> (World, Load) {
    let setup = Setup {
        workers: 8,
        algorithm,
        section_ns: 1_000,
        think_ns: 2_000,
        processes: true,
        faults: 1,
        touches_before: false,
        huge: false,
        pin: false,
    };
    let load = contention(&setup, 3);
    let machine = Machine { costs: Costs::DEFAULT, ..machine(3, model) };
    let mut world = World::new(&machine, &load, 1);
    if let Some(most) = most {
        world.record(most);
    }
    world.run_until(5_000_000);
    world.open();
    world.run_until(25_000_000);
    (world, load)
}

/// The record of the same window by each CPU's and the counters' account.
#[test]
fn the_record_adds_up_to_what_was_counted() {
    for algorithm in holdup_sim::locks::ids() {
        for model in ["none", "lazy", "full"] {
            let (mut world, load) = contended(algorithm, model, Some(usize::MAX));
            let seen = world.close().clone();
            let recorded = world.recorded().expect("it was recorded");
            assert!(!recorded.is_full);
            let mut spin = vec![0; seen.locks.len()];
            let (mut switches, mut wakeups, mut faults) = (0, 0, 0);
            let mut until = [0; 3];
            for e in &recorded.entries {
                match e.what {
                    RecordedEvent::Switch { from, .. } => switches += u64::from(e.at_ns > 0 || from.is_some()),
                    RecordedEvent::Wakeup { .. } => wakeups += 1,
                    RecordedEvent::Faulted { .. } => faults += 1,
                    RecordedEvent::Did { doing, length_ns, lock, .. } => {
                        let until = &mut until[e.cpu as usize];
                        assert!(e.at_ns >= *until, "{algorithm} {model}: a CPU does two things at {}", e.at_ns);
                        *until = e.at_ns + length_ns;
                        if let (Activity::Spin, Some(lock)) = (doing, lock) {
                            spin[lock as usize] += length_ns;
                        }
                    }
                    RecordedEvent::Held { .. } => {}
                }
            }
            let by_lock: Vec<u64> = seen.locks.iter().map(|l| l.spin_ns).collect();
            assert_eq!(spin, by_lock, "{algorithm} {model}");
            assert_eq!((switches, wakeups), (seen.switches, seen.wakeups), "{algorithm} {model}");
            let counted: u64 = seen.roles.iter().map(|r| r.faults).sum();
            assert!(faults >= counted && faults <= counted + load.tasks.len() as u64, "{algorithm} {model}");
        }
    }
}

#[test]
fn recording_changes_nothing() {
    for algorithm in ["tas", "lwlock"] {
        let counts = |most| {
            let seen = contended(algorithm, "lazy", most).0.close().clone();
            (seen.events, seen.switches, seen.marks[0].count, seen.overhead_ns, seen.cpu_ns)
        };
        assert_eq!(counts(None), counts(Some(50)), "{algorithm}");
        assert_eq!(counts(None), counts(Some(usize::MAX)), "{algorithm}");
    }
}

/// Where the room ends, so does the record: nothing is missing before, and what is given up is counted.
#[test]
fn a_full_record_is_the_begin_of_a_whole_one() {
    let whole = contended("lwlock", "lazy", Some(usize::MAX)).0.recorded().expect("it was recorded");
    for most in [0, 1, 50, 1_000] {
        let full = contended("lwlock", "lazy", Some(most)).0.recorded().expect("it was recorded");
        assert!(full.is_full && full.end_ns < whole.end_ns, "{most}");
        assert!(full.entries.len() >= most && full.entries.len() <= most + 3 + 3 + 8 + 8, "{}", full.entries.len());
        let (mut kept, mut given_up) = (Vec::new(), 0);
        for e in &whole.entries {
            let left_ns = full.end_ns.saturating_sub(e.at_ns);
            let mut e = *e;
            if let RecordedEvent::Did { length_ns, .. }
            | RecordedEvent::Held { length_ns, .. }
            | RecordedEvent::Faulted { length_ns, .. } = &mut e.what
            {
                *length_ns = left_ns.min(*length_ns);
            }
            // What happens at the very end is kept where it still had room.
            if e.at_ns < full.end_ns || full.entries.contains(&e) { kept.push(e) } else { given_up += 1 }
        }
        let sorted = |mut entries: Vec<_>| {
            entries.sort_by_key(|e: &holdup_sim::record::Entry| (e.at_ns, e.cpu, format!("{:?}", e.what)));
            entries
        };
        assert_eq!(sorted(kept), sorted(full.entries), "{most}");
        assert_eq!(given_up, full.given_up, "{most}");
    }
}

#[test]
fn locks_have_distinct_names() {
    assert_eq!(holdup_sim::locks::names(&["tas", "lwlock", "tas"]), ["tas 1", "lwlock", "tas 2", "lwlock: list"]);
}
