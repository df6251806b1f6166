//! The few costs that a separate loop cannot measure as they are inside of a lock, chosen by cells.

use crate::{Cell, Host, cells, is_held_out, on_all_cpus, simulated};
use std::collections::BTreeMap;

/// What is chosen: faults cost more among other work than in a loop that does nothing else, an interrupt costs the CPU that sends
/// it an exit to the hypervisor in some guests, an idle CPU may halt; and how much the neighbours take.
const CHOSEN: &[&str] = &[
    "fault_ns",
    "ipi_send_ns",
    "idle_exit_ns",
    "transfer_core_ns",
    "wake_ns",
    "switch_ns",
    "forget_ns",
    "neighbour_runs_ns",
];
/// By what each cost is divided and multiplied, in one round after the other.
const ROUNDS: &[f64] = &[4.0, 2.0, 1.4, 1.2, 1.1];

fn place<'a>(host: &'a mut Host, name: &str) -> &'a mut u64 {
    if name == "neighbour_runs_ns" {
        return &mut host.neighbour_runs_ns;
    }
    host.machine.costs.place(name).expect("a cost")
}

/// The host with the costs that bring the cells nearest, and each cost before and after. Cells that are held out are not
/// looked at.
pub(crate) fn fit(alone: &Host, measured: &BTreeMap<Cell, f64>) -> (Host, Vec<(&'static str, u64, u64)>) {
    let held_in = cells().into_iter().enumerate().filter(|(number, _)| !is_held_out(*number)).map(|(_, cell)| cell);
    let chosen: Vec<Cell> = held_in.filter(|cell| measured.contains_key(cell)).collect();
    let error = |host: &Host| {
        let rates = on_all_cpus(&chosen, |cell| simulated(host, cell, 30, 1));
        let off = chosen.iter().zip(rates).map(|(cell, rate)| (rate.max(1.0) / measured[cell]).ln().abs());
        off.sum::<f64>() / chosen.len() as f64
    };
    let mut best = alone.clone();
    // None is no step away from any.
    best.neighbour_runs_ns = 100_000;
    let mut least = error(&best);
    for round in ROUNDS {
        for name in CHOSEN {
            for step in [*round, 1.0 / round] {
                let mut other = best.clone();
                let cost = place(&mut other, name);
                *cost = (*cost as f64 * step).round() as u64;
                let off = error(&other);
                if off < least {
                    (best, least) = (other, off);
                }
            }
        }
    }
    let chosen = CHOSEN.iter().map(|name| (*name, *place(&mut alone.clone(), name), *place(&mut best.clone(), name)));
    (best.clone(), chosen.collect())
}
