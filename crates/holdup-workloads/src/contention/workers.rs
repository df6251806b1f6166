//! Starting and ending the workers, as threads or as processes.
//!
//! # Forking from a process that may have several threads
//!
//! Only the forking thread exists in a child, and a lock of the C library or of Rust that another
//! thread held at that moment stays locked there for ever. So a child does nothing that could take
//! one: everything it needs was made before, and from `fork` to `_exit` it makes system calls and
//! runs the measured loop, which neither allocates nor prints nor unwinds. It never returns into
//! the code around it. Signals are blocked from before the fork until the child has put
//! their handlers back to the default, so that no handler of holdup runs in a child.

use crate::contention::lock::{Algorithm, Sharing};
use crate::contention::region::{Region, ending, phase};
use crate::contention::worker::Job;
use holdup_model::Problem;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long workers may take to end once told to, before they are killed (processes only).
const GRACE: Duration = Duration::from_secs(10);
/// The stack of a worker thread: the loop needs little, and there may be thousands.
const STACK_BYTES: usize = 256 << 10;

enum Crew {
    Threads(Vec<JoinHandle<()>>),
    /// Not yet waited for, with the worker's index.
    Processes(Vec<(usize, Pid)>),
}

/// The workers of a trial. Dropping ends all of them.
pub(crate) struct Workers {
    region: Arc<Region>,
    crew: Crew,
}

impl Workers {
    /// Starts one worker for each job.
    pub(crate) fn start(
        region: &Arc<Region>,
        algorithm: &'static Algorithm,
        sharing: Sharing,
        jobs: Vec<Job>,
    ) -> Result<Self, Problem> {
        let crew = match sharing {
            Sharing::Threads => Crew::Threads(Vec::with_capacity(jobs.len())),
            Sharing::Processes => Crew::Processes(Vec::with_capacity(jobs.len())),
        };
        let mut workers = Workers { region: region.clone(), crew };
        let wanted = jobs.len();
        for job in jobs {
            let index = job.index;
            workers.add(algorithm, job).map_err(|e| {
                Problem::trial(format!("{wanted} workers"), format!("only {index} could be started: {e}")).hint(
                    "take fewer, or raise the limits on processes (ulimit -u, kernel.pid_max, pids.max of the cgroup)",
                )
            })?;
        }
        Ok(workers)
    }

    fn add(&mut self, algorithm: &'static Algorithm, job: Job) -> io::Result<()> {
        match &mut self.crew {
            Crew::Threads(threads) => {
                let name = format!("lock-{}", job.index);
                let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
                threads.push(builder.spawn(move || algorithm.run(&job))?);
            }
            Crew::Processes(children) => {
                let index = job.index;
                children.push((index, fork(algorithm, &job)?));
            }
        }
        Ok(())
    }

    /// Why the trial is void, when a worker has ended although nobody told it to.
    pub(crate) fn failed(&mut self) -> Option<String> {
        if let Some(why) = self.gave_up() {
            return Some(why);
        }
        let ended = match &mut self.crew {
            Crew::Threads(threads) => {
                threads.iter().position(JoinHandle::is_finished).map(|index| format!("thread {index} ended early"))
            }
            Crew::Processes(children) => {
                let (place, status) = children.iter().enumerate().find_map(|(i, c)| ended(c.1).map(|s| (i, s)))?;
                let (index, pid) = children.swap_remove(place);
                Some(format!("worker {index} (pid {}) {}", pid.as_raw_nonzero(), in_words(status)))
            }
        };
        // A worker that gave up between the two looks has said so before it ended.
        ended.map(|early| self.gave_up().unwrap_or(early))
    }

    /// What a worker said that ended before its time, if one did.
    fn gave_up(&self) -> Option<String> {
        self.region.slots().enumerate().find_map(|(index, slot)| match slot.ending.load(Ordering::Acquire) {
            ending::STUCK => Some(format!("worker {index} gave up: its lock was stuck")),
            ending::REFUSED => {
                let errno = slot.errno.load(Ordering::Relaxed);
                let why = io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
                Some(format!("worker {index} gave up: the kernel refused what its lock needs: {why}"))
            }
            _ => None,
        })
    }

    /// Tells all workers to end and waits until they have. `hurry` asks whether processes should be killed at once.
    pub(crate) fn finish(mut self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.region.enter(phase::STOP);
        let failures = match &mut self.crew {
            Crew::Threads(threads) => join(threads),
            Crew::Processes(children) => wait_for(children, hurry),
        };
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(Problem::trial("a worker did not end well", first)),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.region.enter(phase::STOP);
        match &mut self.crew {
            Crew::Threads(threads) => drop(join(threads)),
            Crew::Processes(children) => {
                for (_, pid) in children.iter() {
                    // The child was not waited for, so the pid is still its own.
                    let _killed = rustix::process::kill_process(*pid, Signal::KILL);
                }
                for (_, pid) in children.drain(..) {
                    let _waited = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                }
            }
        }
    }
}

fn join(threads: &mut Vec<JoinHandle<()>>) -> Vec<String> {
    let panicked = |(i, t): (usize, JoinHandle<()>)| t.join().is_err().then(|| format!("thread {i} panicked"));
    threads.drain(..).enumerate().filter_map(panicked).collect()
}

/// Waits for all children; what is left in `children` at the end of the grace is killed when it is dropped.
fn wait_for(children: &mut Vec<(usize, Pid)>, hurry: &dyn Fn() -> bool) -> Vec<String> {
    let mut failures = Vec::new();
    let deadline = Instant::now() + GRACE;
    while !children.is_empty() {
        children.retain(|(index, pid)| match ended(*pid) {
            None => true,
            Some(status) => {
                if status.exit_status() != Some(0) {
                    failures.push(format!("worker {index} {}", in_words(status)));
                }
                false
            }
        });
        if children.is_empty() || hurry() {
            break;
        }
        if Instant::now() > deadline {
            failures.push(format!("{} workers did not end within {} s", children.len(), GRACE.as_secs()));
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    failures
}

fn ended(pid: Pid) -> Option<WaitStatus> {
    rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten().map(|(_, status)| status)
}

fn in_words(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended early with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "changed its state in an unknown way".to_owned(),
    }
}

/// Makes a process that runs the job and ends. See the head of this file for why this is safe.
fn fork(algorithm: &'static Algorithm, job: &Job) -> io::Result<Pid> {
    let parent = rustix::process::getpid();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // SAFETY: the child keeps to what is allowed there: see the head of this file.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child(algorithm, job, parent);
    }
    let error = io::Error::last_os_error();
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)
}

fn child(algorithm: &'static Algorithm, job: &Job, parent: Pid) -> ! {
    /// Ends the process when it is dropped, so that an unwinding panic cannot leave the child's part of the code.
    struct NeverReturn;
    impl Drop for NeverReturn {
        fn drop(&mut self) {
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(70) };
        }
    }
    let _guard = NeverReturn;
    // SAFETY: plain system calls; each may be made in a forked child.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have died before the line above.
        if libc::getppid() != parent.as_raw_nonzero().get() {
            libc::_exit(0);
        }
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Ctrl-C reaches the whole foreground group; the parent ends the trial in order.
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        // Locks and pipes of the parent must not stay open in a worker that outlives it for a moment.
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
    algorithm.run(job);
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(0) }
}
