//! Switching from one process to another.

use super::bench::{Child, each_ns, on_cpu, pieces_ns, read_byte, refused, repeats, write_byte};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::os::fd::{AsRawFd, OwnedFd};

pub(super) const COST: Cost = Cost {
    name: "switch_ns",
    docs: "half of a round of one byte through two pipes between two processes on one CPU, less a write and a read that \
           no thread waits for and less wake_ns; 40 pieces of 10 rounds",
    measure,
};

fn pipe() -> Result<(OwnedFd, OwnedFd), Problem> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| refused("a pipe")(e.into()))
}

fn measure(context: &Context) -> Result<Samples, Problem> {
    let wake_ns = context.known("wake_ns")?;
    on_cpu(context.cpu()?, || {
        let (ask, answer, own) = (pipe()?, pipe()?, pipe()?);
        let (asked, answers) = (ask.0.as_raw_fd(), answer.1.as_raw_fd());
        let _child = Child::that(|| while read_byte(asked) && write_byte(answers) {})?;
        let (asks, answered) = (ask.1.as_raw_fd(), answer.0.as_raw_fd());
        let (own_in, own_out) = (own.1.as_raw_fd(), own.0.as_raw_fd());
        repeats("switches", || {
            let mut whole = true;
            let alone = quiet(pieces_ns(40, 10, || whole &= write_byte(own_in) && read_byte(own_out)));
            let round = || whole &= write_byte(asks) && read_byte(answered);
            let mut round = round;
            let rounds = quiet((0..40).map(|_| each_ns(10, &mut round)).collect());
            let both = rounds.zip(alone).filter(|_| whole);
            Ok(both.map(|(round_ns, alone_ns)| round_ns / 2.0 - alone_ns - wake_ns))
        })
    })
}
