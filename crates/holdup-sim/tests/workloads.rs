//! The workloads of plans as programs: what they bring on machines on which it can be reckoned.

use holdup_model::{Measured, Measurement, Parameters, Value};
use holdup_sim::factors;
use holdup_sim::machine::{Arch, Costs, Kernel, Machine, Topology, catalogue};
use holdup_sim::preempt;
use holdup_sim::program::{Channel, Op, Program};
use holdup_sim::random::Span;
use holdup_sim::stats::WindowStats;
use holdup_sim::workloads::{self, Files, Levels};
use holdup_sim::world::{Load, RegionSpec, TaskSpec, World};

fn machine() -> Machine {
    catalogue::find("server-8").expect("it is there").machine
}

fn parameters(of: &[(&str, Value)]) -> Parameters {
    let mut all = Parameters::default();
    of.iter().for_each(|(name, value)| all.set(name, value.clone()));
    all
}

const MESSENGER: [&str; 11] = [
    "groups=2",
    "senders=3",
    "receivers=4",
    "size=100",
    "sharing=processes",
    "transport=socketpair",
    "messages=0",
    "timing=on",
    "sample_every=16",
    "placement=none",
    "by=holdup",
];
const WAKEUP: [&str; 8] = [
    "threads=8",
    "interval=1000000",
    "distance=0",
    "priority=0",
    "pin=on",
    "cpus=allowed",
    "placement=none",
    "by=holdup",
];

/// Parameters as `name=value`; the last of a name counts.
fn read(texts: &[&str], prefix: &str) -> Parameters {
    let value = |text: &str| match (text, text.parse::<i64>()) {
        ("on", _) => Value::Bool(true),
        ("off", _) => Value::Bool(false),
        (_, Ok(number)) => Value::Integer(number),
        _ => Value::Text(text.to_owned()),
    };
    let pairs: Vec<(String, Value)> = texts
        .iter()
        .map(|text| text.split_once('=').expect("name=value"))
        .map(|(name, text)| (format!("{prefix}{name}"), value(text)))
        .collect();
    parameters(&pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect::<Vec<_>>())
}

/// What a workload brings in 50 ms after 10 ms, and what was seen.
fn run(workload: &str, parameters: &Parameters, machine: &Machine) -> (Vec<Measurement>, WindowStats) {
    let declared = holdup_catalogue::workloads::find(workload).expect("it is declared");
    let mut all = holdup_catalogue::defaults(declared.parameters, machine.topology.cpus());
    all.0.extend(parameters.0.clone());
    let (workload, parameters) = (workloads::find(workload).expect("it is there"), &all);
    let load = workload.load(parameters, &Levels::new(), machine, &Files::default()).expect("a load");
    let mut world = World::new(machine, &load, 1);
    world.run_until(10_000_000);
    world.open();
    world.run_until(60_000_000);
    world.check_invariants().expect("in order");
    let seen = world.close().clone();
    (workload.results(parameters, &seen, 50_000_000).0, seen)
}

fn number(all: &[Measurement], id: &str) -> f64 {
    match all.iter().find(|m| m.metric == id).map(|m| &m.value) {
        Some(Measured::Value(value)) => *value,
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn a_wake_up_on_an_idle_machine_is_as_late_as_its_costs_are_long() {
    let mut machine = machine();
    let Costs { ipi_ns, idle_exit_ns, switch_ns, timer_slack_ns, .. } = machine.costs;
    let exact_ns = ipi_ns + idle_exit_ns + switch_ns;
    for (priority, expect_ns) in [("priority=0", timer_slack_ns + exact_ns), ("priority=80", exact_ns)] {
        let (all, seen) = run("wakeup", &read(&[&WAKEUP[..], &[priority]].concat(), ""), &machine);
        // Eight threads, one wake-up each millisecond.
        assert_eq!(number(&all, "cycles"), 400.0, "{priority}");
        assert_eq!(number(&all, "missed_periods"), 0.0, "{priority}");
        let (least, most) = seen.marks[0].lengths.range_ns().expect("they woke");
        assert!(least <= expect_ns && expect_ns <= most, "{priority}: {least} to {most}, not {expect_ns}");
        // The histogram keeps three digits.
        assert!((most - least) as f64 <= 0.002 * expect_ns as f64, "{priority}: {least} to {most}");
    }
    // An interval that is shorter than the way there and back misses every other moment.
    machine.costs.idle_exit_ns = 15_000 - ipi_ns - switch_ns;
    let (all, _) =
        run("wakeup", &read(&[&WAKEUP[..], &["priority=80", "interval=10000", "threads=1"]].concat(), ""), &machine);
    assert_eq!(number(&all, "cycles"), number(&all, "missed_periods"));
}

#[test]
fn messages_are_conserved_and_all_receivers_get_some() {
    for transport in ["transport=socketpair", "transport=pipe"] {
        for senders in ["senders=1", "senders=9"] {
            let parameters = read(&[&MESSENGER[..], &[transport, senders]].concat(), "");
            let (all, seen) = run("messenger", &parameters, &machine());
            let under_way = number(&all, "messages_sent") - number(&all, "messages_received");
            // Each of the 8 channels holds 640 messages at most, each of up to 18 senders is in a call.
            assert!((-18.0..=8.0 * 640.0).contains(&under_way), "{transport} {senders}: {under_way} under way");
            assert!(number(&all, "messages_per_s") > 100_000.0, "{transport} {senders}");
            let received = seen.by_task.iter().enumerate().filter(|(task, _)| is_receiver(*task, senders));
            assert!(received.clone().all(|(_, n)| *n > 100), "{transport} {senders}: {:?}", seen.by_task);
            assert_eq!(received.map(|(_, n)| n).sum::<u64>(), seen.marks[0].count, "{transport} {senders}");
        }
    }
}

/// True if a task of two groups with 4 receivers each is one of these.
fn is_receiver(task: usize, senders: &str) -> bool {
    let senders: usize = senders.split_once('=').expect("a number").1.parse().expect("a number");
    task % (4 + senders) < 4
}

#[test]
fn members_share_a_machine_and_are_counted_for_themselves() {
    let machine = machine();
    let often = [&WAKEUP[..], &["interval=100000"]].concat();
    let alone = run("wakeup", &read(&often, ""), &machine).0;
    let mut both = parameters(&[("foreground", "wakeup".into()), ("background", "none".into())]);
    both.0.extend(read(&often, "wakeup.").0);
    let (same, _) = run("mixed", &both, &machine);
    assert_eq!(same, alone, "no message is behind it");
    both.set("background", "messenger");
    both.0.extend(read(&[&MESSENGER[..], &["groups=8", "senders=20", "receivers=20"]].concat(), "messenger.").0);
    let (mixed, seen) = run("mixed", &both, &machine);
    assert!(number(&mixed, "latency_p99_us") > 5.0 * number(&alone, "latency_p99_us"), "{mixed:?}");
    assert!(number(&mixed, "messenger.messages_per_s") > 100_000.0);
    let (received, cycles) = (number(&mixed, "messenger.messages_per_s") * 0.05, number(&mixed, "cycles"));
    let counted: u64 = seen.by_task.iter().sum();
    assert_eq!(counted, (received + cycles).round() as u64, "by task they are all counted");
}

const STREAM: [&str; 9] = [
    "connections=4",
    "protocol=tcp",
    "size=65536",
    "mode=write",
    "sharing=threads",
    "network=loopback",
    "rate=0",
    "placement=none",
    "by=holdup",
];

#[test]
fn a_stream_carries_what_its_slower_end_carries() {
    // On one CPU a segment takes all that both ends and the switches between them take.
    let machine = one_cpu("6.18", "none");
    let Costs { syscall_ns, net_copy_ns, net_segment_ns, .. } = machine.costs;
    for (mode, sender) in [("mode=write", "client_cpu_s_per_gb"), ("mode=read", "server_cpu_s_per_gb")] {
        let (all, seen) = run("stream", &read(&[&STREAM[..], &["connections=1", mode]].concat(), ""), &machine);
        let bytes = 65_536.0;
        let sender_ns = (syscall_ns + 64 * net_copy_ns + 2 * net_segment_ns) as f64;
        let receiver_ns = (syscall_ns + 64 * net_copy_ns) as f64;
        let wakes = seen.wakeups as f64 / seen.marks[0].count as f64 * machine.costs.wake_ns as f64;
        let expect = (sender_ns + receiver_ns + wakes) / bytes;
        let got = number(&all, "cpu_s_per_gb");
        assert!((got / expect - 1.0).abs() < 0.02, "{mode}: {got} and not {expect}");
        assert!(number(&all, sender) > sender_ns / bytes * 0.98, "{mode}: who sends does what the softirq does");
        assert_eq!(number(&all, "fairness_min_max"), 1.0);
        assert_eq!(number(&all, "retransmissions"), 0.0);
    }
}

#[test]
fn what_is_sent_is_received_or_dropped_or_under_way() {
    for network in ["network=loopback", "network=openvswitch", "network=peer"] {
        for protocol in ["protocol=tcp", "protocol=udp"] {
            for mode in ["mode=write", "mode=both"] {
                let texts = [network, protocol, mode, "size=1472"];
                let (all, _) = run("stream", &read(&[&STREAM[..], &texts].concat(), ""), &machine());
                let bytes = |id: &str| number(&all, id);
                let under_way = bytes("bytes_sent") - bytes("bytes_received") - bytes("bytes_dropped");
                // Of 8 flows at most, each with its window or its receiver's buffer full, and rings with 256 and 500.
                let most = (8.0 * 1024.0 + 2.0 * (256.0 + 500.0)) * 1472.0;
                assert!((-8.0 * 1472.0..=most).contains(&under_way), "{network} {protocol} {mode}: {under_way}");
                assert!(bytes("throughput_gbit_per_s") > 0.1, "{network} {protocol} {mode}: {all:?}");
                if protocol == "protocol=udp" && network == "network=loopback" {
                    // What lay in buffers when the window opened is received in it.
                    assert!(bytes("sent_gbit_per_s") >= 0.95 * bytes("throughput_gbit_per_s"), "{mode}: {all:?}");
                }
            }
        }
    }
}

#[test]
fn a_lazy_kernel_holds_up_the_kworker_behind_vhost_and_nothing_on_loopback() {
    let throughput = |model: &str, network: &str| {
        let mut machine = machine();
        factors::set(&mut machine, "preempt", &model.into()).expect("a model");
        let (all, seen) = run("stream", &read(&[&STREAM[..], &["connections=50", network]].concat(), ""), &machine);
        (number(&all, "throughput_gbit_per_s"), seen)
    };
    let (lazy, full) = (throughput("lazy", "network=loopback").0, throughput("full", "network=loopback").0);
    assert!((lazy / full - 1.0).abs() < 0.15, "loopback: lazy {lazy}, full {full}");
    let waited = |seen: &WindowStats| {
        let kworkers = &seen.roles[6..];
        let mut all = kworkers[0].waited.clone();
        kworkers[1..].iter().for_each(|role| all.add(&role.waited));
        all.mean_ns().expect("they ran")
    };
    let (lazy, full) = (throughput("lazy", "network=peer"), throughput("full", "network=peer"));
    println!(
        "peer: lazy {} Gbit/s, kworkers wait {} ns; full {} Gbit/s, {} ns",
        lazy.0,
        waited(&lazy.1),
        full.0,
        waited(&full.1)
    );
    assert!(waited(&lazy.1) > 3.0 * waited(&full.1), "lazy {}, full {}", waited(&lazy.1), waited(&full.1));
}

#[test]
fn a_ping_over_udp_drops_what_its_receiver_has_no_room_for_and_over_tcp_nothing() {
    let ping = |protocol: &str| {
        let texts =
            ["mode=throughput", protocol, "size=14", "placement=same-cpu", "sharing=processes", "waiting=block"];
        run("ping", &read(&texts, ""), &machine()).0
    };
    let udp = ping("protocol=udp");
    assert!(number(&udp, "dropped_per_s") > 0.0 && number(&udp, "delivered_per_s") > 0.0, "{udp:?}");
    let under_way =
        number(&udp, "messages_sent") - number(&udp, "messages_received") - number(&udp, "messages_dropped");
    assert!((0.0..=416.0).contains(&under_way), "{under_way}");
    let tcp = ping("protocol=tcp");
    assert_eq!(number(&tcp, "messages_dropped"), 0.0);
    assert!(number(&tcp, "delivered_per_s") > 0.0, "{tcp:?}");
}

/// A machine with one CPU and a kernel of this version.
fn one_cpu(version: &str, model: &str) -> Machine {
    Machine {
        topology: Topology { smt: 1, cores: 1, llcs: 1, nodes: 1 },
        costs: Costs::DEFAULT,
        kernel: Kernel::of(version, preempt::find(model).expect("a model"), 1000, 1).expect("a kernel"),
    }
}

fn busy() -> Program {
    let ops = vec![Op::Compute(Span::Fixed(1_000_000)), Op::Jump(0)];
    Program::new("busy", ops)
}

#[test]
fn autogroup_gives_sessions_the_same_however_many_tasks_they_have() {
    // One task in one session, ten in another.
    let load = Load {
        programs: vec![busy()],
        tasks: (0..11).map(|n| TaskSpec { session: u32::from(n > 0), ..TaskSpec::default() }).collect(),
        ..Load::default()
    };
    for version in ["6.1", "6.18"] {
        for (autogroup, expect) in [(false, 1.0 / 11.0), (true, 0.5)] {
            let mut machine = one_cpu(version, "none");
            factors::set(&mut machine, "autogroup", &autogroup.into()).expect("a level");
            let mut world = World::new(&machine, &load, 1);
            world.run_until(4_000_000_000);
            let cpu_ns = &world.close().cpu_ns;
            let share = cpu_ns[0] as f64 / cpu_ns.iter().sum::<u64>() as f64;
            assert!((share - expect).abs() < 0.01, "{version}, autogroup {autogroup}: {share}, not {expect}");
        }
    }
}

/// A mechanism of a machine that is switched off.
fn without(machine: &Machine, mechanism: &str) -> Machine {
    let mut machine = machine.clone();
    factors::set(&mut machine, mechanism, &false.into()).expect("it is there");
    machine
}

#[test]
fn without_its_mechanism_an_effect_is_gone() {
    // On the first CPU a task computes, and another one waits for messages that come from the second CPU.
    let ops =
        vec![Op::Sleep(Span::Uniform(4_000_000, 6_000_000)), Op::Send { to: Channel::Of(0), tag: 0 }, Op::Jump(0)];
    let sends = Program::new("sends", ops);
    let ops = vec![Op::Receive(Channel::Mine), Op::Compute(Span::Fixed(10_000)), Op::Jump(0)];
    let receives = Program::new("receives", ops);
    let pinned = |program, cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::new(program, program) };
    let load = Load {
        programs: vec![busy(), sends, receives],
        tasks: vec![pinned(0, 0), pinned(1, 1), TaskSpec { inbox: Some(0), ..pinned(2, 0) }],
        channels: vec![16.into()],
        ..Load::default()
    };
    let waits_ns = |machine: Machine| {
        let machine = Machine { topology: Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 }, ..machine };
        let mut world = World::new(&machine, &load, 1);
        world.run_until(1_000_000_000);
        world.close().roles[2].waited.mean_ns().expect("it woke up")
    };
    let (full, lazy) = (one_cpu("6.18", "full"), one_cpu("6.18", "lazy"));
    let preempts = waits_ns(full.clone());
    assert!(preempts < 50_000.0, "{preempts}");
    // A tick comes each millisecond.
    let waits = waits_ns(lazy.clone());
    assert!((300_000.0..700_000.0).contains(&waits), "{waits}");
    let asks = waits_ns(without(&lazy, "mechanism.lazy-needs-tick"));
    assert!(asks < 1.5 * preempts, "{asks}");
    let never = waits_ns(without(&full, "mechanism.wakeup-preemption"));
    assert!(never > 300_000.0, "{never}");
}

#[test]
fn a_touch_under_a_lock_is_no_fault_without_that_mechanism() {
    let ops = vec![
        Op::Lock(0),
        Op::Touch { region: 0, pages: 1 },
        Op::Unlock(0),
        Op::Touch { region: 1, pages: 1 },
        Op::Done(0),
        Op::Jump(0),
    ];
    let region = RegionSpec { huge: false, steps: 1, together: false, end: 0, mapped: false };
    let load = Load {
        programs: vec![Program { ops, ..busy() }],
        tasks: vec![TaskSpec::default()],
        locks: vec!["tas"],
        regions: vec![region; 2],
        marks: 1,
        ..Load::default()
    };
    let faults = |machine: &Machine| {
        let mut world = World::new(machine, &load, 1);
        world.run_until(10_000_000);
        let seen = world.close();
        (seen.roles[0].faults_holding, seen.roles[0].faults - seen.roles[0].faults_holding, seen.marks[0].count)
    };
    let (holding, others, rounds) = faults(&one_cpu("6.18", "full"));
    assert!(
        rounds > 1_000 && holding.abs_diff(rounds) <= 1 && others.abs_diff(rounds) <= 1,
        "{holding} {others} {rounds}"
    );
    let (holding, others, rounds) = faults(&without(&one_cpu("6.18", "full"), "mechanism.fault-under-lock"));
    assert!(rounds > 1_000 && holding == 0 && others.abs_diff(rounds) <= 1, "{holding} {others} {rounds}");
}

/// What a pgbench of some clients on a machine with 8 CPUs and a cold pool brings, with a server built from something.
fn built(build: &str) -> Result<(f64, WindowStats), String> {
    let mut machine = machine();
    factors::set(&mut machine, "preempt", &Value::from("lazy")).expect("a model");
    factors::set(&mut machine, "rseq-slice-length", &Value::Integer(30_000)).expect("a length");
    let declared = holdup_catalogue::workloads::find("pgbench").expect("it is declared");
    let mut all = holdup_catalogue::defaults(declared.parameters, machine.topology.cpus());
    all.0.extend(read(&["script=simple-update", "clients=64", "scale=2000"], "").0);
    let levels = Levels::from([
        ("postgres.build".to_owned(), Value::from(build)),
        ("postgres.pool".to_owned(), Value::from("cold")),
        ("postgres.shared_buffers".to_owned(), Value::from("8GB")),
    ]);
    let workload = workloads::find("pgbench").expect("it is there");
    let load = workload.load(&all, &levels, &machine, &Files::default()).map_err(|problem| problem.to_string())?;
    let mut world = World::new(&machine, &load, 1);
    world.run_until(20_000_000);
    world.open();
    world.run_until(120_000_000);
    world.check_invariants().expect("in order");
    let seen = world.close().clone();
    Ok((seen.marks[0].count as f64, seen))
}

#[test]
fn each_patch_changes_what_it_is_for() {
    let seen = |build| built(build).expect("a build that is simulated").1;
    let stock = seen("stock");
    let faults = |seen: &WindowStats| seen.roles.iter().map(|r| r.faults_holding).sum::<u64>();
    assert!(faults(&stock) > 100 && stock.locks[0].sleeps > 0, "{:?}", stock.locks);
    let prefault = seen("patches/prefault-buffer-headers");
    assert_eq!(faults(&prefault), 0, "every header is mapped before it is wanted");
    assert!(prefault.marks[0].count > stock.marks[0].count);
    assert!(stock.grants == 0 && seen("patches/spin-slice-extension").grants > 0);
    // The list of WALWriteLock is the third lock, after the free list and WALWriteLock itself.
    for build in ["patches/lwlock-wait-list-futex", "patches/lwlock-wait-list-park"] {
        let seen = seen(build);
        assert!(seen.locks[2].acquisitions > 100 && seen.marks[0].count > 0, "{build}: {:?}", seen.locks);
    }
    let unknown = built("patches/everything").expect_err("there is no such build");
    assert!(unknown.contains("postgres.build patches/everything"), "{unknown}");
}

/// PostgreSQL 15 to 17 exchange at each turn on arm64, and only there.
#[test]
fn s_lock_of_arm64_exchanges_at_each_turn() {
    let spinning = |arch: Arch, exchanges: bool| {
        let mut machine = catalogue::find("graviton4-96").expect("it is there").machine;
        machine.kernel.arch = arch;
        machine.costs.contender_ns = 20;
        factors::set(&mut machine, "mechanism.exchanging-turns", &Value::Bool(exchanges)).expect("a mechanism");
        let declared = holdup_catalogue::workloads::find("pgbench").expect("it is declared");
        let mut all = holdup_catalogue::defaults(declared.parameters, 96);
        all.0.extend(read(&["script=simple-update", "clients=384", "scale=8470", "threads=96"], "").0);
        let levels = Levels::from([
            ("postgres.pool".to_owned(), Value::from("cold")),
            ("postgres.shared_buffers".to_owned(), Value::from("120GB")),
        ]);
        let load = workloads::find("pgbench")
            .expect("it is there")
            .load(&all, &levels, &machine, &Files::default())
            .expect("a load");
        let mut world = World::new(&machine, &load, 1);
        world.run_until(20_000_000);
        world.close().roles.iter().map(|r| r.spin_ns).sum::<u64>()
    };
    let (arm, x86, later) = (spinning(Arch::Arm, true), spinning(Arch::X86, true), spinning(Arch::Arm, false));
    assert_eq!(x86, later, "PostgreSQL 18 looks first on arm64 as well");
    assert!(arm > 2 * x86, "{arm} and {x86} ns");
}
