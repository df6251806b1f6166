//! How fast whole machines run: events per second, and simulated time per CPU time, from 2 to 1,024 CPUs.
//!
//! `cargo bench -p holdup-sim --bench machine [-- --seconds S] [--load LOAD] [--cpus N]`. The loads are those of
//! `lock-contention` with four tasks per CPU; `crowded` ones think as long as their section is, so that all wait for one
//! lock, `spread` ones think so long that the lock is taken three quarters of the time. The clock is the thread's CPU
//! time.
#![expect(clippy::print_stdout, reason = "a bench tells its result")]

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::World;
use rustix::time::{ClockId, clock_gettime};

/// Two-threaded cores but for the smallest; what servers of that size look like.
const TOPOLOGIES: [Topology; 6] = [
    Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 4, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 16, llcs: 1, nodes: 1 },
    Topology { smt: 2, cores: 8, llcs: 3, nodes: 2 },
    Topology { smt: 2, cores: 8, llcs: 6, nodes: 2 },
    Topology { smt: 2, cores: 16, llcs: 8, nodes: 4 },
];

fn machine(topology: Topology) -> Machine {
    let model = preempt::find("lazy").expect("a model");
    let kernel = Kernel::of("6.18", model, 250, topology.cpus()).expect("a kernel");
    Machine { topology, costs: Costs::DEFAULT, kernel }
}

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

const SECTION_NS: u64 = 1_000;
/// Simulated time before the measurement, and at least measured at once, ns.
const WARM_UP_NS: u64 = 20_000_000;
const STEP_NS: u64 = 1_000_000;

fn measure(name: &str, algorithm: &'static str, spread: bool, topology: Topology, seconds: f64) {
    let cpus = topology.cpus();
    let workers = 4 * cpus;
    let setup = Setup {
        workers,
        algorithm,
        section_ns: SECTION_NS,
        // What runs at once is one task per CPU: the lock is taken three quarters of the time.
        think_ns: if spread { SECTION_NS * u64::from(cpus) * 4 / 3 } else { SECTION_NS },
        processes: true,
        faults: 0,
        huge: false,
        pin: false,
    };
    let mut world = World::new(&machine(topology), &load(&setup, cpus), 1);
    world.run_until(WARM_UP_NS);
    world.open();
    let (begun, from) = (cpu_s(), world.now_ns());
    let mut spent = 0.0;
    while spent < seconds {
        world.run_until(world.now_ns() + STEP_NS);
        spent = cpu_s() - begun;
    }
    let simulated = (world.now_ns() - from) as f64 / 1e9;
    let seen = world.close();
    let million = |n: u64| n as f64 / spent / 1e6;
    println!(
        "{name:<24} {cpus:5} CPUs  {:7.2} M events/s  {:6.1} ns per event  {:7.2} M switches and wake-ups/s  {:8.4} of \
         real time  {:8.2} M sections/s simulated",
        million(seen.events),
        spent * 1e9 / seen.events as f64,
        million(seen.switches + seen.wakeups),
        simulated / spent,
        seen.marks[0].count as f64 / simulated / 1e6,
    );
}

fn main() {
    let value = |name: &str| std::env::args().skip_while(|a| a != name).nth(1);
    let seconds = value("--seconds").and_then(|s| s.parse().ok()).unwrap_or(0.5);
    let (only_load, only_cpus) = (value("--load"), value("--cpus").and_then(|n| n.parse::<u32>().ok()));
    for algorithm in ["tas", "postgres-s-lock", "futex-mutex"] {
        for spread in [true, false] {
            let name = format!("{algorithm} {}", if spread { "spread" } else { "crowded" });
            if only_load.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            for topology in TOPOLOGIES.iter().filter(|t| only_cpus.is_none_or(|only| t.cpus() == only)) {
                measure(&name, algorithm, spread, *topology, seconds);
            }
        }
    }
}
