//! A busy thread of the kernel, and work for the kernel's threads of each CPU that has to wait behind it.

use crate::processes::{Job, Processes, StopFlag};
use crate::ring::Ring;
use holdup_host::{Host, Scheduling};
use holdup_locks::syscall;
use holdup_model::Problem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the kernel's thread may take to appear.
const APPEARS: Duration = Duration::from_secs(5);

/// A process (`hu-hog`) and its thread of the kernel that keeps one CPU busy.
#[derive(Debug)]
pub struct KernelHog {
    pub process: Processes,
    /// The thread's id.
    pub tid: u32,
    /// The thread's name (`iou-sqp-PID`).
    pub name: String,
}

/// A kernel thread that is busy on a CPU for `busy` of each `period`, in whole milliseconds; always where the period is not
/// longer. With `first` it is under SCHED_FIFO and all else there waits; without, it shares the CPU by the scheduler's
/// rules, and a task that wakes up hardly waits behind it.
///
/// # Errors
/// When this kernel has no io_uring, or it is switched off (kernel.io_uring_disabled).
pub fn kernel_hog(cpu: u32, busy: Duration, period: Duration, first: bool) -> Result<KernelHog, Problem> {
    let idle_ms = u32::try_from(busy.as_millis()).unwrap_or(u32::MAX).max(1);
    let pause = if period > busy { period } else { busy / 2 };
    let job = move |stop: StopFlag| {
        // Made here, because the thread belongs to the process that makes it.
        let Ok(ring) = Ring::new(cpu, idle_ms) else { return };
        while !stop.is_set() {
            ring.poke();
            syscall::sleep(pause);
        }
    };
    let job: Job = Box::new(job);
    Ring::new(cpu, idle_ms).map_err(|e| Problem::host("io_uring with a polling thread", e.to_string()))?;
    let mut process = Processes::start(c"hu-hog", vec![(job, Vec::new())], |_, _| Ok(None))?;
    let host = Host::real();
    let (tid, name) = polling_thread(&host, &mut process)?;
    if first {
        let fifo = Scheduling { policy: Scheduling::FIFO, reset_on_fork: false, nice: 0, priority: 1 };
        host.set_scheduling(tid, fifo)?;
    }
    Ok(KernelHog { process, tid, name })
}

fn polling_thread(host: &Host, process: &mut Processes) -> Result<(u32, String), Problem> {
    let pid = process.pids().first().copied().unwrap_or(0);
    let begin = Instant::now();
    while begin.elapsed() < APPEARS {
        let tasks = host.list(&format!("/proc/{pid}/task"))?;
        let named = |tid: &String| {
            let name = host.read_value(&format!("/proc/{pid}/task/{tid}/comm")).ok()?;
            name.starts_with("iou-sqp").then_some((tid.parse().ok()?, name))
        };
        if let Some(found) = tasks.iter().find_map(named) {
            return Ok(found);
        }
        if let Some(why) = process.failed() {
            return Err(Problem::host("io_uring with a polling thread", why));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Problem::host("io_uring with a polling thread", "the kernel's thread does not appear"))
}

/// Makes the kernel's worker thread of every CPU (`kworker/N:…`) do a little work, and waits until all have
/// (mm/vmstat.c:vmstat_refresh, schedule_on_each_cpu, v6.18). Returns how long that took.
///
/// # Errors
/// When it may not be asked for.
pub fn per_cpu_work() -> Result<Duration, Problem> {
    let begin = Instant::now();
    Host::real().write("/proc/sys/vm/stat_refresh", "1")?;
    Ok(begin.elapsed())
}

/// The same again and again, by a thread. Dropping ends it.
#[derive(Debug)]
pub struct PerCpuWork {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PerCpuWork {
    /// Once each `period`.
    ///
    /// # Errors
    /// When it may not be asked for.
    pub fn every(period: Duration) -> Result<Self, Problem> {
        per_cpu_work()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Relaxed) && per_cpu_work().is_ok() {
                std::thread::sleep(period);
            }
        };
        let thread = std::thread::Builder::new().name("hu-per-cpu".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Problem::host("a thread", e.to_string()))?;
        Ok(PerCpuWork { stop, thread: Some(thread) })
    }
}

impl Drop for PerCpuWork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
