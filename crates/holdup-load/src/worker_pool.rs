//! Starting and ending workers, as threads or as processes.
//!
//! Our own, because thread pools of libraries (rayon, threadpool) have neither processes nor workers that start together and
//! whose early end is noticed.

use crate::fork;
use holdup_model::Problem;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};
use std::io;
use std::os::fd::RawFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long workers may take to end after they were asked to, before they are killed (processes only).
const GRACE: Duration = Duration::from_secs(10);
/// The stack of a worker thread: the loops need little, and there may be thousands.
const STACK_BYTES: usize = 256 << 10;

/// Whether workers share one address space.
pub use holdup_catalogue::Sharing;

/// What one worker does from its begin to its end. In a forked child it neither allocates nor prints nor panics.
pub struct Job {
    run: Box<dyn FnOnce() + Send>,
    /// What a forked child keeps open, ascending; it closes all else but its standard streams.
    keeps: Vec<RawFd>,
}

impl Job {
    /// A job that needs no open file.
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Job { run: Box::new(run), keeps: Vec::new() }
    }

    /// The same, with files that stay open where it runs in its own process.
    pub fn keeping(mut self, files: impl IntoIterator<Item = RawFd>) -> Self {
        self.keeps.extend(files);
        self.keeps.sort_unstable();
        self.keeps.dedup();
        self
    }
}

enum Members {
    Threads(Vec<JoinHandle<()>>),
    /// Not yet waited for, with the worker's index.
    Processes(Vec<(usize, Pid)>),
}

/// The workers of a trial. Dropping ends all of them.
pub struct WorkerPool {
    /// Asks all workers to end.
    stop: Box<dyn Fn() + Send>,
    members: Members,
}

impl WorkerPool {
    /// Starts one worker for each job. `name` is the begin of the threads' names, `stop` asks all of them to end.
    ///
    /// # Errors
    /// Of kind `Trial` when not all could be started; those that were have ended.
    pub fn start(
        sharing: Sharing,
        name: &str,
        jobs: Vec<Job>,
        stop: impl Fn() + Send + 'static,
    ) -> Result<Self, Problem> {
        let members = match sharing {
            Sharing::Threads => Members::Threads(Vec::with_capacity(jobs.len())),
            Sharing::Processes => Members::Processes(Vec::with_capacity(jobs.len())),
        };
        let mut pool = WorkerPool { stop: Box::new(stop), members };
        let wanted = jobs.len();
        for (index, job) in jobs.into_iter().enumerate() {
            pool.add(name, index, job).map_err(|e| {
                Problem::trial(format!("{wanted} workers"), format!("only {index} could be started: {e}")).hint(
                    "take fewer, or raise the limits on processes (ulimit -u, kernel.pid_max, pids.max of the cgroup)",
                )
            })?;
        }
        Ok(pool)
    }

    fn add(&mut self, name: &str, index: usize, job: Job) -> io::Result<()> {
        match &mut self.members {
            Members::Threads(threads) => {
                let builder = std::thread::Builder::new().name(format!("{name}-{index}")).stack_size(STACK_BYTES);
                threads.push(builder.spawn(job.run)?);
            }
            Members::Processes(children) => children.push((index, process(job)?)),
        }
        Ok(())
    }

    /// The ids of the processes that were not yet waited for; none of threads.
    pub fn pids(&self) -> Vec<u32> {
        match &self.members {
            Members::Threads(_) => Vec::new(),
            Members::Processes(children) => {
                children.iter().map(|(_, pid)| pid.as_raw_nonzero().get().unsigned_abs()).collect()
            }
        }
    }

    /// Why the trial is void, when a worker has ended before it was asked to.
    pub fn failed(&mut self) -> Option<String> {
        match &mut self.members {
            Members::Threads(threads) => {
                threads.iter().position(JoinHandle::is_finished).map(|index| format!("thread {index} ended early"))
            }
            Members::Processes(children) => {
                if !some_child_ended() {
                    return None;
                }
                let (place, status) = children.iter().enumerate().find_map(|(i, c)| ended(c.1).map(|s| (i, s)))?;
                let (index, pid) = children.swap_remove(place);
                Some(format!("worker {index} (pid {}) {}", pid.as_raw_nonzero(), in_words(status)))
            }
        }
    }

    /// Asks all workers to end and waits until they have. `hurry` asks whether processes should be killed immediately.
    ///
    /// # Errors
    /// Of kind `Trial` when one of them did not end well.
    pub fn finish(mut self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        (self.stop)();
        let failures = match &mut self.members {
            Members::Threads(threads) => join(threads),
            Members::Processes(children) => wait_for(children, hurry),
        };
        match failures.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(Problem::trial("a worker did not end well", first)),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        (self.stop)();
        match &mut self.members {
            Members::Threads(threads) => drop(join(threads)),
            Members::Processes(children) => {
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

/// True if any child of holdup has ended and was not waited for. One system call where asking for each of a thousand
/// workers would take CPU time from them in every look; whose child it is, is asked afterwards.
fn some_child_ended() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error leaves it to the look at each child.
    !matches!(rustix::process::waitid(WaitId::All, options), Ok(None))
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

/// Makes a process that runs the job and ends.
fn process(job: Job) -> io::Result<Pid> {
    let parent = rustix::process::getpid();
    // SAFETY: a job keeps to the rules, see [`Job`].
    unsafe {
        fork::fork(move || {
            fork::end_with(parent);
            // Ctrl-C reaches the whole foreground group; the parent ends the trial in order. A peer that is gone is an
            // error of a write, not a signal.
            fork::reset_signals(&[libc::SIGINT, libc::SIGPIPE]);
            close_all_but(&job.keeps);
            (job.run)();
            fork::exit(0)
        })
    }
}

/// Locks, pipes and sockets of the parent must not stay open in a worker that outlives it for a moment, and a socket
/// that several processes hold is not closed when its owner closes it.
fn close_all_but(keeps: &[RawFd]) {
    let close = |first: libc::c_uint, last: libc::c_uint| {
        if first <= last {
            // SAFETY: a plain system call; nothing of the child's own is among the files.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    let mut first: libc::c_uint = 3;
    for keep in keeps.iter().filter_map(|fd| libc::c_uint::try_from(*fd).ok()).filter(|fd| *fd >= 3) {
        if keep > first {
            close(first, keep - 1);
        }
        first = keep + 1;
    }
    close(first, libc::c_uint::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, phase};
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn workers_share_the_board_whether_threads_or_processes() {
        for sharing in [Sharing::Threads, Sharing::Processes] {
            let board = Arc::new(Board::<AtomicU64, AtomicU64>::new(3).expect("maps"));
            let jobs = (0..3).map(|index| {
                let board = board.clone();
                Job::new(move || {
                    let _begun = board.stage().wait_for_begin();
                    board.slot(index).store(index as u64 + 1, Ordering::SeqCst);
                    while !board.stage().stopped() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
            });
            let stop = board.clone();
            let pool = WorkerPool::start(sharing, "test", jobs.collect(), move || stop.stage().enter(phase::STOP));
            let mut pool = pool.expect("starts");
            while board.stage().ready() < 3 {
                assert_eq!(pool.failed(), None);
                std::thread::sleep(Duration::from_millis(1));
            }
            board.stage().enter(phase::OPEN);
            pool.finish(&|| false).expect("all end well");
            let seen: Vec<u64> = board.slots().map(|s| s.load(Ordering::SeqCst)).collect();
            assert_eq!(seen, [1, 2, 3], "{sharing:?}");
        }
    }

    #[test]
    fn a_child_holds_nothing_but_what_it_keeps() {
        let (mut mine, its) = UnixStream::pair().expect("a pair");
        let (mut other_mine, other_its) = UnixStream::pair().expect("a pair");
        let keep = its.as_raw_fd();
        let other = other_its.as_raw_fd();
        let job = Job::new(move || {
            // SAFETY: plain system calls on numbers; a closed one gives an error.
            let answer = unsafe { u8::from(libc::fcntl(other, libc::F_GETFD) == -1) };
            let _written = rustix::io::write(&its, &[b'0' + answer]);
        });
        let pool = WorkerPool::start(Sharing::Processes, "test", vec![job.keeping([keep])], || ()).expect("starts");
        let mut answer = [0u8; 1];
        mine.read_exact(&mut answer).expect("the child answers");
        assert_eq!(answer, *b"1", "the other pair is closed in the child");
        pool.finish(&|| false).expect("it ends well");
        other_mine.write_all(b"x").expect("the parent's stay open");
        drop(other_its);
    }

    #[test]
    fn a_worker_that_ends_early_is_reported() {
        for (sharing, expect) in [(Sharing::Threads, "thread 0 ended early"), (Sharing::Processes, "exit code 0")] {
            let mut pool = WorkerPool::start(sharing, "test", vec![Job::new(|| ())], || ()).expect("starts");
            let why = loop {
                match pool.failed() {
                    Some(why) => break why,
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            assert!(why.contains(expect), "{why}");
        }
    }
}
