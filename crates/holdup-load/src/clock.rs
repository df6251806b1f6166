//! The clocks of load engines.
//!
//! Our own, because `std::time::Instant` cannot be shared between processes as a number, and rustix does not take the vDSO.

use std::time::{SystemTime, UNIX_EPOCH};

/// CLOCK_MONOTONIC in ns: the same in threads and processes, read without a system call where the vDSO has it.
#[inline]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// CLOCK_REALTIME less CLOCK_MONOTONIC, ns: read between two readings of the other one.
pub fn unix_less_monotonic_ns() -> i64 {
    let before = now_ns();
    // A clock before 1970 is as wrong as one at 1970.
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let between = before + (now_ns() - before) / 2;
    i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX).saturating_sub_unsigned(between)
}

/// CPU time of the calling thread, user and system, ns: clock_gettime(2) CLOCK_THREAD_CPUTIME_ID.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
