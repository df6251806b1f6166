//! Interrupts from CPU to CPU.

use super::bench::{beside, each_ns, ok, on_cpu, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub(super) const COST: Cost = Cost {
    name: "ipi_ns",
    docs: "membarrier(2) while a thread spins on a second CPU, which gets an interrupt and acknowledges it, less the same \
           call without that thread; sending, arrival and the acknowledgement's way back",
    measure,
};

/// MEMBARRIER_CMD_PRIVATE_EXPEDITED of linux/membarrier.h.
const BARRIER: libc::c_long = 1 << 3;
/// MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED.
const REGISTER: libc::c_long = 1 << 4;

/// Asks the kernel for [`barrier`].
///
/// # Errors
/// When the kernel has no such thing (before 4.14, or without CONFIG_MEMBARRIER).
pub(super) fn register() -> Result<(), Problem> {
    // SAFETY: takes numbers only.
    ok("membarrier", unsafe { libc::syscall(libc::SYS_membarrier, REGISTER, 0, 0) }).map(drop)
}

/// Interrupts every CPU on which another thread of the process runs.
pub(super) fn barrier() {
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, BARRIER, 0, 0) };
}

fn measure(context: &Context) -> Result<Samples, Problem> {
    let (cpu, other) = context.two_cpus()?;
    register()?;
    let alone_ns = on_cpu(cpu, || Ok(quiet((0..200).map(|_| each_ns(20, barrier)).collect()).unwrap_or_default()))?;
    let turns = AtomicU32::new(0);
    let spins = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            turns.fetch_add(1, Ordering::Relaxed);
            std::hint::spin_loop();
        }
    };
    beside((cpu, &[other]), &spins, &|| (), || {
        repeats("interrupts between CPUs", || {
            let mut pieces = Vec::with_capacity(100);
            for _ in 0..100 {
                let before = turns.load(Ordering::Relaxed);
                let ns = each_ns(10, barrier);
                // A thread that does not run gets no interrupt; one that runs counts on between them.
                if turns.load(Ordering::Relaxed).wrapping_sub(before) >= 10 {
                    pieces.push(ns - alone_ns);
                }
            }
            Ok(quiet(pieces))
        })
    })
}
