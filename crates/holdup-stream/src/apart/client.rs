//! The client, which leads.

use super::messages::{Answer, Begin, Counts, Order};
use super::{MOST_CONNECTIONS, ServerSide};
use crate::connect::{self, HangUp};
use crate::counts::{Flows, Workers};
use crate::limit::FileLimit;
use crate::profile::{Mode, Protocol};
use crate::setup::Setup;
use crate::trial::{Done, Edge, Side, gave_up};
use crate::{results, sockets};
use holdup_host::Host;
use holdup_host::network::{Network, Options, Topology};
use holdup_load::board::phase;
use holdup_load::drive::{self, Team};
use holdup_load::peer::{self, Server, out_of_turn};
use holdup_load::worker_pool::{Sharing, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_model::Problem;
use holdup_model::ends::ServiceAccess;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whether two machines can take part in what is asked for; `with` is what makes them two.
///
/// # Errors
/// Of kind `Usage` when they cannot.
pub fn check(setup: &Setup, with: &str) -> Result<(), Problem> {
    let refuse =
        |what: String, why: &str, hint: &str| Err(Problem::usage(format!("{what} with {with}"), why).hint(hint));
    if setup.protocol != Protocol::Tcp {
        let what = format!("protocol {}", setup.protocol.word());
        return refuse(what, "drops are not counted there", "protocol = tcp");
    }
    if setup.profile.is_some() {
        return refuse("a profile".to_owned(), "profiles run on one host", "leave it out");
    }
    if setup.placement.client.is_some() {
        return refuse("placement".to_owned(), "each machine places its own end", "placement = none");
    }
    if setup.connections > MOST_CONNECTIONS {
        let what = format!("{} connections", setup.connections);
        return refuse(what, "a listener holds 1000", "take fewer");
    }
    Ok(())
}

/// The peer of this guest.
///
/// # Errors
/// Of kind `Host` when it has none.
pub fn peer_of(host: &Host) -> Result<ServiceAccess, Problem> {
    peer::of_this_host(host).ok_or_else(|| {
        Problem::host("network peer", "this host has no peer").hint("[guest] peer = true boots two guests with a link")
    })
}

/// True if the client sends over a connection.
fn client_sends(mode: Mode, index: usize) -> bool {
    match mode {
        Mode::Write => true,
        Mode::Read => false,
        Mode::Both => index.is_multiple_of(2),
    }
}

/// Runs one trial with a server.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub fn run(
    server: Server<ServerSide>,
    setup: &Setup,
    host: &Host,
    trial: TrialContext<'_>,
) -> Result<TrialResult, Problem> {
    let count = if setup.mode == Mode::Both { 2 * setup.connections } else { setup.connections };
    let _limit = FileLimit::raise(count as u64)?;
    let server = Rc::new(server);
    let sends: Vec<bool> = (0..count).map(|index| client_sends(setup.mode, index)).collect();
    let (sockets, strangers) = connected(setup, &server, &sends)?;
    let no_memory = |e: std::io::Error| Problem::trial(format!("{count} connections"), format!("no memory: {e}"));
    let flows = Arc::new(Flows::new(count).map_err(no_memory)?);
    let workers = Arc::new(Workers::new(setup.workers).map_err(no_memory)?);
    let side = Side {
        ends: sockets.iter().map(sockets::number).zip(sends.iter().copied()).collect(),
        workers: setup.workers,
        first: 0,
        size: setup.size,
        interval_ns: setup.interval_ns,
        is_udp: false,
        is_apart: true,
        cpus: None,
    };
    let jobs = side.jobs(&flows, &workers)?;
    let network = Network::make(Topology::Host, Options::default(), host)?;
    let counters_before = network.counters()?;
    let stop = workers.clone();
    let pool = WorkerPool::start(setup.sharing, "stream", jobs, move || stop.stage().enter(phase::STOP))?;
    let theirs = Theirs { flows: flows.clone(), sends, retransmitted: Rc::default() };
    let line = HangUp(sockets.iter().map(sockets::number).collect());
    let team = Apart { line, pool, workers: workers.clone(), server: server.clone(), theirs: theirs.clone() };
    let edge = || edge(setup, &server, &theirs, &workers);
    let (begin, end) = drive::through(trial, workers.stage(), setup.workers, team, edge)?;
    let (begin, end) = (begin?, end?);
    let mut counters = network.counters()?.minus(&counters_before);
    let done = Done {
        setup,
        held: count as u64,
        strangers,
        flows: &flows,
        workers: &workers,
        begin: &begin,
        end: &end,
        socket_drops: 0,
        counters: &mut counters,
        sent_again_elsewhere: theirs.sent_again(),
        has_one_clock: false,
    };
    results::of(&done)
}

/// Connects all, and lets the server work.
fn connected(setup: &Setup, server: &Server<ServerSide>, sends: &[bool]) -> Result<(Vec<OwnedFd>, u64), Problem> {
    let begin = Begin {
        sends: sends.iter().map(|client| !client).collect(),
        size: setup.size,
        workers: setup.workers,
        processes: setup.sharing == Sharing::Processes,
        interval_ns: setup.interval_ns,
        no_delay: setup.sockets.no_delay,
        send_buffer: setup.sockets.send_buffer,
        receive_buffer: setup.sockets.receive_buffer,
    };
    let port = match server.ask(Order::Begin(begin))? {
        Answer::Listening(port) => port,
        other => return out_of_turn(&other),
    };
    let target = SocketAddr::new(server.address().ip(), port);
    let failed = |e: std::io::Error| Problem::trial("tcp connections", format!("{target} cannot be connected to: {e}"));
    let mut sockets = Vec::with_capacity(sends.len());
    let mut from = Vec::with_capacity(sends.len());
    for _ in sends {
        let socket = connect::call(target, &setup.sockets).map_err(failed)?;
        from.push(sockets::local_address(socket.as_fd()).map_err(failed)?);
        sockets.push(socket);
    }
    match server.ask(Order::Work(from))? {
        Answer::Working(strangers) => Ok((sockets, strangers)),
        other => out_of_turn(&other),
    }
}

/// What the server counted, put on the client's board.
#[derive(Clone)]
struct Theirs {
    flows: Arc<Flows>,
    /// Whether the client sends.
    sends: Vec<bool>,
    /// The server's count of segments sent again, at its first reading and at its last.
    retransmitted: Rc<RefCell<Option<(u64, u64)>>>,
}

impl Theirs {
    fn take(&self, counts: &Counts) {
        for ((flow, client_sends), (bytes, transfers)) in self.flows.slots().zip(&self.sends).zip(&counts.moved) {
            let side = if *client_sends { &flow.received.0 } else { &flow.sent.0 };
            side.bytes.store(*bytes, Ordering::Release);
            side.transfers.store(*transfers, Ordering::Release);
        }
        if let Some(now) = counts.retransmitted {
            let first = self.retransmitted.borrow().map_or(now, |(first, _)| first);
            *self.retransmitted.borrow_mut() = Some((first, now));
        }
    }

    fn sent_again(&self) -> Option<u64> {
        self.retransmitted.borrow().map(|(first, last)| last.saturating_sub(first))
    }
}

/// Both sides' counts.
fn edge(setup: &Setup, server: &Server<ServerSide>, theirs: &Theirs, workers: &Workers) -> Result<Edge, Problem> {
    let (counts, at_ns) = match server.ask_when(Order::Read)? {
        (Answer::Edge(counts), at_ns) => (counts, at_ns),
        (other, _) => return out_of_turn(&other),
    };
    theirs.take(&counts);
    let client = Edge::client(setup, &theirs.flows, workers);
    Ok(Edge { at_ns, cpu_ns: [client.cpu_ns[0], counts.cpu_ns], flows: client.flows })
}

/// The client's workers, and the server with its own.
struct Apart {
    // Dropped in this order.
    line: HangUp,
    pool: WorkerPool,
    workers: Arc<Workers>,
    server: Rc<Server<ServerSide>>,
    theirs: Theirs,
}

impl Team for Apart {
    fn failed(&mut self) -> Option<String> {
        gave_up(&self.workers, usize::MAX).or_else(|| self.pool.failed())
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        // The client's senders stop first, so that the server's receivers come to an end while the answer is awaited.
        self.workers.stage().enter(phase::STOP);
        let Apart { mut line, pool, workers, server, theirs } = self;
        match server.ask(Order::End)? {
            Answer::Ended(counts) => theirs.take(&counts),
            other => return out_of_turn(&other),
        }
        // They end in order, each when the other end is done.
        line.0.clear();
        pool.finish(hurry)?;
        gave_up(&workers, usize::MAX).map_or(Ok(()), |why| Err(Problem::trial("a worker is gone", why)))
    }
}
