//! Where tasks run.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::program::{Op, Program};
use holdup_sim::random::Span;
use holdup_sim::stats::WindowStats;
use holdup_sim::world::{Load, Policy, TaskSpec, World};
use std::collections::BTreeSet;

const MS: u64 = 1_000_000;

fn world(topology: Topology, programs: &[&[Op]], tasks: Vec<TaskSpec>, change: impl FnOnce(&mut Kernel)) -> World {
    let mut kernel = Kernel::of_version("6.18", topology.cpus(), 1000).expect("known");
    change(&mut kernel);
    let machine = Machine { topology, costs: Costs::DEFAULT, kernel };
    let program = |ops: &&[Op]| Program { name: "p".to_owned(), role: "load".to_owned(), ops: ops.to_vec() };
    let programs = programs.iter().map(program).collect();
    World::new(&machine, &Load { programs, tasks, ..Load::default() }, 1)
}

fn measured(world: &mut World, from_ms: u64, until_ms: u64) -> (Vec<f64>, WindowStats) {
    world.run_until(from_ms * MS);
    world.open();
    world.run_until(until_ms * MS);
    world.check_invariants().expect("in order");
    let seen = world.close().clone();
    let whole_ns = ((until_ms - from_ms) * MS) as f64;
    (seen.cpu_ns.iter().map(|ns| *ns as f64 / whole_ns).collect(), seen)
}

const HOG: &[Op] = &[Op::Compute(Span::Fixed(MS)), Op::Jump(0)];
const SERVERS: Topology = Topology { smt: 2, cores: 4, llcs: 2, nodes: 2 };

#[test]
fn new_tasks_get_cores_of_their_own_and_share_nodes_evenly() {
    let mut world = world(SERVERS, &[HOG], vec![TaskSpec::default(); 16], |_| ());
    let (shares, _) = measured(&mut world, 10, 300);
    let cores: BTreeSet<u32> = (0..16).map(|task| world.cpu_of(task) / 2).collect();
    assert_eq!(cores.len(), 16, "{cores:?}");
    assert!(shares.iter().all(|share| *share > 0.99), "{shares:?}");

    let mut world = self::world(SERVERS, &[HOG], vec![TaskSpec::default(); 2], |_| ());
    measured(&mut world, 10, 20);
    assert_ne!(world.cpu_of(0) / 16, world.cpu_of(1) / 16, "two tasks on two nodes");
}

/// Its last CPU is taken when it wakes up: it goes to another core of the same last level cache, and stays there.
#[test]
fn who_wakes_up_stays_near_its_last_cpu() {
    let sleeper: &[Op] = &[Op::Compute(Span::Fixed(MS / 2)), Op::Sleep(Span::Fixed(MS)), Op::Jump(0)];
    let brief: &[Op] = &[Op::Compute(Span::Fixed(10 * MS))];
    let late: &[Op] = &[Op::Sleep(Span::Fixed(20 * MS)), Op::Compute(Span::Fixed(MS)), Op::Jump(1)];
    for smt in [1, 2] {
        let topology = Topology { smt, cores: 4, llcs: 2, nodes: 1 };
        let of_llc = 4 * smt;
        // The first last level cache is full when it begins, and free later on.
        let fifo =
            |program, cpu| TaskSpec { program, pinned: Some(cpu), policy: Policy::Fifo(1), ..TaskSpec::default() };
        let mut tasks: Vec<TaskSpec> = (0..of_llc).map(|cpu| fifo(1, cpu)).collect();
        let number = tasks.len() as u32;
        tasks.push(TaskSpec { program: 0, ..TaskSpec::default() });
        let programs = [sleeper, brief, late];
        let mut alone = world(topology, &programs, tasks.clone(), |_| ());
        alone.run_until(15 * MS);
        let home = alone.cpu_of(number);
        assert_eq!(home / of_llc, 1, "it began where there was room");
        tasks.push(fifo(2, home));
        let mut taken = world(topology, &programs, tasks, |_| ());
        taken.run_until(15 * MS);
        assert_eq!(taken.cpu_of(number), home);
        let (shares, seen) = measured(&mut taken, 40, 240);
        let now = taken.cpu_of(number);
        assert!(now / of_llc == 1 && now / smt != home / smt, "from cpu {home} to {now}");
        assert!((0.28..0.34).contains(&shares[number as usize]), "{shares:?}");
        assert_eq!(seen.roles[0].migrations, 0, "it has a place");
    }
}

/// Many timers expire at the same time: each wakes a task, and no CPU is sent two while another one has none.
#[test]
fn tasks_that_wake_up_together_go_to_cpus_of_their_own() {
    let topology = Topology { smt: 1, cores: 16, llcs: 1, nodes: 1 };
    let sleeper: &[Op] = &[Op::Compute(Span::Fixed(MS / 10)), Op::Sleep(Span::Fixed(MS)), Op::Jump(0)];
    let mut world = world(topology, &[sleeper], vec![TaskSpec::default(); 16], |_| ());
    world.run_until(5 * MS);
    let waited_ns = world.close().roles[0].waited.range_ns().expect("they waited").1;
    assert!(waited_ns < 10_000, "no task is sent where another one is on its way: {waited_ns} ns");
    let (_, seen) = measured(&mut world, 10, 500);
    let waited_ns = seen.roles[0].waited.quantile_ns(0.999).expect("they waited");
    assert!(waited_ns < 10_000, "{waited_ns} ns");
}

/// Half of the tasks end, wherever they are: the others spread.
#[test]
fn idle_cpus_pull_what_waits() {
    let short: &[Op] = &[Op::Compute(Span::Fixed(30 * MS))];
    let tasks: Vec<TaskSpec> =
        (0..32).map(|n| TaskSpec { program: u32::from(n % 3 == 0 || n > 24), ..TaskSpec::default() }).collect();
    let left = tasks.iter().filter(|t| t.program == 0).count();
    assert!(left <= 16);
    let topology = Topology { smt: 1, cores: 8, llcs: 2, nodes: 1 };
    let mut world = world(topology, &[HOG, short], tasks.clone(), |_| ());
    let (shares, _) = measured(&mut world, 150, 400);
    for (task, share) in tasks.iter().zip(&shares).filter(|(task, _)| task.program == 0) {
        assert!(*share > 0.99, "{task:?} {share}: {shares:?}");
    }
}

/// A task that ran just now is hot: a CPU that becomes idle leaves it where it is until it has tried some ticks long.
#[test]
fn hot_tasks_are_pulled_late() {
    let topology = Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 };
    let brief: &[Op] = &[Op::Compute(Span::Fixed(50 * MS))];
    let pinned = TaskSpec { program: 1, pinned: Some(1), ..TaskSpec::default() };
    let tasks = vec![pinned, pinned, TaskSpec::default(), TaskSpec::default()];
    let idle_ns = |cost_ns: u64| {
        let mut world = world(topology, &[HOG, brief], tasks.clone(), |k| k.migration_cost_ns = cost_ns);
        let (shares, seen) = measured(&mut world, 50, 250);
        assert!(shares[2] > 0.5 && shares[3] > 0.5, "{shares:?}");
        seen.idle_ns
    };
    let (cold, hot) = (idle_ns(0), idle_ns(100 * MS));
    println!("idle for {cold} ns where nothing is hot, for {hot} ns where it is");
    assert!(cold < MS / 10 && (MS..10 * MS).contains(&hot), "{cold} {hot}");
}

/// A real-time task that is preempted goes to a CPU that runs a fair one.
#[test]
fn real_time_tasks_are_pushed() {
    let periodic: &[Op] = &[Op::Compute(Span::Fixed(MS)), Op::Sleep(Span::Fixed(MS)), Op::Jump(0)];
    let topology = Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 };
    let tasks = vec![
        TaskSpec { policy: Policy::Fifo(1), ..TaskSpec::default() },
        TaskSpec { program: 1, policy: Policy::Fifo(50), pinned: Some(0), ..TaskSpec::default() },
        TaskSpec { program: 1, policy: Policy::Fifo(50), pinned: Some(1), ..TaskSpec::default() },
        TaskSpec::default(),
    ];
    let mut world = world(topology, &[HOG, periodic], tasks, |_| ());
    let (shares, _) = measured(&mut world, 100, 1_100);
    // The pinned ones take half of each CPU, both at the same times or not: what is left on one of them is its own.
    let left: f64 = 2.0 - shares[1] - shares[2];
    assert!(shares[0] > left - 0.55 && shares[0] > shares[3], "{shares:?}");
}
