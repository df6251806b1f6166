//! The task in the way: it keeps one CPU busy in user mode, in page faults or in long system calls.

use super::calls::{Calls, Faults, own_cpu_ns};
use super::nanoseconds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the hog does with its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Doing {
    /// It sleeps.
    Nothing = 0,
    /// It computes in user mode and enters the kernel only by interrupts.
    User = 1,
    /// It touches fresh memory all the time.
    Faults = 2,
    /// It makes calls of many ticks: reads far into `/proc/kallsyms`.
    Walk = 3,
    /// It makes shorter calls: polls as many descriptors as it may.
    Poll = 4,
}

/// What the hog tells while it works; written by it alone, but for `order` and `end`.
#[derive(Debug, Default)]
pub(super) struct Shared {
    order: AtomicU8,
    end: AtomicBool,
    /// The thread's id, 0 before it runs.
    tid: AtomicI32,
    /// Odd while a call is under way; it grows by one with each beginning and each end.
    phase: AtomicU64,
    /// The hog's own CPU time when the call began.
    begun_ns: AtomicU64,
    /// The time since the hog was made when the call began.
    begun_at_ns: AtomicU64,
    /// The CPU time of the last call that ended.
    took_ns: AtomicU64,
}

/// The hog's thread. It ends when told to, at its deadline, and with the process.
#[derive(Debug)]
pub(super) struct Hog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    since: Instant,
}

/// What the hog was at when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase {
    /// Odd within a call.
    pub(super) number: u64,
    /// Its CPU time at the beginning of the last call.
    pub(super) begun_ns: u64,
    /// When that was.
    pub(super) begun_at: Instant,
    /// The CPU time of the last call that ended.
    pub(super) took_ns: u64,
}

/// CPU time of a thread of this process in nanoseconds.
///
/// The clock's number is built as `MAKE_THREAD_CPUCLOCK` does (include/linux/posix-timers_types.h, v6.12); the kernel
/// brings the sum of a running task up to date under its run queue's lock (kernel/sched/core.c:task_sched_runtime).
fn cpu_time_of(tid: i32) -> Option<u64> {
    const PER_THREAD_SCHED: libc::clockid_t = 4 | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which lives until the call returns.
    let failed = unsafe { libc::clock_gettime((!tid << 3) | PER_THREAD_SCHED, &raw mut time) } != 0;
    if failed {
        return None;
    }
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

impl Hog {
    /// Starts it with the idle policy, doing nothing yet, on whatever CPU.
    ///
    /// # Errors
    /// In words, when the thread or its policy is refused.
    pub(super) fn start(calls: Arc<Calls>, deadline: Instant) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let since = Instant::now();
        let its = Arc::clone(&shared);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("holdup-probe-hog".to_owned())
            .spawn(move || {
                let begun = become_idle();
                let ready = begun.is_ok();
                its.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
                let _heard = tell.send(begun);
                if ready {
                    work(&its, &calls, since, deadline);
                }
            })
            .map_err(|e| format!("no thread could be started: {e}"))?;
        let hog = Hog { shared, thread: Some(thread), since };
        match told.recv_timeout(Duration::from_secs(2)) {
            Ok(Ok(())) => Ok(hog),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("the thread did not run within 2 s".to_owned()),
        }
    }

    pub(super) fn tid(&self) -> i32 {
        self.shared.tid.load(Ordering::Acquire)
    }

    pub(super) fn order(&self, what: Doing) {
        self.shared.order.store(what as u8, Ordering::Release);
    }

    /// Its CPU time in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Option<u64> {
        cpu_time_of(self.tid())
    }

    pub(super) fn phase(&self) -> Phase {
        let read = |what: &AtomicU64| what.load(Ordering::Acquire);
        Phase {
            number: read(&self.shared.phase),
            begun_ns: read(&self.shared.begun_ns),
            begun_at: self.since + Duration::from_nanos(read(&self.shared.begun_at_ns)),
            took_ns: read(&self.shared.took_ns),
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Release);
        // A thread whose CPU a real-time task has taken may come to its end late. It ends by itself.
        let patience = Instant::now() + Duration::from_secs(1);
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() {
                let _panicked = thread.join();
            }
        }
    }
}

/// The idle policy, which anybody may take: a waking or arriving task of the ordinary policy preempts
/// it whatever the lags are (kernel/sched/fair.c:check_preempt_wakeup_fair, v6.18).
fn become_idle() -> Result<(), String> {
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads one int as its `struct sched_param`, which lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority) };
    if result < 0 {
        return Err(format!("sched_setscheduler(SCHED_IDLE): {}", std::io::Error::last_os_error()));
    }
    Ok(())
}

fn work(shared: &Shared, calls: &Calls, since: Instant, deadline: Instant) {
    const NOTHING: u8 = Doing::Nothing as u8;
    const USER: u8 = Doing::User as u8;
    const FAULTS: u8 = Doing::Faults as u8;
    const WALK: u8 = Doing::Walk as u8;
    const POLL: u8 = Doing::Poll as u8;
    let mut faults = Faults::default();
    let mut polled = calls.poll_set();
    while !shared.end.load(Ordering::Acquire) && Instant::now() < deadline {
        match shared.order.load(Ordering::Acquire) {
            USER => {
                for turn in 0..2_000_u32 {
                    std::hint::black_box(turn);
                }
            }
            FAULTS => faults.touch(),
            WALK => timed(shared, since, || calls.walk()),
            POLL => timed(shared, since, || calls.poll(&mut polled)),
            NOTHING | _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// A call with its beginning and end told.
fn timed(shared: &Shared, since: Instant, call: impl FnOnce()) {
    let begun = own_cpu_ns();
    shared.begun_ns.store(begun, Ordering::Relaxed);
    shared.begun_at_ns.store(nanoseconds(since.elapsed()), Ordering::Relaxed);
    shared.phase.fetch_add(1, Ordering::AcqRel);
    call();
    shared.phase.fetch_add(1, Ordering::AcqRel);
    shared.took_ns.store(own_cpu_ns().saturating_sub(begun), Ordering::Release);
}
