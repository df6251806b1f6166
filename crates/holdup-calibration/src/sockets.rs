//! A pair of connected sockets.

use super::bench::{each_ns, on_cpu, refused, repeats};
use super::samples::quiet;
use super::{Context, Samples};
use holdup_model::Problem;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Bytes of a message, about those of a small statement.
const BYTES: usize = 64;
/// Messages that are under way at the same time, far fewer than a socket holds.
const MESSAGES: u32 = 16;

/// What sending and what taking a message took, ns.
pub(super) struct Times {
    pub(super) send_ns: f64,
    /// Taking it out.
    pub(super) receive_ns: f64,
}

/// The samples of one of both, less the system call.
pub(super) fn measure(context: &Context, which: fn(&Times) -> f64) -> Result<Samples, Problem> {
    let syscall_ns = context.known("syscall_ns")?;
    on_cpu(context.cpu()?, || {
        let (mut sender, mut receiver) = UnixStream::pair().map_err(refused("a pair of sockets"))?;
        let mut bytes = [1u8; BYTES];
        repeats("messages", || {
            let mut pieces = Vec::with_capacity(60);
            for _ in 0..60 {
                let mut result = Ok(());
                let send_ns = each_ns(MESSAGES, || {
                    if let Err(e) = sender.write_all(&bytes) {
                        result = Err(e);
                    }
                });
                result.map_err(refused("a message"))?;
                let mut result = Ok(());
                let receive_ns = each_ns(MESSAGES, || {
                    if let Err(e) = receiver.read_exact(&mut bytes) {
                        result = Err(e);
                    }
                });
                result.map_err(refused("a message"))?;
                pieces.push(which(&Times { send_ns, receive_ns }) - syscall_ns);
            }
            Ok(quiet(pieces))
        })
    })
}
