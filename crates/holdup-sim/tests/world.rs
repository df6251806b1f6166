//! The machine at work.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::World;

fn machine(cpus: u32, model: &str) -> Machine {
    Machine {
        topology: Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 },
        costs: Costs::DEFAULT,
        kernel: Kernel::of("6.18", preempt::find(model).expect("a model"), 250, cpus).expect("a kernel"),
    }
}

#[test]
fn every_lock_works_under_every_model() {
    for algorithm in holdup_sim::locks::ids() {
        for model in preempt::ALL {
            for (cpus, workers) in [(1, 1), (2, 5), (4, 12)] {
                let setup = Setup {
                    workers,
                    algorithm,
                    section_ns: 1000,
                    think_ns: 1000,
                    processes: true,
                    faults: 1,
                    touches_before: false,
                    huge: false,
                    pin: false,
                };
                let mut world = World::new(&machine(cpus, model.id), &load(&setup, cpus), 1);
                world.run_until(10_000_000);
                world.open();
                world.run_until(110_000_000);
                let seen = world.close();
                assert!(seen.marks[0].count > 10, "{algorithm} {}: {}", model.id, seen.marks[0].count);
            }
        }
    }
}
