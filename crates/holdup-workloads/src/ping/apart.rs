//! `ping` between two hosts: each runs one end, with its own board.
//!
//! The client leads. Over the connection to the server's service ([`holdup_load::service`]) it says what to make, reads
//! the server's counts at the edges of the window, and says how much it sent. After the last message both ends' counts stand
//! on the client's board, and are reckoned with as those of one host. The server places arrivals by the client's clock, so
//! one-way times are off by the error of that comparison; it is made before the first message and after the last.

use crate::ping::region::{CLIENT, ENDS, Region, SERVER, ending};
use crate::ping::results::{self, Done, Edge, Used, used};
use crate::ping::setup::{LARGEST_IN_STREAM, Setup};
use crate::ping::sockets::{self, End, Here, Side};
use crate::ping::trial::{self, gave_up};
use holdup_host::Host;
use holdup_load::board::phase;
use holdup_load::drive::{self, Team};
use holdup_load::peer::{Clocks, RemoteEnd, Server, order_out_of_turn, out_of_turn};
use holdup_load::record;
use holdup_load::two_ends::ClockError;
use holdup_load::worker_pool::WorkerPool;
use holdup_load::{TrialContext, TrialResult};
use holdup_model::{Histogram, Problem};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// From the client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Make the server's socket; that of the client is at this address, if it can be known already. Answer:
    /// [`Answer::Bound`].
    Begin(Box<Setup>, Option<SocketAddr>),
    /// Take the connection from this address, if there are connections, and work. Answer: [`Answer::Working`].
    Work {
        /// Where the client connects from.
        from: Option<SocketAddr>,
        /// The client's CLOCK_MONOTONIC less the server's, ns.
        client_less_server_ns: i64,
    },
    /// The window is open, or closed. Answer: [`Answer::Edge`].
    Edge { is_open: bool },
    /// The client sends no more, and has sent this number of messages. Answer: [`Answer::Ended`].
    End(u64),
}

/// From the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Bound(SocketAddr),
    /// Its end runs.
    Working,
    /// What it counted so far.
    Edge(Counts),
    /// Its end has ended.
    Ended(Box<Totals>),
}

/// What the server counted so far.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Counts {
    received: u64,
    received_bytes: u64,
    dropped: u32,
}

/// What the server counted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Totals {
    counts: Counts,
    sent: u64,
    not_sent: u64,
    late: u64,
    again: u64,
    strangers: u64,
    one_way: Histogram,
    used: Option<Used>,
}

fn no_socket(e: io::Error) -> Problem {
    Problem::trial("the socket", e.to_string())
}

/// Runs one trial with a server.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub(crate) fn run(server: Server<ServerSide>, setup: &Setup, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let before = server.compare_clocks()?;
    // The server's less the client's is what was compared.
    let client_less_server_ns = before.monotonic.offset_ns.saturating_neg();
    let (end, from) = joined(&server, setup)?;
    match server.ask(Order::Work { from, client_less_server_ns })? {
        Answer::Working => {}
        other => return out_of_turn(&other),
    }
    let end = Arc::new(end);
    let region = Region::new(ENDS).map_err(|e| Problem::trial("ping", format!("no memory for its counts: {e}")))?;
    let region = Arc::new(region);
    let pool = trial::start(setup, &region, vec![trial::client_job(setup, &region, &end, true)])?;
    let (server, brought) = (Rc::new(server), Rc::new(RefCell::new(None)));
    let team = Pair { region: region.clone(), pool, server: server.clone(), brought: brought.clone() };
    let is_open = Cell::new(true);
    let edge = || edge(&region, &server, is_open.replace(false));
    let (begin, stop) = drive::through(trial, region.stage(), 1, team, edge)?;
    let (begin, stop) = (begin?, stop?);
    let missing = || Problem::internal("ping", "the server said nothing at its end");
    let (totals, after): (Box<Totals>, Clocks) = brought.borrow_mut().take().ok_or_else(missing)?;
    let client_drops = if setup.protocol.may_lose() { sockets::drops(&*end).map_err(no_socket)? } else { 0 };
    results::of(&Done {
        setup,
        region: &region,
        begin: &begin,
        end: &stop,
        drops: [client_drops, totals.counts.dropped],
        strangers: end.strangers() + totals.strangers,
        one_way: &totals.one_way,
        used: [used(region.slot(CLIENT)), totals.used],
        apart: Some(ClockError::of(&before, &after)),
    })
}

/// The client's socket, joined to the server's; where it connects from, if it does.
fn joined(server: &Server<ServerSide>, setup: &Setup) -> Result<(End, Option<SocketAddr>), Problem> {
    let here = Here(server.own_address());
    let begin = |at| match server.ask(Order::Begin(Box::new(setup.clone()), at))? {
        Answer::Bound(at) => Ok(at),
        other => out_of_turn(&other),
    };
    if setup.protocol.is_stream() {
        let socket = sockets::call(&here, setup, begin(None)?).map_err(no_socket)?;
        let from = sockets::own_address(&socket).map_err(no_socket)?;
        let end = sockets::stream_end(socket, setup, 0).map_err(no_socket)?;
        sockets::made_ready(&end, setup)?;
        return Ok((end, Some(from)));
    }
    let mut end = sockets::datagram(&here, Side::Client).map_err(no_socket)?;
    let at = begin(Some(sockets::own_address(&end).map_err(no_socket)?))?;
    end.join(at, setup).map_err(no_socket)?;
    sockets::made_ready(&end, setup)?;
    Ok((end, None))
}

/// Both ends' counts.
fn edge(region: &Region, server: &Server<ServerSide>, is_open: bool) -> Result<Edge, Problem> {
    let (counts, at_ns) = match server.ask_when(Order::Edge { is_open })? {
        (Answer::Edge(counts), at_ns) => (counts, at_ns),
        (other, _) => return out_of_turn(&other),
    };
    let client = region.slot(CLIENT);
    Ok(Edge {
        at_ns,
        sent: client.sent.0.load(Ordering::Relaxed),
        delivered: counts.received,
        delivered_bytes: counts.received_bytes,
        answered: client.received.0.load(Ordering::Relaxed),
        dropped: counts.dropped,
    })
}

type Brought = Rc<RefCell<Option<(Box<Totals>, Clocks)>>>;

/// The client here, and the server of the other host.
struct Pair {
    region: Arc<Region>,
    pool: WorkerPool,
    server: Rc<Server<ServerSide>>,
    /// What the server said at its end, and the clocks after that.
    brought: Brought,
}

impl Team for Pair {
    fn failed(&mut self) -> Option<String> {
        let early = self.pool.failed();
        gave_up(&self.region).or_else(|| early.map(|early| trial::named(&early)))
    }

    fn finish(mut self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        let region = self.region.clone();
        let client = region.slot(CLIENT);
        region.stage().enter(phase::STOP);
        while !client.has_sent_all() {
            if hurry() {
                return Err(Problem::interrupted("the trial"));
            }
            if let Some(early) = self.pool.failed() {
                return Err(Problem::trial("the end of the trial", gave_up(&region).unwrap_or(early)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(why) = gave_up(&region) {
            return Err(Problem::trial("the end of the trial", why));
        }
        let totals = match self.server.ask(Order::End(client.sent.0.load(Ordering::Acquire)))? {
            Answer::Ended(totals) => totals,
            other => return out_of_turn(&other),
        };
        let slot = region.slot(SERVER);
        for (count, value) in [
            (&slot.sent.0, totals.sent),
            (&slot.received.0, totals.counts.received),
            (&slot.received_bytes, totals.counts.received_bytes),
            (&slot.not_sent, totals.not_sent),
            (&slot.late, totals.late),
            (&slot.again, totals.again),
        ] {
            count.store(value, Ordering::Release);
        }
        slot.sent_all.store(1, Ordering::Release);
        slot.ending.store(ending::DONE, Ordering::Release);
        *self.brought.borrow_mut() = Some((totals, self.server.compare_clocks()?));
        trial::finish(&region, self.pool, hurry)
    }
}

/// The server of one trial, as far as it has come. Dropping it ends all of it.
#[derive(Default)]
pub(crate) struct ServerSide(State);

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Listening(Box<Setup>, OwnedFd),
    Bound(Box<Setup>, End),
    Working(Box<Working>),
    /// The socket stays until the client has read the last answers.
    Ended {
        _end: Arc<End>,
    },
}

struct Working {
    // Dropped in this order: the server sees that the client is gone, and is ended.
    client: Gone,
    pool: WorkerPool,
    end: Arc<End>,
    setup: Box<Setup>,
}

/// Says on the server's board that the client is gone, when it is dropped.
struct Gone(Arc<Region>);

impl Drop for Gone {
    fn drop(&mut self) {
        let ending = &self.0.slot(CLIENT).ending;
        let _was = ending.compare_exchange(0, ending::CLOSED, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl RemoteEnd for ServerSide {
    type Order = Order;
    type Answer = Answer;

    fn carry_out(&mut self, _host: &Host, address: IpAddr, order: Order) -> Result<Answer, Problem> {
        let (state, answer) = match (order, std::mem::take(&mut self.0)) {
            (Order::Begin(setup, client), _) => bound(setup, client, address)?,
            (Order::Work { from: Some(from), client_less_server_ns }, State::Listening(setup, listener)) => {
                let end = sockets::accept(&listener, from, &setup).map_err(no_socket)?;
                (State::Working(Box::new(Working::start(setup, end, client_less_server_ns)?)), Answer::Working)
            }
            (Order::Work { from: None, client_less_server_ns }, State::Bound(setup, end)) => {
                (State::Working(Box::new(Working::start(setup, end, client_less_server_ns)?)), Answer::Working)
            }
            (Order::Edge { is_open }, State::Working(working)) => {
                let region = &working.client.0;
                region.stage().enter(if is_open { phase::OPEN } else { phase::CLOSED });
                let counts = Counts::read(region, &working.end, &working.setup)?;
                (State::Working(working), Answer::Edge(counts))
            }
            (Order::End(sent), State::Working(working)) => {
                let end = working.end.clone();
                (State::Ended { _end: end }, Answer::Ended(Box::new(working.end(sent)?)))
            }
            (order, _) => return order_out_of_turn(&order),
        };
        self.0 = state;
        Ok(answer)
    }
}

fn bound(setup: Box<Setup>, client: Option<SocketAddr>, address: IpAddr) -> Result<(State, Answer), Problem> {
    if !(1..=LARGEST_IN_STREAM).contains(&setup.size) {
        return Err(Problem::usage(format!("size {}", setup.size), "it is out of bounds"));
    }
    let here = Here(address);
    match client {
        None => {
            let listener = sockets::listen(&here, &setup).map_err(no_socket)?;
            let at = sockets::own_address(&listener).map_err(no_socket)?;
            Ok((State::Listening(setup, listener), Answer::Bound(at)))
        }
        Some(client) => {
            let mut end = sockets::datagram(&here, Side::Server).map_err(no_socket)?;
            sockets::drops(&end).map_err(|e| Problem::host("drops of a socket", e.to_string()))?;
            end.join(client, &setup).map_err(no_socket)?;
            let at = sockets::own_address(&end).map_err(no_socket)?;
            Ok((State::Bound(setup, end), Answer::Bound(at)))
        }
    }
}

impl Working {
    fn start(setup: Box<Setup>, end: End, client_less_server_ns: i64) -> Result<Self, Problem> {
        sockets::made_ready(&end, &setup)?;
        let region = Region::new(ENDS).map_err(|e| Problem::trial("ping", format!("no memory for its counts: {e}")))?;
        let (region, end) = (Arc::new(region), Arc::new(end));
        let job = trial::server_job(&setup, &region, &end, client_less_server_ns);
        let mut pool = trial::start(&setup, &region, vec![job])?;
        while region.stage().ready() < 1 {
            if let Some(why) = pool.failed() {
                return Err(Problem::trial("the server", why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        region.stage().enter(phase::WARM);
        Ok(Working { client: Gone(region), pool, end, setup })
    }

    fn end(self, sent: u64) -> Result<Totals, Problem> {
        let Working { client, pool, end, setup } = self;
        let slot = client.0.slot(CLIENT);
        slot.sent.0.store(sent, Ordering::Release);
        slot.sent_all.store(1, Ordering::Release);
        slot.ending.store(ending::DONE, Ordering::Release);
        pool.finish(&|| false)?;
        let counts = Counts::read(&client.0, &end, &setup)?;
        let slot = client.0.slot(SERVER);
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Acquire);
        Ok(Totals {
            counts,
            sent: count(&slot.sent.0),
            not_sent: count(&slot.not_sent),
            late: count(&slot.late),
            again: count(&slot.again),
            strangers: end.strangers(),
            one_way: record::together(std::iter::once(&slot.latency)),
            used: used(slot),
        })
    }
}

impl Counts {
    /// What the server has counted so far, unless it gave up.
    fn read(region: &Region, end: &End, setup: &Setup) -> Result<Self, Problem> {
        if let Some(why) = gave_up(region) {
            return Err(Problem::trial("the end of the trial", why));
        }
        let slot = region.slot(SERVER);
        Ok(Counts {
            received: slot.received.0.load(Ordering::Acquire),
            received_bytes: slot.received_bytes.load(Ordering::Acquire),
            dropped: if setup.protocol.may_lose() { sockets::drops(end).map_err(no_socket)? } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_catalogue::ping;
    use holdup_model::{Parameters, Value};
    use std::net::Ipv4Addr;

    fn parameters(changes: &[(&str, Value)]) -> Parameters {
        let mut parameters = ping::Parameters::defaults(2);
        changes.iter().for_each(|(name, value)| parameters.set(name, value.clone()));
        parameters
    }

    #[test]
    fn orders_out_of_turn_are_refused_and_leave_nothing() {
        let (host, here) = (Host::real(), IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut server = ServerSide::default();
        let setup = Setup::read(&parameters(&[]), &host).expect("valid");
        for order in
            [Order::Edge { is_open: true }, Order::End(0), Order::Work { from: None, client_less_server_ns: 0 }]
        {
            let problem = server.carry_out(&host, here, order).expect_err("nothing was begun");
            assert!(problem.why.contains("out of turn"), "{problem}");
        }
        let client = SocketAddr::new(here, 9);
        assert!(server.carry_out(&host, here, Order::Begin(Box::new(setup.clone()), Some(client))).is_ok());
        assert!(server.carry_out(&host, here, Order::End(0)).is_err());
        let work = Order::Work { from: None, client_less_server_ns: 0 };
        assert!(server.carry_out(&host, here, work).is_err(), "the socket is gone");
        let setup = Setup { size: LARGEST_IN_STREAM + 1, ..setup };
        assert!(server.carry_out(&host, here, Order::Begin(Box::new(setup), None)).is_err());
    }
}
