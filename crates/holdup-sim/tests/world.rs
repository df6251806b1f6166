//! The machine at work.

use holdup_sim::machine::{Costs, Kernel, Machine, Topology};
use holdup_sim::preempt;
use holdup_sim::sched::eevdf::Features;
use holdup_sim::workloads::lock_contention::{Setup, load};
use holdup_sim::world::World;

fn machine(cpus: u32, model: &str) -> Machine {
    Machine {
        topology: Topology { smt: 1, cores: cpus, llcs: 1, nodes: 1 },
        costs: Costs {
            switch_ns: 1500,
            syscall_ns: 150,
            wake_ns: 800,
            ipi_ns: 900,
            ipi_send_ns: 100,
            idle_exit_ns: 2000,
            interrupt_ns: 700,
            tick_ns: 1500,
            fault_ns: 600,
            huge_fault_ns: 60_000,
            touch_ns: 3,
            forget_ns: 30,
            atomic_ns: 8,
            transfer_ns: [0, 20, 60, 120, 250],
            spin_ns: 40,
            contender_ns: 30,
            timer_slack_ns: 50_000,
        },
        kernel: Kernel {
            preempt: preempt::find(model).expect("a model"),
            hz: 250,
            fair: Features {
                place_lag: true,
                place_deadline_initial: true,
                run_to_parity: true,
                preempt_short: true,
                delay_dequeue: true,
                wakeup_preemption: true,
                base_slice_ns: 2_800_000,
                tick_ns: 4_000_000,
            },
            migration_cost_ns: 500_000,
            slice_extension_ns: 0,
        },
    }
}

#[test]
fn every_lock_works_under_every_model() {
    for algorithm in holdup_sim::locks::catalogue().map(|meta| meta.id) {
        for model in preempt::ALL {
            for (cpus, workers) in [(1, 1), (2, 5), (4, 12)] {
                let setup = Setup {
                    workers,
                    algorithm,
                    section_ns: 1000,
                    think_ns: 1000,
                    processes: true,
                    faults: 1,
                    huge: false,
                    pin: false,
                };
                let mut world = World::new(&machine(cpus, model.meta.id), &load(&setup, cpus), 1);
                world.run_until(10_000_000);
                world.open();
                world.run_until(110_000_000);
                let seen = world.close();
                assert!(seen.marks[0].count > 10, "{algorithm} {}: {}", model.meta.id, seen.marks[0].count);
            }
        }
    }
}
