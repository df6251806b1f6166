//! What holds of any machine and any programs: a swarm of both, each drawn from a seed that is printed when it fails.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::program::{Op, Preemption, Program};
use holdup_sim::random::{Random, Span};
use holdup_sim::sched::group::GroupSpec;
use holdup_sim::sched::weight;
use holdup_sim::world::{Load, Policy, TaskSpec, World};

const MS: u64 = 1_000_000;

fn one_of<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

fn machine(random: &mut Random) -> (String, Machine) {
    let topology = Topology {
        smt: one_of(random, &[1, 1, 2]),
        cores: one_of(random, &[1, 2, 3, 4]),
        llcs: one_of(random, &[1, 1, 2, 3]),
        nodes: one_of(random, &[1, 1, 2]),
    };
    let version = one_of(random, &["5.4", "5.10", "6.1", "6.6", "6.12", "6.18", "6.18", "7.0", "7.1", "7.3"]);
    let hz = one_of(random, &[100, 250, 1000]);
    let models = Kernel::models(version).expect("known");
    let model = one_of(random, &models);
    let mut kernel =
        Kernel::of(version, preempt::find(model).expect("a model"), hz, topology.cpus()).expect("a kernel");
    if version >= "7.0" {
        kernel.slice_extension_ns = one_of(random, &[0, 5_000, 50_000]);
    }
    let name = format!("{topology:?} {version} {model} HZ={hz} extension {} ns", kernel.slice_extension_ns);
    (name, Machine { topology, costs: Costs::DEFAULT, kernel })
}

/// A program that does something of everything.
fn program(random: &mut Random, number: u64, locks: u32) -> Program {
    let mut ops = Vec::new();
    for _ in 0..1 + random.below(5) {
        let long = one_of(random, &[500, 20_000, 300_000, 5 * MS]);
        let span = one_of(random, &[Span::Fixed(long), Span::Exponential(long), Span::Uniform(1, long)]);
        match random.below(6) {
            0 => ops.push(Op::Sleep(span)),
            1 => ops.push(Op::Yield),
            2 => {
                let lock = random.below(u64::from(locks)) as u32;
                let section = [Op::Lock(lock), Op::Compute(Span::Fixed(long.min(20_000))), Op::Unlock(lock)];
                let extends = random.below(2) == 0;
                ops.extend(extends.then_some(Op::ExtendBegin));
                ops.extend(section);
                ops.extend(extends.then_some(Op::ExtendEnd));
            }
            3 => {
                let preemption = one_of(random, &[Preemption::On, Preemption::Off, Preemption::CondResched(1_000)]);
                ops.push(Op::System { work: Span::Fixed(long.min(200_000)), preemption });
            }
            _ => ops.push(Op::Compute(span)),
        }
    }
    ops.extend([Op::Compute(Span::Fixed(100)), Op::Done(0), Op::Jump(0)]);
    Program { name: format!("p{number}"), role: "load".to_owned(), ops }
}

fn load(random: &mut Random, cpus: u32) -> Load {
    let programs: Vec<Program> = (0..1 + random.below(3)).map(|n| program(random, n, 2)).collect();
    let quota = |random: &mut Random| if random.below(3) == 0 { 3 * MS + random.below(30 * MS) } else { 0 };
    let groups: Vec<GroupSpec> = (0..random.below(3))
        .map(|n| GroupSpec {
            parent: (n > 0 && random.below(2) == 0).then_some(0),
            weight: one_of(random, &[100, 1024, 3000]),
            quota_ns: quota(random),
            period_ns: 20 * MS,
            ..GroupSpec::new("g")
        })
        .collect();
    let tasks = (0..1 + random.below(u64::from(cpus) * 3))
        .map(|process| TaskSpec {
            program: random.below(programs.len() as u64) as u32,
            weight: weight::of_nice(random.below(40) as i32 - 20),
            policy: one_of(
                random,
                &[
                    Policy::Other,
                    Policy::Other,
                    Policy::Other,
                    Policy::Other,
                    Policy::Batch,
                    Policy::Idle,
                    Policy::Fifo(10),
                    Policy::Rr(20),
                ],
            ),
            slice_ns: (random.below(4) == 0).then(|| one_of(random, &[100_000, MS, 10 * MS])),
            group: (!groups.is_empty() && random.below(2) == 0).then(|| random.below(groups.len() as u64) as u32),
            pinned: (random.below(4) == 0).then(|| random.below(u64::from(cpus)) as u32),
            process: process as u32,
            ..TaskSpec::default()
        })
        .collect();
    Load { programs, tasks, locks: vec!["futex-mutex", "tas"], groups, marks: 1, ..Load::default() }
}

/// No task on two CPUs, none lost, counts that count, CPU time that sums up, the same events for the same seed.
#[test]
fn a_machine_is_always_in_order() {
    for seed in 0..120 {
        let mut random = Random::new(seed, 7);
        let (name, machine) = machine(&mut random);
        let cpus = machine.topology.cpus();
        let load = load(&mut random, cpus);
        let fail = |why: String| panic!("seed {seed}: {why}\n{name}\n{load:#?}");
        let mut world = World::new(&machine, &load, seed);
        let mut worst_lag_ns = 0;
        for step in 1..200u64 {
            if step == 20 {
                world.open();
            }
            world.run_until(step * 150_000);
            match world.check_invariants() {
                Ok(report) => {
                    worst_lag_ns = worst_lag_ns.max(report.worst_lag_ns);
                    // The virtual time is rounded down.
                    if report.lag_sum_ns > 1 {
                        fail(format!("lags sum up to {} ns", report.lag_sum_ns));
                    }
                }
                Err(why) => fail(format!("at {} ns {why}", world.now_ns())),
            }
        }
        let window_ns = u64::from(cpus) * 180 * 150_000;
        let seen = world.close();
        let busy_ns: u64 = seen.cpu_ns.iter().sum();
        let by_role: u64 = seen.roles.iter().map(|r| r.user_ns + r.kernel_ns + r.spin_ns).sum();
        let sum = busy_ns + seen.idle_ns + seen.overhead_ns;
        if busy_ns != by_role || sum != window_ns {
            fail(format!(
                "{busy_ns} by task, {by_role} by role, {} idle, {} overhead of {window_ns} ns",
                seen.idle_ns, seen.overhead_ns
            ));
        }
    }
}

/// A lag is bounded: by the longest slice and a tick, twice over for who comes back with one.
#[test]
fn the_lag_of_eevdf_is_bounded() {
    for seed in 0..40 {
        let mut random = Random::new(seed, 8);
        let (name, mut machine) = machine(&mut random);
        machine.kernel = Kernel::of("6.18", machine.kernel.preempt, machine.kernel.hz, machine.topology.cpus())
            .unwrap_or_else(|_| machine.kernel.clone());
        if machine.kernel.cfs.is_some() {
            continue;
        }
        let cpus = machine.topology.cpus();
        let mut load = load(&mut random, cpus);
        load.groups.clear();
        for task in &mut load.tasks {
            (task.group, task.policy) = (None, Policy::Other);
            task.weight = weight::of_nice(random.below(11) as i32 - 5);
        }
        let longest = load.tasks.iter().filter_map(|t| t.slice_ns).max().unwrap_or(0);
        let tick_ns = 1_000_000_000 / u64::from(machine.kernel.hz);
        let bound = 2 * (longest.max(machine.kernel.fair.base_slice_ns) + tick_ns);
        let mut world = World::new(&machine, &load, seed);
        for step in 1..400u64 {
            world.run_until(step * 100_000);
            let report = world.check_invariants().expect("in order");
            assert!(
                report.worst_lag_ns <= bound,
                "seed {seed}: {} > {bound} ns at {step}\n{name}\n{load:#?}",
                report.worst_lag_ns
            );
        }
    }
}

/// No CPU stays idle for longer than the next ticks while a task that may move waits elsewhere.
#[test]
fn work_is_conserved() {
    let mut worst = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed, 9);
        let (name, machine) = machine(&mut random);
        let cpus = machine.topology.cpus();
        let mut load = load(&mut random, cpus);
        load.groups.clear();
        for task in &mut load.tasks {
            (task.group, task.policy) = (None, Policy::Other);
        }
        let tick_ns = 1_000_000_000 / u64::from(machine.kernel.hz);
        let limit_ns = 6 * tick_ns + machine.kernel.migration_cost_ns;
        let mut world = World::new(&machine, &load, seed);
        let mut since = None;
        for step in 1..1500u64 {
            let now = step * 50_000;
            world.run_until(now);
            let report = world.check_invariants().expect("in order");
            since = (report.idle_cpus > 0 && report.waiting > 0).then(|| since.unwrap_or(now));
            let length = now - since.unwrap_or(now);
            worst = worst.max(length * 100 / limit_ns);
            assert!(length <= limit_ns, "seed {seed}: {report:?} for {length} ns\n{name}\n{load:#?}");
        }
    }
    println!("the longest time took {worst} % of what is allowed");
}

fn hogs(
    version: &str,
    cpus: u32,
    tasks: Vec<TaskSpec>,
    groups: Vec<GroupSpec>,
    ms: u64,
) -> (Vec<f64>, holdup_sim::stats::WindowStats) {
    let kernel = Kernel::of_version(version, cpus, 1000).expect("known");
    let topology = Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 };
    let machine = Machine { topology, costs: Costs::DEFAULT, kernel };
    let ops = vec![Op::Compute(Span::Fixed(10 * MS)), Op::Jump(0)];
    let programs = vec![Program::new("hog", ops)];
    let mut world = World::new(&machine, &Load { programs, tasks, groups, ..Load::default() }, 1);
    world.run_until(200 * MS);
    world.open();
    world.run_until((200 + ms) * MS);
    let seen = world.close().clone();
    (seen.cpu_ns.iter().map(|ns| *ns as f64 / (ms * MS) as f64).collect(), seen)
}

/// Over long runs each task of a CPU has the share of its weight, under every class.
#[test]
fn shares_follow_weights() {
    for version in ["5.4", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        for nices in [vec![0, 0], vec![0, 5], vec![-5, 0, 5], vec![-10, 10], vec![0; 7]] {
            let tasks: Vec<TaskSpec> =
                nices.iter().map(|nice| TaskSpec { weight: weight::of_nice(*nice), ..TaskSpec::default() }).collect();
            let sum: u64 = tasks.iter().map(|t| t.weight).sum();
            let (shares, _) = hogs(version, 1, tasks.clone(), Vec::new(), 20_000);
            for (task, share) in tasks.iter().zip(&shares) {
                let expect = task.weight as f64 / sum as f64;
                assert!((share - expect).abs() < 0.01, "{version} {nices:?}: {shares:?}, expected {expect:.3}");
            }
        }
    }
}

#[test]
fn groups_share_by_their_weights_and_not_by_their_tasks() {
    for version in ["6.1", "6.18"] {
        let groups = vec![GroupSpec { weight: 2048, ..GroupSpec::new("a") }, GroupSpec::new("b")];
        let task = |group| TaskSpec { group: Some(group), ..TaskSpec::default() };
        let tasks = vec![task(0), task(1), task(1), task(1), task(1), task(1)];
        let (shares, _) = hogs(version, 1, tasks.clone(), groups.clone(), 20_000);
        let b: f64 = shares[1..].iter().sum();
        assert!((shares[0] / b - 2.0).abs() < 0.05, "{version}: {shares:?}");
        // On two CPUs its one task cannot use more than one of them, where two of the others wait with two fifths of the
        // weight of their group.
        let (shares, _) = hogs(version, 2, tasks, groups, 20_000);
        let sum: f64 = shares.iter().sum();
        assert!(sum > 1.98 && (shares[0] - 2048.0 / (2048.0 + 1024.0 * 0.4)).abs() < 0.05, "{version}: {shares:?}");
    }
}

#[test]
fn a_group_uses_its_quota_and_no_more() {
    for (cpus, quota_ms, expect) in [(1, 50, 0.5), (2, 50, 0.5), (2, 150, 1.5), (1, 20, 0.2)] {
        let group = GroupSpec { quota_ns: quota_ms * MS, ..GroupSpec::new("a") };
        let tasks = vec![TaskSpec { group: Some(0), ..TaskSpec::default() }; 4];
        let (shares, seen) = hogs("6.18", cpus, tasks, vec![group], 10_000);
        let sum: f64 = shares.iter().sum();
        println!("{cpus} cpus, {quota_ms} of 100 ms: {sum:.3} {:?}", seen.groups[0]);
        assert!((sum - expect).abs() < 0.03, "{cpus} cpus, {quota_ms} ms: {sum}");
        assert_eq!(seen.groups[0].periods, 100);
        assert!(seen.groups[0].throttles >= 90 && seen.groups[0].throttled_ns > 0, "{:?}", seen.groups[0]);
    }
}

#[test]
fn classes_come_before_one_another() {
    let of = |policy| TaskSpec { policy, ..TaskSpec::default() };
    let run = |policies: &[Policy]| hogs("6.18", 1, policies.iter().map(|p| of(*p)).collect(), Vec::new(), 2_000).0;
    let shares = run(&[Policy::Fifo(1), Policy::Other]);
    assert!(shares[0] > 0.99 && shares[1] == 0.0, "{shares:?}");
    let shares = run(&[Policy::Fifo(5), Policy::Fifo(5), Policy::Rr(6)]);
    assert!(shares[2] > 0.99, "{shares:?}");
    let shares = run(&[Policy::Rr(5), Policy::Rr(5)]);
    assert!((shares[0] - 0.5).abs() < 0.06, "{shares:?}");
    let shares = run(&[Policy::Fifo(5), Policy::Fifo(5)]);
    assert!(shares.contains(&0.0), "the first one keeps the CPU: {shares:?}");
    let shares = run(&[Policy::Other, Policy::Idle]);
    assert!((0.99..0.999).contains(&shares[0]) && shares[1] > 0.001, "{shares:?}");
}
