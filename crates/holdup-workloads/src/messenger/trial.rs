//! One trial of `messenger`: the coordinator's side.

use crate::messenger::message::Message;
use crate::messenger::results::{self, Done, Edge, Received, Sent};
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
    let region = Arc::new(region(setup)?);
    region.head().expect((setup.groups * setup.receivers) as u32);
    let wires = files::with_room(setup.files(), || {
        wires::make(setup.transport, setup.groups, setup.receivers).map_err(|e| {
            Problem::trial(format!("{} files for {tasks} tasks", setup.files()), format!("they cannot be made: {e}"))
        })
    })?;
    let pool = start(setup, &region, jobs(setup, &region, wires, trial.seed, 0))?;
    let team = Tasks { region: region.clone(), pool };
    let stage = region.stage();
    let reading = || edge(setup, &region);
    let (begin, end) = match setup.messages {
        Some(_) => drive::through_work(trial, stage, tasks, team, reading, |most| region.head().wait(most))?,
        None => drive::through(trial, stage, tasks, team, reading)?,
    };
    let (sent, received) = (Sent::read(setup, &region), Received::read(setup, &region, 0));
    results::of(&Done { setup, begin, end, sent, received, apart: None })
}

/// The memory of one trial.
///
/// # Errors
/// Of kind `Trial` when there is none.
pub(super) fn region(setup: &Setup) -> Result<Region, Problem> {
    let tasks = setup.tasks();
    Region::new(tasks).map_err(|e| Problem::trial(format!("{tasks} tasks"), format!("no memory for their counts: {e}")))
}

/// Starts tasks.
///
/// # Errors
/// Of kind `Trial` when they cannot be started.
pub(super) fn start(setup: &Setup, region: &Arc<Region>, jobs: Vec<worker_pool::Job>) -> Result<WorkerPool, Problem> {
    let stop = region.clone();
    WorkerPool::start(setup.sharing, "msg", jobs, move || stop.stage().enter(phase::STOP))
}

/// The tasks of the ends that are here. In each group the receivers' slots come first, the senders' are behind.
pub(super) fn jobs(
    setup: &Setup,
    region: &Arc<Region>,
    wires: Vec<Wires>,
    seed: u64,
    sender_less_own_ns: i64,
) -> Vec<worker_pool::Job> {
    let sender_cpus = setup.placement.client.clone().map(Arc::new);
    let receiver_cpus = setup.placement.server.clone().map(Arc::new);
    let mut jobs = Vec::with_capacity(setup.tasks());
    for (group, Wires { into, out }) in wires.into_iter().enumerate() {
        let first = group * (setup.senders + setup.receivers);
        let is_apart = into.is_empty() || out.is_empty();
        let task = |index: usize, cpus: &Option<Arc<Vec<u32>>>| Task {
            region: region.clone(),
            index: first + index,
            message: Message::new(setup.size),
            cpus: cpus.clone(),
            sample_every: setup.sample_every,
            sender_less_own_ns,
            is_apart,
        };
        let expected = setup.messages.map(|messages| messages * setup.senders as u64);
        for (index, out) in out.into_iter().enumerate() {
            let task = task(index, &receiver_cpus);
            let file = out.as_raw_fd();
            jobs.push(worker_pool::Job::new(move || worker::receiver(task, &out, expected)).keeping([file]));
        }
        for index in (0..setup.senders).filter(|_| !into.is_empty()) {
            let task = task(setup.receivers + index, &sender_cpus);
            let seed = seed ^ (task.index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
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

/// Messages of the senders so far, or of the receivers.
pub(super) fn count(setup: &Setup, region: &Region, senders: bool) -> u64 {
    slots(setup, region, senders).map(|s| s.messages.0.load(Ordering::Acquire)).sum()
}

/// What was sent and received so far.
fn edge(setup: &Setup, region: &Region) -> Edge {
    let before = now_ns();
    // Received first: what is received was sent, also when more happens between the two readings.
    let (received, sent) = (count(setup, region, false), count(setup, region, true));
    Edge { at_ns: before + (now_ns() - before) / 2, sent, received }
}

/// The senders and receivers of a trial. Dropping ends all of them.
struct Tasks {
    region: Arc<Region>,
    pool: WorkerPool,
}

/// Why a task gave up, if one did.
pub(super) fn gave_up(region: &Region) -> Option<String> {
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

/// Why one of the tasks failed.
pub(super) fn failed(region: &Region, pool: &mut WorkerPool) -> Option<String> {
    // A task that was killed is reported before those of its group whose peer is gone, which only follows from it.
    let ended = pool.failed();
    match gave_up(region) {
        Some(why) if ended.as_ref().is_none_or(|ended| !ended.contains("killed")) => Some(why),
        _ => ended,
    }
}

impl Team for Tasks {
    fn failed(&mut self) -> Option<String> {
        failed(&self.region, &mut self.pool)
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.pool.finish(hurry)?;
        gave_up(&self.region).map_or(Ok(()), |why| Err(Problem::trial("a task did not end well", why)))
    }
}
