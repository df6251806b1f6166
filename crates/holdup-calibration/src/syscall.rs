//! A system call that does nothing.

use super::bench::{getppid, on_cpu, pieces_ns, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "syscall_ns",
    docs: "getppid(2) by raw system call, 40 pieces of 500 calls; its own work of some ns is part of it",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    on_cpu(context.cpu()?, || repeats("system calls", || Ok(quiet(pieces_ns(40, 500, getppid)))))
}
