//! How fast whole machines run: events per second, simulated time per CPU time, and memory per task.
//!
//! `cargo bench -p holdup-sim --bench machine [-- --seconds S | --simulated MS] [--load LOAD] [--cpus N] [--seen]`. With
//! `--simulated` each machine runs for exactly as long in its own time and no clock is read, so that instructions can be
//! counted (`valgrind --tool=callgrind`) and compared; with `--seen` all that was seen is printed, to be held against
//! another version's. The loads are those of `lock-contention` with four tasks per CPU on machines of 2 to 1,024 CPUs, where the cost of an event must grow no
//! faster than the logarithm of their number, and pgbench on the machines of two cases. `crowded` tasks think as long as
//! their section is, so that all wait for one lock; `spread` ones so long that the lock is taken three quarters of the
//! time. The clock is the thread's CPU time.
//!
//! `cargo bench -p holdup-sim --bench machine -- --curve [--rounds N]` measures what an event costs on machines of 2 to
//! 1,024 CPUs under `pgbench select-only`, whose events per CPU stay the same, with four clients and a thread of pgbench
//! for each CPU and with as many tasks on each machine, round after round, and prints CSV: a line for each machine with
//! the median of the rounds, which `cargo xtask curve` draws. With `--tasks N` beside `--cpus` one of them runs alone.
//!
//! `-- --parallel [--rounds N]` lets two threads and one simulate machines of their own in turns, and prints how many
//! times as much the two get done.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

use holdup_sim::machine::{Costs, Kernel, Machine, Topology, catalogue};
use holdup_sim::preempt;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::workloads::{self, Files, Levels};
use holdup_sim::world::{Load, World};
use rustix::time::{ClockId, clock_gettime};

/// Two-threaded cores but for the smallest, in caches and nodes as servers of that size have them.
const TOPOLOGIES: [Topology; 6] = [
    Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 4, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 16, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 8, llcs: 3, nodes: 2 },
    Topology { smt: 2, cores: 8, llcs: 6, nodes: 2 },
    Topology { smt: 2, cores: 16, llcs: 8, nodes: 4 },
];

fn machine(topology: Topology) -> Machine {
    Machine {
        topology,
        costs: Costs::DEFAULT,
        kernel: Kernel::of("6.18", preempt::find("lazy").expect("a model"), 250, topology.cpus()).expect("a kernel"),
    }
}

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const SECTION_NS: u64 = 1_000;
/// Simulated time before the measurement, and measured at least, ns.
const WARM_UP_NS: u64 = 20_000_000;
const STEP_NS: u64 = 1_000_000;
/// CPU time of a point of the curve in one round at least, s.
const POINT_S: f64 = 0.1;
/// The tasks of the curve's machines that all have as many.
const AS_MANY: u32 = 4_096;

fn contention(algorithm: &'static str, spread: bool, cpus: u32) -> Load {
    contention_of(algorithm, spread, cpus, 4 * cpus)
}

fn contention_of(algorithm: &'static str, spread: bool, cpus: u32, workers: u32) -> Load {
    let setup = Setup {
        workers,
        algorithm,
        section_ns: SECTION_NS,
        // As many tasks as there are CPUs run at the same time.
        think_ns: if spread { SECTION_NS * u64::from(cpus) * 4 / 3 } else { SECTION_NS },
        processes: true,
        faults: 0,
        touches_before: false,
        huge: false,
        pin: false,
    };
    load(&setup, cpus)
}

fn pgbench(script: &str, clients: u32, machine: &Machine) -> Load {
    pgbench_of(script, clients, machine.topology.cpus(), machine)
}

fn pgbench_of(script: &str, clients: u32, threads: u32, machine: &Machine) -> Load {
    let mut parameters = holdup_catalogue::defaults(holdup_catalogue::pgbench::Parameters::ALL, 1);
    parameters.set("script", script);
    let (clients, threads) = (i64::from(clients), i64::from(threads.max(1)));
    for (name, value) in [("clients", clients), ("threads", threads), ("scale", 1000)] {
        parameters.set(name, value);
    }
    let pgbench = workloads::find("pgbench").expect("the workload");
    pgbench.load(&parameters, &Levels::default(), machine, &Files::default()).expect("a load")
}

/// How long a machine is measured.
#[derive(Clone, Copy)]
enum Length {
    /// So much CPU time, s.
    Spent(f64),
    /// So much simulated time, ns.
    Simulated(u64),
}

/// How machines are measured.
#[derive(Clone, Copy)]
struct How {
    length: Length,
    prints_seen: bool,
}

fn measure(name: &str, machine: &Machine, load: &Load, how: How) {
    let mut world = World::new(machine, load, 1);
    world.run_until(WARM_UP_NS);
    world.open();
    let from = world.now_ns();
    let spent = match how.length {
        Length::Spent(seconds) => {
            let begun = cpu_s();
            loop {
                world.run_until(world.now_ns() + STEP_NS);
                let spent = cpu_s() - begun;
                if spent >= seconds {
                    break Some(spent);
                }
            }
        }
        Length::Simulated(ns) => {
            world.run_until(from + ns);
            None
        }
    };
    let simulated = (world.now_ns() - from) as f64 / 1e9;
    let seen = world.close();
    let rates = spent.map_or_else(String::new, |spent| {
        format!(
            "{:7.2} M events/s {:7.1} ns per event {:6.2} M switches and wake-ups/s {:9.3} of real time ",
            seen.events as f64 / spent / 1e6,
            spent * 1e9 / seen.events as f64,
            (seen.switches + seen.wakeups) as f64 / spent / 1e6,
            simulated / spent,
        )
    });
    let operations = seen.marks[0].count as f64;
    println!(
        "{name:<24}{:5} CPUs {rates}{:10.0} operations/s {:6.1} events each",
        machine.topology.cpus(),
        operations / simulated,
        seen.events as f64 / operations,
    );
    if how.prints_seen {
        println!("{seen:?}");
    }
}

/// A machine with this number of CPUs, a power of two, in caches and nodes as large servers have them.
fn machine_of(cpus: u32) -> Machine {
    let smt = if cpus > 2 { 2 } else { 1 };
    let cores = (cpus / smt).min(8);
    let llcs = (cpus / smt / cores).min(8);
    machine(Topology { smt, cores, llcs, nodes: cpus / smt / cores / llcs })
}

/// What an event costs, ns of CPU time.
fn ns_per_event(machine: &Machine, load: &Load) -> f64 {
    let mut world = World::new(machine, load, 1);
    world.run_until(WARM_UP_NS);
    world.open();
    let begun = cpu_s();
    let mut spent = 0.0;
    while spent < POINT_S {
        world.run_until(world.now_ns() + STEP_NS / 4);
        spent = cpu_s() - begun;
    }
    spent * 1e9 / world.close().events as f64
}

/// The load of the curve: four fifths of the tasks are backends, each for a client, the others threads of pgbench.
const CURVE: &str = "pgbench select-only";

fn point(machine: &Machine, tasks: u32) -> Load {
    pgbench_of("select-only", tasks * 4 / 5, tasks / 5, machine)
}

fn curve(rounds: usize) {
    let mut points = Vec::new();
    for grows in [true, false] {
        for cpus in (1..=10).map(|doublings| 1 << doublings) {
            points.push((grows, cpus, if grows { 5 * cpus } else { AS_MANY }, Vec::new()));
        }
    }
    for _ in 0..rounds {
        for (_, cpus, tasks, measured) in &mut points {
            let machine = machine_of(*cpus);
            measured.push(ns_per_event(&machine, &point(&machine, *tasks)));
        }
    }
    println!("tasks,cpus,number_of_tasks,ns_per_event_median,ns_per_event_least");
    for (grows, cpus, number, mut measured) in points {
        measured.sort_by(f64::total_cmp);
        let tasks = if grows { "5 tasks for each CPU".to_owned() } else { format!("{AS_MANY} tasks") };
        println!("{tasks},{cpus},{number},{:.1},{:.1}", measured[measured.len() / 2], measured[0]);
    }
}

/// How long this number of threads take for the same work each, s of real time.
fn together_s(threads: u64) -> f64 {
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for seed in 0..threads {
            scope.spawn(move || {
                let machine = catalogue::find("graviton4-96").expect("a machine").machine;
                let mut world = World::new(&machine, &pgbench("simple-update", 1024, &machine), seed);
                world.run_until(10 * WARM_UP_NS);
                world.close().events
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

fn parallel(rounds: usize) {
    let mut ratios: Vec<f64> = (0..rounds).map(|_| 2.0 * together_s(1) / together_s(2)).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios[0], ratios[rounds - 1]);
    println!(
        "two threads do {:.2} times as much as one (median of {rounds}, {least:.2} to {most:.2})",
        ratios[rounds / 2]
    );
}

/// What this process has in memory, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * rustix::param::page_size() as u64
}

fn memory() {
    let cpus = 1024;
    let (few, many) = (contention("tas", true, cpus), contention("tas", true, 64 * cpus));
    let mut last = resident();
    let mut grown = Vec::new();
    for load in [&few, &many] {
        let machine = machine(TOPOLOGIES[5]);
        let mut world = World::new(&machine, load, 1);
        world.run_until(load.tasks.len() as u64 * 2_000);
        let now = resident();
        grown.push(now.saturating_sub(last));
        last = now;
        // It must stay in memory until the next one is built: what it frees would be used again.
        std::mem::forget(world);
    }
    let tasks = (many.tasks.len() - few.tasks.len()) as f64;
    println!("memory: {:.0} bytes per task", (grown[1] as f64 - grown[0] as f64) / tasks);
}

fn main() {
    let value = |name: &str| std::env::args().skip_while(|a| a != name).nth(1);
    let seconds = value("--seconds").and_then(|s| s.parse().ok()).unwrap_or(0.5);
    let rounds = value("--rounds").and_then(|n| n.parse().ok()).unwrap_or(7).max(1);
    let length = value("--simulated").and_then(|ms| ms.parse::<u64>().ok());
    let how = How {
        length: length.map_or(Length::Spent(seconds), |ms| Length::Simulated(ms * 1_000_000)),
        prints_seen: std::env::args().any(|a| a == "--seen"),
    };
    let (only_load, only_cpus) = (value("--load"), value("--cpus").and_then(|n| n.parse::<u32>().ok()));
    if std::env::args().any(|a| a == "--curve") {
        return curve(rounds);
    }
    if std::env::args().any(|a| a == "--parallel") {
        return parallel(rounds);
    }
    if let (Some(cpus), Some(Ok(tasks))) = (only_cpus, value("--tasks").map(|n| n.parse())) {
        let machine = machine_of(cpus);
        return measure(CURVE, &machine, &point(&machine, tasks), how);
    }
    let is_wanted = |name: &str, cpus: u32| {
        only_load.as_ref().is_none_or(|only| only == name) && only_cpus.is_none_or(|only| only == cpus)
    };
    for algorithm in ["tas", "postgres-s-lock", "futex-mutex"] {
        for spread in [true, false] {
            let name = format!("{algorithm} {}", if spread { "spread" } else { "crowded" });
            for topology in TOPOLOGIES.iter().filter(|t| is_wanted(&name, t.cpus())) {
                measure(&name, &machine(*topology), &contention(algorithm, spread, topology.cpus()), how);
            }
        }
    }
    for script in ["select-only", "simple-update", "tpcb-like"] {
        let name = format!("pgbench {script}");
        for (model, clients) in [("graviton4-96", 1024), ("neoverse-v3-192", 2000)] {
            let machine = catalogue::find(model).expect("a machine").machine;
            if is_wanted(&name, machine.topology.cpus()) {
                measure(&name, &machine, &pgbench(script, clients, &machine), how);
            }
        }
    }
    if is_wanted("memory", TOPOLOGIES[5].cpus()) {
        memory();
    }
}
