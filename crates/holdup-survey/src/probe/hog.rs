//! The task in the way: for one arrival it keeps a CPU busy in user mode, in page faults or in a long system call.
//!
//! Each arrival has its own thread: the idle policy, which a thread may not leave again without a right, is taken
//! only when the thread has its CPU. An idle thread would hardly ever get there on a busy one.

use super::calls::{Calls, Faults};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the hog does with its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It computes in user mode and enters the kernel only by interrupts.
    User,
    /// It touches fresh memory all the time.
    Faults,
    /// It makes one call of many ticks: a read far into `/proc/kallsyms`.
    Walk,
    /// It makes one shorter call: polls as many descriptors as it may.
    Poll,
}

/// What the hog reports while it works; `released` is written by the peer.
#[derive(Debug, Default)]
struct Shared {
    released: AtomicBool,
    refused: AtomicBool,
    /// The thread's id, 0 before it has begun.
    tid: AtomicI32,
    /// The hog's own CPU time when it began.
    begun_ns: AtomicU64,
    /// The time from `Hog::since` to its beginning.
    begun_after_ns: AtomicU64,
}

/// The hog's thread. It ends when released, at its deadline, and with the process.
#[derive(Debug)]
pub(super) struct Hog {
    shared: Arc<Shared>,
    since: Instant,
}

/// A hog that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    tid: i32,
    /// Its CPU time when it began.
    pub(super) cpu_ns: u64,
    /// When it began.
    pub(super) at: Instant,
}

impl Begun {
    /// CPU time of the hog in nanoseconds; `None` when it has ended.
    ///
    /// The clock's number is built as `MAKE_THREAD_CPUCLOCK` does (include/linux/posix-timers_types.h, v6.12); the
    /// kernel brings the sum of a running task up to date under its run queue's lock
    /// (kernel/sched/core.c:task_sched_runtime).
    pub(super) fn cpu_ns_now(&self) -> Option<u64> {
        const PER_THREAD_SCHED: libc::clockid_t = 4 | 2;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec, which lives until the call returns.
        let failed = unsafe { libc::clock_gettime((!self.tid << 3) | PER_THREAD_SCHED, &raw mut time) } != 0;
        if failed {
            return None;
        }
        Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
    }
}

impl Hog {
    /// Starts it for one arrival on one CPU; it computes for `warm_up` before it begins.
    pub(super) fn start(
        doing: Doing,
        calls: &Arc<Calls>,
        cpu: &CpuSet,
        warm_up: Duration,
        deadline: Instant,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let since = Instant::now();
        let (its, calls, cpu) = (Arc::clone(&shared), Arc::clone(calls), *cpu);
        std::thread::Builder::new()
            .name("holdup-probe-hog".to_owned())
            .stack_size(64 << 10)
            .spawn(move || {
                if sched_setaffinity(None, &cpu).is_err() || !become_idle() {
                    its.refused.store(true, Ordering::Release);
                    return;
                }
                let idle_since = Instant::now();
                while idle_since.elapsed() < warm_up {
                    std::hint::spin_loop();
                }
                its.begun_ns.store(super::own_cpu_ns(), Ordering::Relaxed);
                its.begun_after_ns.store(super::nanoseconds(since.elapsed()), Ordering::Relaxed);
                its.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
                work(doing, &its, &calls, deadline);
            })
            .map_err(|e| format!("no thread could be started: {e}"))?;
        Ok(Hog { shared, since })
    }

    /// Where and when it began, if it has.
    ///
    /// # Errors
    /// In words, when the kernel refuses the idle policy or the CPU.
    pub(super) fn begun(&self) -> Result<Option<Begun>, String> {
        if self.shared.refused.load(Ordering::Acquire) {
            return Err("the kernel refuses the idle policy or the CPU to a thread".to_owned());
        }
        let tid = self.shared.tid.load(Ordering::Acquire);
        let read = |what: &AtomicU64| what.load(Ordering::Relaxed);
        Ok((tid != 0).then(|| Begun {
            tid,
            cpu_ns: read(&self.shared.begun_ns),
            at: self.since + Duration::from_nanos(read(&self.shared.begun_after_ns)),
        }))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // Its end is not waited for: it may still have to get a CPU for that.
        self.shared.released.store(true, Ordering::Release);
    }
}

/// The idle policy, which anybody may take: a waking or arriving task of the ordinary policy preempts
/// it with any lags (kernel/sched/fair.c:check_preempt_wakeup_fair, v6.18).
fn become_idle() -> bool {
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one int as its `struct sched_param`, which lives until the call returns.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) >= 0 }
}

fn work(doing: Doing, shared: &Shared, calls: &Calls, deadline: Instant) {
    let goes_on = || !shared.released.load(Ordering::Acquire) && Instant::now() < deadline;
    match doing {
        Doing::User => {
            while goes_on() {
                for turn in 0..2_000_u32 {
                    std::hint::black_box(turn);
                }
            }
        }
        Doing::Faults => {
            let mut faults = Faults::default();
            while goes_on() {
                faults.touch();
            }
        }
        Doing::Walk => calls.walk(),
        Doing::Poll => calls.poll(),
    }
    // The peer reads this thread's CPU time, which ends with the thread.
    while goes_on() {
        std::thread::sleep(Duration::from_micros(200));
    }
}
