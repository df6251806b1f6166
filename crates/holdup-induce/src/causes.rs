//! Causes that processes make.

use crate::group::{DiskLimit, Group};
use crate::processes::{Job, Processes, StopFlag};
use holdup_host::Scheduling;
use holdup_load::board::Board;
use holdup_load::clock::{now_ns, thread_cpu_ns};
use holdup_locks::syscall;
use holdup_model::Problem;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How much a slow reader reads with one call, and of how much in all.
const BLOCK_BYTES: usize = 64 << 10;
const BLOCKS: usize = 16;
/// What direct reads must be aligned to on every disk.
const ALIGNMENT: usize = 4096;

fn spin_until(stop: &StopFlag, end_ns: u64) {
    while now_ns() < end_ns && !stop.is_set() {
        std::hint::spin_loop();
    }
}

fn sleep_until(end_ns: u64) {
    syscall::sleep(Duration::from_nanos(end_ns.saturating_sub(now_ns())));
}

fn spinner() -> (Job, Vec<i32>) {
    (Box::new(|stop| spin_until(&stop, u64::MAX)), Vec::new())
}

/// Busy processes that want no lock (`hu-busy`).
///
/// # Errors
/// When they cannot be started.
pub fn oversubscription(count: usize) -> Result<Processes, Problem> {
    Processes::start(c"hu-busy", (0..count).map(|_| spinner()).collect(), |_, _| Ok(None))
}

/// A process that sleeps, 1 ms at a time (`hu-idle`): nothing is wrong.
///
/// # Errors
/// When it cannot be started.
pub fn nothing() -> Result<Processes, Problem> {
    let job: Job = Box::new(|stop| {
        while !stop.is_set() {
            syscall::sleep(Duration::from_millis(1));
        }
    });
    Processes::start(c"hu-idle", vec![(job, Vec::new())], |_, _| Ok(None))
}

/// A process with a thread that waits for work at a condition variable (`hu-pool`). Its word is 2, as that of a mutex that others
/// wait for: nothing is wrong.
///
/// # Errors
/// When it cannot be started.
pub fn idle_pool() -> Result<Processes, Problem> {
    let job: Job = Box::new(|stop| {
        let (has_work, work) = (Mutex::new(false), Condvar::new());
        // Each call adds 1 to the word.
        work.notify_one();
        work.notify_one();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut has_work = has_work.lock().unwrap_or_else(PoisonError::into_inner);
                while !*has_work {
                    has_work = work.wait(has_work).unwrap_or_else(PoisonError::into_inner);
                }
            });
            while !stop.is_set() {
                syscall::sleep(Duration::from_millis(1));
            }
            *has_work.lock().unwrap_or_else(PoisonError::into_inner) = true;
            work.notify_one();
        });
    });
    Processes::start(c"hu-pool", vec![(job, Vec::new())], |_, _| Ok(None))
}

/// For how long the mutex of [`mutex`] was held, and for how long its holders were on a CPU meanwhile.
pub struct Held(Arc<Board<(), AtomicU64>>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Held").field(&self.ns()).finish()
    }
}

impl Held {
    /// Both, ns.
    pub fn ns(&self) -> (u64, u64) {
        (self.0.slot(0).load(Ordering::Relaxed), self.0.slot(1).load(Ordering::Relaxed))
    }
}

/// A process whose threads want one mutex of the standard library (`hu-mutex`), each for `held` of CPU time with it and as
/// long without it for each other thread.
///
/// # Errors
/// When it cannot be started.
pub fn mutex(threads: u64, held: Duration) -> Result<(Processes, Held), Problem> {
    let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
    let no_memory = |e| Problem::host("induced processes", format!("no memory for what they hold: {e}"));
    let board = Arc::new(Board::<(), AtomicU64>::new(2).map_err(no_memory)?);
    let of_job = board.clone();
    let work = |ns: u64| {
        let begin_ns = thread_cpu_ns();
        while thread_cpu_ns() - begin_ns < ns {}
        thread_cpu_ns() - begin_ns
    };
    let job: Job = Box::new(move |stop| {
        let lock = Mutex::new(());
        let one = || {
            while !stop.is_set() {
                let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                let begin_ns = now_ns();
                let on_cpu_ns = work(held_ns);
                of_job.slot(0).fetch_add(now_ns() - begin_ns, Ordering::Relaxed);
                of_job.slot(1).fetch_add(on_cpu_ns, Ordering::Relaxed);
                drop(guard);
                work(held_ns * (threads - 1));
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(one))));
    });
    let processes = Processes::start(c"hu-mutex", vec![(job, Vec::new())], |_, _| Ok(None))?;
    Ok((processes, Held(board)))
}

/// A busy process in a control group that may use the CPU for `quota` of each `period` (`hu-throttled`).
///
/// # Errors
/// When no such group can be made.
pub fn throttling(quota: Duration, period: Duration) -> Result<Processes, Problem> {
    Processes::start(c"hu-throttled", vec![spinner()], |_, pids| {
        let group = Group::with_cpu_limit(quota, period)?;
        pids.iter().try_for_each(|pid| group.take(*pid))?;
        Ok(Some(group))
    })
}

/// A process under SCHED_FIFO that takes a CPU for `busy` of each `period` (`hu-thief`).
///
/// # Errors
/// When it may not be under SCHED_FIFO or not on this CPU.
pub fn cpu_thief(cpu: u32, busy: Duration, period: Duration) -> Result<Processes, Problem> {
    let nanoseconds = |length: Duration| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let (busy_ns, period_ns) = (nanoseconds(busy), nanoseconds(period));
    let job: Job = Box::new(move |stop| {
        let mut begin_ns = now_ns();
        while !stop.is_set() {
            spin_until(&stop, begin_ns.saturating_add(busy_ns));
            begin_ns = begin_ns.saturating_add(period_ns).max(now_ns());
            sleep_until(begin_ns);
        }
    });
    Processes::start(c"hu-thief", vec![(job, Vec::new())], |host, pids| {
        for pid in pids {
            host.set_affinity(*pid, &[cpu])?;
            let fifo = Scheduling { policy: Scheduling::FIFO, reset_on_fork: false, nice: 0, priority: 10 };
            host.set_scheduling(*pid, fifo)?;
        }
        Ok(None)
    })
}

/// A process that reads a file past the page cache (`hu-reader`) from the disk of a folder, which gives its control group
/// that number of bytes a second: it waits in the block layer, uninterruptibly, nearly all the time.
///
/// # Errors
/// When the folder is on no disk, no file can be made there, or the disk cannot be limited.
pub fn slow_disk(folder: &Path, bytes_per_s: u64) -> Result<Processes, Problem> {
    let problem = |e: std::io::Error| Problem::host(format!("a file in {}", folder.display()), e.to_string());
    let file = direct_file(folder).map_err(problem)?;
    let mut buffer = vec![0u8; BLOCK_BYTES + ALIGNMENT];
    let keeps = vec![file.as_raw_fd()];
    let job: Job = Box::new(move |stop| {
        let begin = buffer.as_ptr().align_offset(ALIGNMENT);
        let block = &mut buffer[begin..][..BLOCK_BYTES];
        for i in (0..BLOCKS).cycle() {
            if stop.is_set() {
                return;
            }
            let _read = rustix::io::pread(&file, &mut *block, (i * BLOCK_BYTES) as u64);
        }
    });
    let folder = folder.to_owned();
    Processes::start(c"hu-reader", vec![(job, keeps)], move |_, pids| {
        let group = Group::with_disk_limit(&folder, DiskLimit::BytesRead, bytes_per_s)?;
        pids.iter().try_for_each(|pid| group.take(*pid))?;
        Ok(Some(group))
    })
}

/// A file without a name whose blocks are on the disk, read directly from there.
fn direct_file(folder: &Path) -> std::io::Result<File> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![0x5a; BLOCK_BYTES * BLOCKS])?;
    file.sync_all()?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags | rustix::fs::OFlags::DIRECT)?;
    Ok(file)
}
