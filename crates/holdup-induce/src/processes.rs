//! Processes that do one thing until they are asked to end.

use crate::group::Group;
use holdup_host::Host;
use holdup_load::board::{Board, phase};
use holdup_load::worker_pool::{self, Sharing, WorkerPool};
use holdup_model::Problem;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// Whether a process is to end.
pub(crate) struct StopFlag(Arc<Board<(), ()>>);

impl StopFlag {
    /// True if it should end.
    pub(crate) fn is_set(&self) -> bool {
        self.0.stage().stopped()
    }
}

/// What a process does until its flag is set.
pub(crate) type Job = Box<dyn FnOnce(StopFlag) + Send>;

/// Running processes. Dropping ends them.
pub struct Processes {
    // Ended before their group is removed.
    pool: WorkerPool,
    pids: Vec<u32>,
    _group: Option<Group>,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Processes").field(&self.pids).finish()
    }
}

impl Processes {
    /// Their ids.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// What one of them died of, if one did.
    pub fn failed(&mut self) -> Option<String> {
        self.pool.failed()
    }

    /// Starts processes of a name (at most 15 bytes count), which begin when `prepare` has seen all of them.
    pub(crate) fn start(
        name: &'static CStr,
        jobs: Vec<(Job, Vec<RawFd>)>,
        prepare: impl FnOnce(&Host, &[u32]) -> Result<Option<Group>, Problem>,
    ) -> Result<Self, Problem> {
        let count = jobs.len();
        let no_memory = |e| Problem::host("induced processes", format!("no memory for their stop flag: {e}"));
        let board = Arc::new(Board::<(), ()>::new(0).map_err(no_memory)?);
        let job = |(run, keeps): (Job, Vec<RawFd>)| {
            let stop = StopFlag(board.clone());
            let job = worker_pool::Job::new(move || {
                // SAFETY: the name is ended by a zero byte.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                if stop.0.stage().wait_for_begin() {
                    run(stop);
                }
            });
            job.keeping(keeps)
        };
        let stop = board.clone();
        let jobs = jobs.into_iter().map(job).collect();
        let mut pool = WorkerPool::start(Sharing::Processes, "induced", jobs, move || stop.stage().enter(phase::STOP))?;
        while board.stage().ready() < count {
            if let Some(why) = pool.failed() {
                return Err(Problem::host("induced processes", why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let pids = pool.pids();
        let group = prepare(&Host::real(), &pids)?;
        board.stage().enter(phase::OPEN);
        Ok(Processes { pool, pids, _group: group })
    }
}
