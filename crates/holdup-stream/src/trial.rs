//! One trial of `stream` without a profile: the coordinator's side.

use crate::connect::{self, Ends};
use crate::counts::{Flows, Workers};
use crate::flow::{Stream, buffer_bytes};
use crate::limit::FileLimit;
use crate::many::Room;
use crate::profile::{Mode, Protocol};
use crate::setup::Setup;
use crate::worker::Job;
use crate::{results, sockets};
use holdup_host::Host;
use holdup_host::network::{Counters, End};
use holdup_load::board::phase;
use holdup_load::clock::now_ns;
use holdup_load::drive::{self, Team};
use holdup_load::worker_pool::{self, Sharing, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_model::Problem;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a trial leaves to be reckoned with when all workers have ended.
pub(crate) struct Done<'a> {
    pub(crate) setup: &'a Setup,
    /// Connections that were open at the same time.
    pub(crate) held: u64,
    /// Connections of others that were turned away.
    pub(crate) strangers: u64,
    pub(crate) flows: &'a Flows,
    pub(crate) workers: &'a Workers,
    pub(crate) begin: &'a Edge,
    pub(crate) end: &'a Edge,
    /// Datagrams that were dropped at the receivers' sockets.
    pub(crate) socket_drops: u64,
    /// What the kernel counted from before the first transfer until after the last.
    pub(crate) counters: &'a Counters,
    /// TCP segments that another machine has sent again; `None` when the server is on this one, or does not count.
    pub(crate) sent_again_elsewhere: Option<u64>,
    /// True if both ends have the same clock.
    pub(crate) has_one_clock: bool,
}

/// What was counted at an edge of the window.
pub(crate) struct Edge {
    pub(crate) at_ns: u64,
    /// Of each connection: bytes sent, bytes received, transfers received.
    pub(crate) flows: Vec<[u64; 3]>,
    /// CPU time of the workers of the client and of the server; `None` when one could not be read.
    pub(crate) cpu_ns: [Option<u64>; 2],
}

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Host` when this machine does not have what it takes, of kind
/// `Interrupted` when it was cancelled.
pub fn run(setup: &Setup, host: &Host, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let count = if setup.mode == Mode::Both { 2 * setup.connections } else { setup.connections };
    let _limit = FileLimit::raise(count as u64)?;
    let network = setup.network.make(host)?;
    let connected = connect::all(setup, &network)?;
    let no_memory = |e: std::io::Error| Problem::trial(format!("{count} connections"), format!("no memory: {e}"));
    let flows = Arc::new(Flows::new(count).map_err(no_memory)?);
    let workers = Arc::new(Workers::new(2 * setup.workers).map_err(no_memory)?);
    let jobs = jobs(setup, &connected.ends, &flows, &workers)?;
    let drops_before = drops(setup, &connected.ends)?;
    let counters_before = network.counters()?;
    let stop = workers.clone();
    let pool = WorkerPool::start(setup.sharing, "stream", jobs, move || stop.stage().enter(phase::STOP))?;
    let team = Streams { workers: workers.clone(), pool };
    let edge = || Edge::read(setup, &flows, &workers);
    let (begin, end) = drive::through(trial, workers.stage(), 2 * setup.workers, team, edge)?;
    let socket_drops = drops(setup, &connected.ends)?.saturating_sub(drops_before);
    let counters = network.counters()?.minus(&counters_before);
    let mut result = results::of(&Done {
        setup,
        held: connected.ends.len() as u64,
        strangers: connected.strangers,
        flows: &flows,
        workers: &workers,
        begin: &begin,
        end: &end,
        socket_drops,
        counters: &counters,
        sent_again_elsewhere: None,
        has_one_clock: true,
    })?;
    result.notes.extend(network.facts().into_iter().map(|(name, value)| format!("{name}: {value}")));
    Ok(result)
}

fn jobs(
    setup: &Setup,
    ends: &[Ends],
    flows: &Arc<Flows>,
    workers: &Arc<Workers>,
) -> Result<Vec<worker_pool::Job>, Problem> {
    let mut jobs = Vec::with_capacity(2 * setup.workers);
    for (end, first, cpus) in
        [(End::Client, 0, &setup.placement.client), (End::Server, setup.workers, &setup.placement.server)]
    {
        let side = Side {
            ends: ends.iter().map(|ends| (ends.of(end), ends.sends(end))).collect(),
            workers: setup.workers,
            first,
            size: setup.size,
            interval_ns: setup.interval_ns,
            is_udp: setup.protocol == Protocol::Udp,
            is_apart: false,
            cpus: cpus.clone(),
        };
        jobs.extend(side.jobs(flows, workers)?);
    }
    Ok(jobs)
}

/// One end of all connections.
pub(crate) struct Side {
    /// The socket of each connection, and whether this end sends over it.
    pub(crate) ends: Vec<(RawFd, bool)>,
    pub(crate) workers: usize,
    /// The slot of the first worker.
    pub(crate) first: usize,
    pub(crate) size: u64,
    pub(crate) interval_ns: u64,
    pub(crate) is_udp: bool,
    /// True if the other end counts on another board.
    pub(crate) is_apart: bool,
    pub(crate) cpus: Option<Vec<u32>>,
}

impl Side {
    /// What the workers of this end do; each has every so-manieth connection.
    ///
    /// # Errors
    /// Of kind `Trial` when a socket cannot be made ready.
    pub(crate) fn jobs(&self, flows: &Arc<Flows>, workers: &Arc<Workers>) -> Result<Vec<worker_pool::Job>, Problem> {
        let one = |worker: usize| {
            let own = self.ends.iter().enumerate().skip(worker).step_by(self.workers);
            let streams: Vec<Stream> = own
                .map(|(index, (socket, sends))| Stream::new(*socket, index, *sends, self.is_udp, self.size))
                .collect();
            if let ([stream], true) = (streams.as_slice(), self.is_udp) {
                look_up(stream)?;
            }
            let keeps: Vec<_> = streams.iter().map(|stream| stream.socket).collect();
            let job = Job {
                workers: workers.clone(),
                flows: flows.clone(),
                index: self.first + worker,
                room: Room::new(streams.len()),
                streams,
                buffer: vec![0; buffer_bytes(self.size)],
                interval_ns: self.interval_ns,
                is_apart: self.is_apart,
                cpus: self.cpus.clone(),
            };
            Ok(worker_pool::Job::new(move || job.run()).keeping(keeps))
        };
        (0..self.workers).map(one).collect()
    }
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
    let unknown = |e| Problem::trial("udp connections", format!("the count of dropped datagrams cannot be read: {e}"));
    ends.iter().map(|ends| sockets::drops(ends.receiver())).sum::<std::io::Result<u64>>().map_err(unknown)
}

impl Edge {
    fn read(setup: &Setup, flows: &Flows, workers: &Workers) -> Self {
        let server = cpu_ns(setup, workers, setup.workers);
        let client = Edge::client(setup, flows, workers);
        Edge { cpu_ns: [client.cpu_ns[0], server], ..client }
    }

    /// The same without the CPU time of the server's workers.
    pub(crate) fn client(setup: &Setup, flows: &Flows, workers: &Workers) -> Self {
        let at_ns = now_ns();
        let flow = |flow: &crate::counts::Flow| {
            let (sent, received) = (&flow.sent.0, &flow.received.0);
            [&sent.bytes, &received.bytes, &received.transfers].map(|count| count.load(Ordering::Relaxed))
        };
        Edge { at_ns, cpu_ns: [cpu_ns(setup, workers, 0), None], flows: flows.slots().map(flow).collect() }
    }
}

/// CPU time of one end's workers, the first of which has this slot.
fn cpu_ns(setup: &Setup, workers: &Workers, first: usize) -> Option<u64> {
    let processes = setup.sharing == Sharing::Processes;
    (first..first + setup.workers).map(|i| workers.slot(i).cpu_ns(processes)).sum()
}

/// The workers, and why one of them gave up.
struct Streams {
    workers: Arc<Workers>,
    pool: WorkerPool,
}

/// What the first of the workers that gave up says of itself; those of the client have the first `client` slots.
pub(crate) fn gave_up(workers: &Workers, client: usize) -> Option<String> {
    workers.slots().enumerate().find_map(|(index, worker)| {
        let why = worker.failure()?;
        let (end, index) = if index < client { ("client", index) } else { ("server", index - client) };
        Some(format!("worker {index} of the {end} end {why}"))
    })
}

/// Where both ends are here, the client one has the first half of the slots.
fn one_gave_up(workers: &Workers) -> Option<String> {
    gave_up(workers, workers.slots().count() / 2)
}

impl Team for Streams {
    fn failed(&mut self) -> Option<String> {
        // A worker that was killed leaves its peer with an error that says less.
        match self.pool.failed() {
            Some(dead) => Some(one_gave_up(&self.workers).filter(|_| dead.contains("ended early")).unwrap_or(dead)),
            None => one_gave_up(&self.workers),
        }
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.pool.finish(hurry)?;
        one_gave_up(&self.workers).map_or(Ok(()), |why| Err(Problem::trial("a worker is gone", why)))
    }
}
