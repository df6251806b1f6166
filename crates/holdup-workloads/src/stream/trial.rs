//! One trial of `stream` without a profile: the coordinator's side.

use crate::load::board::phase;
use crate::load::clock::now_ns;
use crate::load::crew::{self, Crew, Sharing};
use crate::load::drive::{self, Team};
use crate::stream::connect::{self, Connected, Ends};
use crate::stream::counts::{Flows, Workers};
use crate::stream::flow::{Stream, buffer_bytes};
use crate::stream::limit::FileLimit;
use crate::stream::many::Room;
use crate::stream::profile::{Mode, Protocol};
use crate::stream::setup::Setup;
use crate::stream::worker::Job;
use crate::stream::{results, sockets};
use crate::{TrialContext, TrialResult};
use holdup_host::Host;
use holdup_host::network::{Counters, End};
use holdup_model::Problem;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a trial leaves to be reckoned with when all workers have ended.
pub(crate) struct Done<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) connected: &'a Connected,
    pub(crate) flows: &'a Flows,
    pub(crate) workers: &'a Workers,
    pub(crate) begin: &'a Edge,
    pub(crate) end: &'a Edge,
    /// Datagrams that were dropped at the receivers' sockets.
    pub(crate) socket_drops: u64,
    /// What the kernel counted from before the first transfer until after the last.
    pub(crate) counters: &'a Counters,
}

/// What was counted at an edge of the window.
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    /// Of each connection: bytes sent, bytes received, transfers received.
    pub(crate) flows: Vec<[u64; 3]>,
    /// CPU time of the workers of the near and of the far end; `None` when one could not be read.
    pub(crate) cpu_ns: [Option<u64>; 2],
}

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Host` when this machine does not have what it takes, of kind
/// `Interrupted` when it was cancelled.
pub(crate) fn run(setup: &Setup, host: &Host, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let count = if setup.mode == Mode::Both { 2 * setup.connections } else { setup.connections };
    let _limit = FileLimit::raise(count as u64)?;
    let network = setup.network(host)?;
    let connected = connect::all(setup, &network)?;
    let no_memory = |e: std::io::Error| Problem::trial(format!("{count} connections"), format!("no memory: {e}"));
    let flows = Arc::new(Flows::new(count).map_err(no_memory)?);
    let workers = Arc::new(Workers::new(2 * setup.workers).map_err(no_memory)?);
    let jobs = jobs(setup, &connected.ends, &flows, &workers)?;
    let drops_before = drops(setup, &connected.ends)?;
    let counters_before = network.counters()?;
    let stop = workers.clone();
    let crew = Crew::start(setup.sharing, "stream", jobs, move || stop.stage().enter(phase::STOP))?;
    let team = Streams { workers: workers.clone(), crew };
    let edge = || Edge::read(setup, &flows, &workers);
    let (begin, end) = drive::through(trial, workers.stage(), 2 * setup.workers, team, edge)?;
    let socket_drops = drops(setup, &connected.ends)?.saturating_sub(drops_before);
    let counters = network.counters()?.minus(&counters_before);
    results::of(&Done {
        setup,
        connected: &connected,
        flows: &flows,
        workers: &workers,
        begin: &begin,
        end: &end,
        socket_drops,
        counters: &counters,
    })
}

fn jobs(setup: &Setup, ends: &[Ends], flows: &Arc<Flows>, workers: &Arc<Workers>) -> Result<Vec<crew::Job>, Problem> {
    let is_udp = setup.protocol == Protocol::Udp;
    let mut jobs = Vec::with_capacity(2 * setup.workers);
    for end in [End::Near, End::Far] {
        for worker in 0..setup.workers {
            let own = ends.iter().enumerate().skip(worker).step_by(setup.workers);
            let streams: Vec<Stream> = own
                .map(|(index, ends)| Stream::new(ends.of(end), index, ends.sends(end), is_udp, setup.size))
                .collect();
            if let ([stream], true) = (streams.as_slice(), is_udp) {
                look_up(stream)?;
            }
            let (first, cpus) = match end {
                End::Near => (0, setup.placement.near.clone()),
                End::Far => (setup.workers, setup.placement.far.clone()),
            };
            let keeps: Vec<_> = streams.iter().map(|stream| stream.socket).collect();
            let job = Job {
                workers: workers.clone(),
                flows: flows.clone(),
                index: first + worker,
                room: Room::new(streams.len()),
                streams,
                buffer: vec![0; buffer_bytes(setup.size)],
                interval_ns: setup.interval_ns,
                cpus,
            };
            jobs.push(crew::Job::new(move || job.run()).keeping(keeps));
        }
    }
    Ok(jobs)
}

/// A datagram that does not come must not keep its receiver from seeing the end.
fn look_up(stream: &Stream) -> Result<(), Problem> {
    let wait = Some(Duration::from_millis(20));
    // SAFETY: the connections are open as long as the trial.
    let socket = unsafe { BorrowedFd::borrow_raw(stream.socket) };
    sockets::wait_at_most(socket, wait, None)
        .map_err(|e| Problem::trial("udp connections", format!("SO_RCVTIMEO cannot be set: {e}")))
}

fn drops(setup: &Setup, ends: &[Ends]) -> Result<u64, Problem> {
    if setup.protocol != Protocol::Udp {
        return Ok(0);
    }
    let unknown = |e| Problem::trial("udp connections", format!("the kernel does not tell what it dropped: {e}"));
    ends.iter().map(|ends| sockets::drops(ends.receiver())).sum::<std::io::Result<u64>>().map_err(unknown)
}

impl Edge {
    fn read(setup: &Setup, flows: &Flows, workers: &Workers) -> Self {
        let processes = setup.sharing == Sharing::Processes;
        let cpu = |first: usize| (first..first + setup.workers).map(|i| workers.slot(i).cpu_ns(processes)).sum();
        let at_ns = now_ns();
        let flow = |flow: &crate::stream::counts::Flow| {
            let (sent, received) = (&flow.sent.0, &flow.received.0);
            [&sent.bytes, &received.bytes, &received.transfers].map(|count| count.load(Ordering::Relaxed))
        };
        Edge { at_ns, cpu_ns: [cpu(0), cpu(setup.workers)], flows: flows.slots().map(flow).collect() }
    }
}

/// The workers, and why one of them gave up.
struct Streams {
    workers: Arc<Workers>,
    crew: Crew,
}

/// What the first of the workers that gave up says of itself.
fn gave_up(workers: &Workers) -> Option<String> {
    let of_end = workers.slots().count() / 2;
    workers.slots().enumerate().find_map(|(index, worker)| {
        let why = worker.failure()?;
        let (end, index) = if index < of_end { ("near", index) } else { ("far", index - of_end) };
        Some(format!("worker {index} of the {end} end {why}"))
    })
}

impl Team for Streams {
    fn failed(&mut self) -> Option<String> {
        // A worker that was killed leaves its peer with an error that says less.
        match self.crew.failed() {
            Some(dead) => Some(gave_up(&self.workers).filter(|_| dead.contains("ended early")).unwrap_or(dead)),
            None => gave_up(&self.workers),
        }
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.crew.finish(hurry)?;
        gave_up(&self.workers).map_or(Ok(()), |why| Err(Problem::trial("a worker is gone", why)))
    }
}
