//! Processes that do one thing until they are told to end.

use crate::group::Group;
use holdup_host::Host;
use holdup_load::board::{Board, phase};
use holdup_load::crew::{self, Crew, Sharing};
use holdup_model::Problem;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// Whether a process goes on.
pub(crate) struct Told(Arc<Board<(), ()>>);

impl Told {
    /// Whether it should end.
    pub(crate) fn to_stop(&self) -> bool {
        self.0.stage().stopped()
    }
}

/// What a process does until it is told to stop.
pub(crate) type Job = Box<dyn FnOnce(Told) + Send>;

/// Running processes. Dropping ends them.
pub struct Processes {
    // Ended before their group is removed.
    crew: Crew,
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
        self.crew.failed()
    }

    /// Starts processes of a name (at most 15 bytes count), which begin when `prepare` has seen all of them.
    pub(crate) fn start(
        name: &'static CStr,
        jobs: Vec<(Job, Vec<RawFd>)>,
        prepare: impl FnOnce(&Host, &[u32]) -> Result<Option<Group>, Problem>,
    ) -> Result<Self, Problem> {
        let count = jobs.len();
        let no_memory = |e| Problem::host("induced processes", format!("no memory for what they are told: {e}"));
        let board = Arc::new(Board::<(), ()>::new(0).map_err(no_memory)?);
        let job = |(run, keeps): (Job, Vec<RawFd>)| {
            let told = Told(board.clone());
            let job = crew::Job::new(move || {
                // SAFETY: the name is ended by a zero byte.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                if told.0.stage().wait_for_begin() {
                    run(told);
                }
            });
            job.keeping(keeps)
        };
        let stop = board.clone();
        let jobs = jobs.into_iter().map(job).collect();
        let mut crew = Crew::start(Sharing::Processes, "induced", jobs, move || stop.stage().enter(phase::STOP))?;
        while board.stage().ready() < count {
            if let Some(why) = crew.failed() {
                return Err(Problem::host("induced processes", why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let pids = crew.pids();
        let group = prepare(&Host::real(), &pids)?;
        board.stage().enter(phase::OPEN);
        Ok(Processes { crew, pids, _group: group })
    }
}
