//! Making a process.

use super::bench::{Child, on_cpu, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_load::clock::now_ns;
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "fork_ns",
    docs: "fork(2) until it returns in the parent, less syscall_ns, 6 in a repeat; of holdup's own memory, which is some MB: \
           a larger process takes longer",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    let syscall_ns = context.known("syscall_ns")?;
    on_cpu(context.cpu()?, || {
        repeats("processes", || {
            let mut pieces = Vec::with_capacity(6);
            for _ in 0..6 {
                let begin = now_ns();
                let child = Child::that(|| ())?;
                pieces.push((now_ns() - begin) as f64 - syscall_ns);
                drop(child);
            }
            Ok(quiet(pieces))
        })
    })
}
