//! One trial of `messenger`: the coordinator's side.

use crate::messenger::message::Message;
use crate::messenger::results::{self, Edge};
use crate::messenger::setup::Setup;
use crate::messenger::wires::{self, Wires};
use crate::messenger::worker::{self, Region, Task};
use holdup_load::board::phase;
use holdup_load::clock::now_ns;
use holdup_load::drive::{self, Team};
use holdup_load::files;
use holdup_load::worker_pool::{self, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_model::Problem;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub(crate) fn run(setup: &Setup, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let tasks = setup.tasks();
    let region = Region::new(tasks)
        .map_err(|e| Problem::trial(format!("{tasks} tasks"), format!("no memory for their counts: {e}")))?;
    let region = Arc::new(region);
    region.head().expect((setup.groups * setup.receivers) as u32);
    let wires = files::with_room(setup.files(), || {
        wires::make(setup.transport, setup.groups, setup.receivers).map_err(|e| {
            Problem::trial(format!("{} files for {tasks} tasks", setup.files()), format!("they cannot be made: {e}"))
        })
    })?;
    let jobs = jobs(setup, &region, wires, trial.seed);
    let stop = region.clone();
    let pool = WorkerPool::start(setup.sharing, "msg", jobs, move || stop.stage().enter(phase::STOP))?;
    let team = Tasks { region: region.clone(), pool };
    let stage = region.stage();
    let reading = || edge(setup, &region);
    let (begin, end) = match setup.messages {
        Some(_) => drive::through_work(trial, stage, tasks, team, reading, |most| region.head().wait(most))?,
        None => drive::through(trial, stage, tasks, team, reading)?,
    };
    results::of(setup, &region, begin, end)
}

/// In each group the receivers come first: their slots are `0..receivers`, the senders' are behind.
fn jobs(setup: &Setup, region: &Arc<Region>, wires: Vec<Wires>, seed: u64) -> Vec<worker_pool::Job> {
    let sender_cpus = setup.placement.client.clone().map(Arc::new);
    let receiver_cpus = setup.placement.server.clone().map(Arc::new);
    let mut jobs = Vec::with_capacity(setup.tasks());
    for Wires { into, out } in wires {
        let task = |index: usize, cpus: &Option<Arc<Vec<u32>>>| Task {
            region: region.clone(),
            index,
            message: Message::new(setup.size),
            cpus: cpus.clone(),
            sample_every: setup.sample_every,
        };
        let expected = setup.messages.map(|messages| messages * setup.senders as u64);
        for out in out {
            let task = task(jobs.len(), &receiver_cpus);
            let file = out.as_raw_fd();
            jobs.push(worker_pool::Job::new(move || worker::receiver(task, &out, expected)).keeping([file]));
        }
        for _ in 0..setup.senders {
            let task = task(jobs.len(), &sender_cpus);
            let seed = seed ^ (jobs.len() as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let files: Vec<_> = into.iter().map(AsRawFd::as_raw_fd).collect();
            let (into, rounds) = (into.clone(), setup.messages);
            jobs.push(worker_pool::Job::new(move || worker::sender(task, &into, rounds, seed)).keeping(files));
        }
    }
    jobs
}

/// The senders' slots, or the receivers'.
pub(super) fn slots<'a>(
    setup: &Setup,
    region: &'a Region,
    senders: bool,
) -> impl Iterator<Item = &'a worker::Slot> + use<'a> {
    let (per_group, receivers) = (setup.senders + setup.receivers, setup.receivers);
    region.slots().enumerate().filter(move |(i, _)| (i % per_group >= receivers) == senders).map(|(_, slot)| slot)
}

/// What was sent and received so far.
fn edge(setup: &Setup, region: &Region) -> Edge {
    let count = |senders| slots(setup, region, senders).map(|s| s.messages.0.load(Ordering::Acquire)).sum();
    let before = now_ns();
    // Received first: what is received was sent, also when more happens between the two readings.
    let (received, sent) = (count(false), count(true));
    Edge { at_ns: before + (now_ns() - before) / 2, sent, received }
}

/// The senders and receivers of a trial. Dropping ends all of them.
struct Tasks {
    region: Arc<Region>,
    pool: WorkerPool,
}

/// Why a task gave up, if one did.
fn gave_up(region: &Region) -> Option<String> {
    if !region.head().is_troubled() {
        return None;
    }
    region.slots().enumerate().find_map(|(index, slot)| match slot.errno.load(Ordering::Acquire) {
        0 => None,
        errno => {
            let why = io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
            Some(format!("task {index} gave up: {why}"))
        }
    })
}

impl Team for Tasks {
    fn failed(&mut self) -> Option<String> {
        // A task that was killed is reported before those of its group whose peer is gone, which only follows from it.
        let ended = self.pool.failed();
        match gave_up(&self.region) {
            Some(why) if ended.as_ref().is_none_or(|ended| !ended.contains("killed")) => Some(why),
            _ => ended,
        }
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.pool.finish(hurry)?;
        gave_up(&self.region).map_or(Ok(()), |why| Err(Problem::trial("a task did not end well", why)))
    }
}
