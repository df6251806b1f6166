//! What the workers of both ends count, in memory that they share with the coordinator.

use holdup_load::board::{Board, CachePadded, Shareable};
use holdup_load::record::Record;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Adds to what only one worker writes: no locked instruction is needed.
#[inline(always)]
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// One direction of one side of a connection.
#[repr(C)]
pub(crate) struct Side {
    pub(crate) bytes: AtomicU64,
    /// Whole transfers; of UDP datagrams.
    pub(crate) transfers: AtomicU64,
    /// Set when nothing more will be counted.
    pub(crate) done: AtomicU32,
}

/// What went over one connection; the sides are written by different workers.
#[repr(C)]
pub(crate) struct Flow {
    pub(crate) sent: CachePadded<Side>,
    pub(crate) received: CachePadded<Side>,
}

/// One worker. It alone writes.
#[repr(C)]
pub(crate) struct Worker {
    /// How long transfers took whose last byte came in the window.
    pub(crate) latency: Record,
    /// Its thread, for its CPU clock.
    pub(crate) tid: AtomicI32,
    /// Why it gave up; 0 when it did not. See [`Failure`].
    failure: AtomicU64,
}

// SAFETY: atomics.
unsafe impl Shareable for Flow {}
// SAFETY: atomics.
unsafe impl Shareable for Worker {}

/// One slot for each connection.
pub(crate) type Flows = Board<(), Flow>;
/// One slot for each worker, those of the client first, and the stage.
pub(crate) type Workers = Board<(), Worker>;

/// What a worker could not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    Placement = 1,
    Wait,
    Send,
    Receive,
    /// A connection ended although its sender was not done.
    Early,
    /// More was received than was sent.
    Stranger,
}

/// Why a worker gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) what: What,
    pub(crate) connection: u32,
    pub(crate) errno: u16,
}

impl Failure {
    pub(crate) fn new(what: What, connection: usize, error: &io::Error) -> Self {
        let errno = error.raw_os_error().and_then(|e| u16::try_from(e).ok()).unwrap_or(libc::EIO as u16);
        Failure { what, connection: connection as u32, errno }
    }

    /// In words, without the worker.
    fn in_words(self) -> String {
        let why = io::Error::from_raw_os_error(i32::from(self.errno));
        let connection = self.connection;
        match self.what {
            What::Placement => format!("may not run on its CPUs: {why}"),
            What::Wait => format!("cannot wait for its connections: {why}"),
            What::Send => format!("cannot send over connection {connection}: {why}"),
            What::Receive => format!("cannot receive over connection {connection}: {why}"),
            What::Early => format!("saw connection {connection} end before its sender was done"),
            What::Stranger => format!("got more over connection {connection} than was sent"),
        }
    }
}

const WHATS: [What; 6] = [What::Placement, What::Wait, What::Send, What::Receive, What::Early, What::Stranger];

impl Worker {
    pub(crate) fn give_up(&self, failure: Failure) {
        let packed = (failure.what as u64) << 48 | u64::from(failure.errno) << 32 | u64::from(failure.connection);
        self.failure.store(packed, Ordering::Release);
    }

    /// Why it gave up, in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let packed = self.failure.load(Ordering::Acquire);
        let what = *WHATS.get(((packed >> 48) as usize).checked_sub(1)?)?;
        Some(Failure { what, connection: packed as u32, errno: (packed >> 32) as u16 }.in_words())
    }

    /// See [`cpu_ns`].
    pub(crate) fn cpu_ns(&self, processes: bool) -> Option<u64> {
        cpu_ns(self.tid.load(Ordering::Acquire), processes)
    }
}

/// CPU time of a worker since its begin, ns, read from outside; `None` before that and when it is not there any more.
///
/// The clock of a thread or process other than the own one is named by its complement (`include/linux/posix-timers.h`
/// `make_thread_cpuclock`, `kernel/time/posix-cpu-timers.c`, v6.18); it counts what getrusage(2) does, in ns.
pub(crate) fn cpu_ns(tid: i32, processes: bool) -> Option<u64> {
    const SCHED: i32 = 2;
    const PER_THREAD: i32 = 4;
    if tid == 0 {
        return None;
    }
    let clock = (!tid << 3) | SCHED | if processes { 0 } else { PER_THREAD };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let got = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (got == 0).then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_through_the_board_as_it_was() {
        let workers = Workers::new(1).expect("maps");
        let worker = workers.slot(0);
        assert_eq!(worker.failure(), None);
        for what in WHATS {
            let error = io::Error::from_raw_os_error(libc::EPIPE);
            let failure = Failure::new(what, 4_000_000_000, &error);
            worker.give_up(failure);
            assert_eq!(worker.failure(), Some(failure.in_words()));
        }
    }

    #[test]
    fn the_cpu_time_of_a_thread_is_read_by_another() {
        let workers = Workers::new(1).expect("maps");
        let worker = workers.slot(0);
        assert_eq!(worker.cpu_ns(false), None, "it has not begun");
        std::thread::scope(|scope| {
            let (done, wait) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let mut sum = 0u64;
                for i in 0..2_000_000u64 {
                    sum = std::hint::black_box(sum + i);
                }
                worker.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
                let _ended = wait.recv();
            });
            let ns = loop {
                match worker.cpu_ns(false) {
                    Some(ns) => break ns,
                    None => std::thread::yield_now(),
                }
            };
            assert!(ns > 100_000, "{ns} ns for two million additions");
            drop(done);
        });
    }
}
