//! What measurements have in common: repeats, threads that stay where they are put, system calls.

use super::samples::Samples;
use holdup_load::clock::now_ns;
use holdup_load::placement::stay_on;
use holdup_model::Problem;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Repeats of a measurement.
pub(super) const REPEATS: usize = 21;
/// The longest that one measurement may take; what it has by then counts.
const LONGEST_NS: u64 = 1_500_000_000;
/// Attempts for each repeat, where a repeat may turn out to be of no use.
const ATTEMPTS: usize = 3;

/// An error of the system as a problem.
pub(super) fn refused(what: &'static str) -> impl Fn(io::Error) -> Problem {
    move |e| Problem::host(what, e.to_string())
}

/// The result of a system call that is -1 when it fails.
pub(super) fn ok(what: &'static str, result: libc::c_long) -> Result<libc::c_long, Problem> {
    if result == -1 { Err(refused(what)(io::Error::last_os_error())) } else { Ok(result) }
}

/// The repeats of a measurement; a repeat of `None` could not be used and is tried again, within limits.
///
/// # Errors
/// When a repeat fails, or too few of them could be used.
pub(super) fn repeats(
    what: &str,
    mut repeat: impl FnMut() -> Result<Option<f64>, Problem>,
) -> Result<Samples, Problem> {
    let end = now_ns() + LONGEST_NS;
    let mut values = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS * ATTEMPTS {
        values.extend(repeat()?);
        if values.len() == REPEATS || now_ns() > end {
            break;
        }
    }
    Samples::of(what, values)
}

/// The time of each of `times` calls, ns.
#[inline]
pub(super) fn each_ns<T>(times: u32, mut call: impl FnMut() -> T) -> f64 {
    let begin = now_ns();
    for _ in 0..times {
        std::hint::black_box(call());
    }
    (now_ns() - begin) as f64 / f64::from(times)
}

/// The times of one call in each of `pieces` pieces of `times` calls, ns.
pub(super) fn pieces_ns<T>(pieces: usize, times: u32, mut call: impl FnMut() -> T) -> Vec<f64> {
    (0..pieces).map(|_| each_ns(times, &mut call)).collect()
}

fn pinned(cpu: u32) -> Result<(), Problem> {
    stay_on(&[cpu]).map_err(|e| Problem::host(format!("CPU {cpu}"), format!("cannot run there: {e}")))
}

fn spawned<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<std::thread::ScopedJoinHandle<'scope, T>, Problem> {
    std::thread::Builder::new().name("holdup-cost".to_owned()).spawn_scoped(scope, run).map_err(refused("a thread"))
}

fn joined<T>(handle: std::thread::ScopedJoinHandle<'_, Result<T, Problem>>) -> Result<T, Problem> {
    handle.join().unwrap_or_else(|_| Err(Problem::internal("a measurement", "it panicked")))
}

/// Runs on its own thread, which stays on a CPU.
///
/// # Errors
/// When there can be no such thread, and those of `run`.
pub(super) fn on_cpu<T: Send>(cpu: u32, run: impl FnOnce() -> Result<T, Problem> + Send) -> Result<T, Problem> {
    std::thread::scope(|scope| {
        joined(spawned(scope, move || {
            pinned(cpu)?;
            run()
        })?)
    })
}

/// Sets a flag when it is dropped, also by a panic.
struct Stops<'a>(&'a AtomicBool, &'a dyn Fn());

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        (self.1)();
    }
}

/// Runs `run` on the first CPU while `other` runs on each of the others, which is to return soon after the flag that it
/// gets is set and `release` was called.
///
/// # Errors
/// When one of the CPUs cannot be used, and those of `run`.
pub(super) fn beside<T: Send>(
    (cpu, others): (u32, &[u32]),
    other: &(dyn Fn(&AtomicBool) + Sync),
    release: &(dyn Fn() + Sync),
    run: impl FnOnce() -> Result<T, Problem> + Send,
) -> Result<T, Problem> {
    let (stop, ready) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let stops = Stops(&stop, release);
        let mut helpers = Vec::with_capacity(others.len());
        for &cpu in others {
            let (stop, ready) = (&stop, &ready);
            helpers.push(spawned(scope, move || {
                let place = pinned(cpu);
                ready.fetch_add(1, Ordering::SeqCst);
                place.map(|()| other(stop))
            })?);
        }
        while (ready.load(Ordering::SeqCst) as usize) < helpers.len() {
            std::thread::sleep(Duration::from_micros(50));
        }
        let result = spawned(scope, move || {
            pinned(cpu)?;
            run()
        })
        .and_then(joined);
        drop(stops);
        for helper in helpers {
            joined(helper)?;
        }
        result
    })
}

/// A process beside the caller, on the caller's CPUs; ended and waited for when dropped.
pub(super) struct Child(libc::pid_t);

impl Child {
    /// A process that runs `run` and ends. `run` may make system calls only: the caller may have further threads, whose
    /// locks are never released in the child.
    pub(super) fn that(run: impl FnOnce()) -> Result<Self, Problem> {
        // SAFETY: the child makes system calls only, by the contract above, and never returns from here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: both are system calls; the child ends with its parent.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            run();
            // SAFETY: ends the child immediately, without destructors of what belongs to the parent.
            unsafe { libc::_exit(0) };
        }
        ok("fork", pid.into())?;
        Ok(Child(pid))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: the process is our child and was not waited for, so the number is still its own.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            while libc::waitpid(self.0, &raw mut status, 0) == -1
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// getppid(2), which the C library never answers by itself.
#[inline]
pub(super) fn getppid() {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// Sleeps as long as the word has this value, or not at all.
pub(super) fn futex_wait(word: &AtomicU32, value: u32) {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives while the kernel looks at it; a private futex without a time limit.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, value, none) };
}

/// Wakes all that sleep on the word; how many they were.
pub(super) fn futex_wake_all(word: &AtomicU32) -> i64 {
    // SAFETY: the kernel takes the address as a key and reads nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) }
}

/// One byte through a pipe or a socket, by system calls alone; whether it went.
#[inline]
pub(super) fn write_byte(fd: i32) -> bool {
    // SAFETY: one byte of a constant is read.
    unsafe { libc::write(fd, b"x".as_ptr().cast(), 1) == 1 }
}

/// One byte out of it; whether there was one.
#[inline]
pub(super) fn read_byte(fd: i32) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte is written to a variable.
    unsafe { libc::read(fd, (&raw mut byte).cast(), 1) == 1 }
}

/// A loop of `length_ns` that reads the clock: when each step ended that was at least three times as long as the median, and
/// how much longer than the median it was, ns.
pub(super) fn gaps_ns(length_ns: u64) -> Vec<(u64, f64)> {
    let step = super::samples::middle((0..64).map(|_| each_ns(4, now_ns)).collect());
    let step = step.unwrap_or(0.0).max(1.0);
    let least = (step * 3.0).max(step + 60.0);
    let begin = now_ns();
    let mut last = begin;
    let mut gaps = Vec::with_capacity(1024);
    while last - begin < length_ns {
        let now = now_ns();
        let gap = (now - last) as f64;
        if gap >= least {
            gaps.push((now, gap - step));
        }
        last = now;
    }
    gaps
}
