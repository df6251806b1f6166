//! `messenger` between two hosts: the senders on the client, the receivers on the server, each with a board of their own.
//!
//! The client leads, over the connection to the server's service ([`holdup_load::service`]). Receivers place arrivals by the
//! client's clock, so latencies are off by the error of that comparison; it is made before the first message and after the last.

use crate::messenger::results::{self, Done, Edge, Received, Sent};
use crate::messenger::setup::Setup;
use crate::messenger::trial::{self, gave_up, jobs};
use crate::messenger::wires::Wires;
use crate::messenger::worker::Region;
use holdup_host::Host;
use holdup_load::board::phase;
use holdup_load::drive::{self, Team};
use holdup_load::peer::{Clocks, RemoteEnd, Server, order_out_of_turn, out_of_turn};
use holdup_load::two_ends::ClockError;
use holdup_load::worker_pool::WorkerPool;
use holdup_load::{TrialContext, TrialResult, files};
use holdup_model::Problem;
use holdup_stream::connect::{self, HangUp};
use holdup_stream::setup::SocketOptions;
use holdup_stream::sockets;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one look at the receivers of fixed work waits for their end.
const LOOK: Duration = Duration::from_millis(20);
/// How long senders may take to end after they were asked to.
const GRACE: Duration = Duration::from_secs(10);

/// From the client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Listen. Answer: [`Answer::Listening`].
    Begin(Box<Setup>),
    /// Take the connections that come from these addresses, in this order, and receive. Answer: [`Answer::Working`].
    Work {
        /// Where the client connects from.
        from: Vec<SocketAddr>,
        /// The client's CLOCK_MONOTONIC less the server's, ns.
        client_less_server_ns: i64,
    },
    /// The window is open, or closed. Answer: [`Answer::Edge`].
    Edge { is_open: bool },
    /// Wait a moment for the end of fixed work. Answer: [`Answer::Done`].
    Wait,
    /// The senders have ended. Answer: [`Answer::Ended`].
    End,
}

/// From the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// On this port of the connection's address.
    Listening(u16),
    /// Every connection is open, that number of foreign ones was refused, and the receivers run.
    Working(u64),
    /// Messages that were received so far.
    Edge(u64),
    /// Whether all that was to be received has been.
    Done(bool),
    /// All receivers have ended.
    Ended(Box<Received>),
}

fn no_wires(setup: &Setup) -> impl Fn(io::Error) -> Problem {
    let count = setup.groups * setup.receivers;
    move |e| Problem::trial(format!("{count} connections"), format!("they cannot be made: {e}"))
}

/// Runs one trial with a server.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub(crate) fn run(server: Server<ServerSide>, setup: &Setup, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let before = server.compare_clocks()?;
    // The server's less the client's is what was compared.
    let client_less_server_ns = before.monotonic.offset_ns.saturating_neg();
    let (into, strangers) = files::with_room(setup.files(), || connected(&server, setup, client_less_server_ns))?;
    let line = HangUp(into.iter().flat_map(|group| group.iter()).map(AsRawFd::as_raw_fd).collect());
    let senders = setup.groups * setup.senders;
    let region = Arc::new(trial::region(setup)?);
    region.head().expect(senders as u32);
    let wires = into.iter().map(|into| Wires { into: into.clone(), out: Vec::new() }).collect();
    let pool = trial::start(setup, &region, jobs(setup, &region, wires, trial.seed, 0))?;
    let (server, brought) = (Rc::new(server), Rc::new(RefCell::new(None)));
    let team = Senders { line, pool, into, region: region.clone(), server: server.clone(), brought: brought.clone() };
    let is_open = Cell::new(true);
    let edge = || edge(setup, &region, &server, is_open.replace(false));
    let (begin, end) = match setup.messages {
        // What goes wrong with the server shows at the end of the window.
        Some(_) => {
            drive::through_work(trial, region.stage(), senders, team, edge, |_| is_done(&server).unwrap_or(true))?
        }
        None => drive::through(trial, region.stage(), senders, team, edge)?,
    };
    let (begin, end) = (begin?, end?);
    let missing = || Problem::internal("messenger", "the server said nothing at its end");
    let (received, after): (Box<Received>, Clocks) = brought.borrow_mut().take().ok_or_else(missing)?;
    let mut result = results::of(&Done {
        setup,
        begin,
        end,
        sent: Sent::read(setup, &region),
        received: *received,
        apart: Some(ClockError::of(&before, &after)),
    })?;
    if strangers > 0 {
        result.notes.push(format!("{strangers} connections of others were turned away"));
    }
    Ok(result)
}

fn is_done(server: &Server<ServerSide>) -> Result<bool, Problem> {
    match server.ask(Order::Wait)? {
        Answer::Done(is_done) => Ok(is_done),
        other => out_of_turn(&other),
    }
}

/// What the senders of each group write to; one connection for each receiver.
type Into = Vec<Arc<Vec<OwnedFd>>>;

/// Connects all, and lets the server work; with the number of foreign connections.
fn connected(server: &Server<ServerSide>, setup: &Setup, client_less_server_ns: i64) -> Result<(Into, u64), Problem> {
    let port = match server.ask(Order::Begin(Box::new(setup.clone())))? {
        Answer::Listening(port) => port,
        other => return out_of_turn(&other),
    };
    let target = SocketAddr::new(server.address().ip(), port);
    let call = |_| {
        let socket = connect::call(target, &SocketOptions::default())?;
        Ok((sockets::local_address(socket.as_fd())?, socket))
    };
    let all = (0..setup.groups * setup.receivers).map(call).collect::<io::Result<Vec<_>>>().map_err(no_wires(setup))?;
    let (from, sockets): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let strangers = match server.ask(Order::Work { from, client_less_server_ns })? {
        Answer::Working(strangers) => strangers,
        other => return out_of_turn(&other),
    };
    let mut sockets = sockets.into_iter();
    let group = |_| Arc::new(sockets.by_ref().take(setup.receivers).collect());
    Ok(((0..setup.groups).map(group).collect(), strangers))
}

/// What was sent and received so far.
fn edge(setup: &Setup, region: &Region, server: &Server<ServerSide>, is_open: bool) -> Result<Edge, Problem> {
    match server.ask_when(Order::Edge { is_open })? {
        (Answer::Edge(received), at_ns) => Ok(Edge { at_ns, sent: trial::count(setup, region, true), received }),
        (other, _) => out_of_turn(&other),
    }
}

type Brought = Rc<RefCell<Option<(Box<Received>, Clocks)>>>;

/// The senders here, and the server with the receivers.
struct Senders {
    // Dropped in this order: senders that wait for the other host end.
    line: HangUp,
    pool: WorkerPool,
    into: Into,
    region: Arc<Region>,
    server: Rc<Server<ServerSide>>,
    /// What the server said at its end, and the clocks after that.
    brought: Brought,
}

impl Team for Senders {
    fn failed(&mut self) -> Option<String> {
        trial::failed(&self.region, &mut self.pool)
    }

    fn finish(self, hurry: &dyn Fn() -> bool) -> Result<(), Problem> {
        self.region.stage().enter(phase::STOP);
        let asked = Instant::now();
        while !self.region.head().wait(LOOK) {
            if hurry() {
                return Err(Problem::interrupted("the trial"));
            }
            let stuck = || (asked.elapsed() > GRACE).then(|| "a sender does not end: no receiver reads".to_owned());
            if let Some(why) = gave_up(&self.region).or_else(stuck) {
                return Err(Problem::trial("a task did not end well", why));
            }
        }
        let Senders { mut line, pool, into, server, brought, .. } = self;
        pool.finish(hurry)?;
        // The receivers see the end when the last descriptor is closed.
        line.0.clear();
        drop(into);
        match server.ask(Order::End)? {
            Answer::Ended(received) => *brought.borrow_mut() = Some((received, server.compare_clocks()?)),
            other => return out_of_turn(&other),
        }
        Ok(())
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
    Working(Box<Working>),
}

struct Working {
    // Dropped in this order: connections are ended, receivers end, sockets are closed.
    line: HangUp,
    pool: WorkerPool,
    region: Arc<Region>,
    setup: Box<Setup>,
    client_less_server_ns: i64,
    _sockets: Vec<Arc<OwnedFd>>,
}

impl RemoteEnd for ServerSide {
    type Order = Order;
    type Answer = Answer;

    fn carry_out(&mut self, _host: &Host, address: IpAddr, order: Order) -> Result<Answer, Problem> {
        let (state, answer) = match (order, std::mem::take(&mut self.0)) {
            (Order::Begin(setup), _) => {
                setup.check_two_ends()?;
                let no_wires = no_wires(&setup);
                let listener = connect::listen(address, &SocketOptions::default()).map_err(&no_wires)?;
                let port = sockets::local_address(listener.as_fd()).map_err(no_wires)?.port();
                (State::Listening(setup, listener), Answer::Listening(port))
            }
            (Order::Work { from, client_less_server_ns }, State::Listening(setup, listener)) => {
                let (working, strangers) = Working::start(setup, &listener, &from, client_less_server_ns)?;
                (State::Working(Box::new(working)), Answer::Working(strangers))
            }
            (Order::Edge { is_open }, State::Working(working)) => {
                working.healthy()?;
                working.region.stage().enter(if is_open { phase::OPEN } else { phase::CLOSED });
                let received = trial::count(&working.setup, &working.region, false);
                (State::Working(working), Answer::Edge(received))
            }
            (Order::Wait, State::Working(working)) => {
                working.healthy()?;
                let is_done = working.region.head().wait(LOOK);
                (State::Working(working), Answer::Done(is_done))
            }
            (Order::End, State::Working(working)) => (State::Idle, Answer::Ended(Box::new(working.end()?))),
            (order, _) => return order_out_of_turn(&order),
        };
        self.0 = state;
        Ok(answer)
    }
}

impl Working {
    fn start(
        setup: Box<Setup>,
        listener: &OwnedFd,
        from: &[SocketAddr],
        client_less_server_ns: i64,
    ) -> Result<(Self, u64), Problem> {
        let count = setup.groups * setup.receivers;
        if from.len() != count {
            return Err(Problem::internal("the peer", "there are not as many addresses as receivers"));
        }
        let accept = || connect::accept_from(listener, from).map_err(no_wires(&setup));
        let (sockets, strangers) = files::with_room(setup.files(), accept)?;
        let sockets: Vec<Arc<OwnedFd>> = sockets.into_iter().map(Arc::new).collect();
        let region = Arc::new(trial::region(&setup)?);
        region.head().expect(count as u32);
        let wires = sockets.chunks(setup.receivers).map(|out| Wires { into: Arc::default(), out: out.to_vec() });
        let mut pool = trial::start(&setup, &region, jobs(&setup, &region, wires.collect(), 0, client_less_server_ns))?;
        while region.stage().ready() < count {
            if let Some(why) = trial::failed(&region, &mut pool) {
                return Err(Problem::trial("the receivers", why));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The window of fixed work is the work: there it begins with the window.
        if setup.messages.is_none() {
            region.stage().enter(phase::WARM);
        }
        let line = HangUp(sockets.iter().map(AsRawFd::as_raw_fd).collect());
        Ok((Working { line, pool, region, setup, client_less_server_ns, _sockets: sockets }, strangers))
    }

    fn healthy(&self) -> Result<(), Problem> {
        gave_up(&self.region).map_or(Ok(()), |why| Err(Problem::trial("a task did not end well", why)))
    }

    fn end(self) -> Result<Received, Problem> {
        let Working { mut line, pool, region, setup, client_less_server_ns, _sockets } = self;
        pool.finish(&|| false)?;
        line.0.clear();
        if let Some(why) = gave_up(&region) {
            return Err(Problem::trial("a task did not end well", why));
        }
        Ok(Received::read(&setup, &region, client_less_server_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_catalogue::messenger;
    use holdup_model::{Parameters, Value};
    use std::net::Ipv4Addr;

    fn parameters(changes: &[(&str, Value)]) -> Parameters {
        let mut parameters = messenger::Parameters::defaults(2);
        changes.iter().for_each(|(name, value)| parameters.set(name, value.clone()));
        parameters
    }

    #[test]
    fn orders_out_of_turn_or_bounds_are_refused_and_leave_nothing() {
        let (host, here) = (Host::real(), IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut server = ServerSide::default();
        let setup = Setup::read(&parameters(&[("transport", "tcp".into())]), &host).expect("valid");
        let work = || Order::Work { from: Vec::new(), client_less_server_ns: 0 };
        for order in [Order::Edge { is_open: true }, Order::Wait, Order::End, work()] {
            let problem = server.carry_out(&host, here, order).expect_err("nothing was begun");
            assert!(problem.why.contains("out of turn"), "{problem}");
        }
        assert!(server.carry_out(&host, here, Order::Begin(Box::new(setup.clone()))).is_ok());
        let problem = server.carry_out(&host, here, work()).expect_err("200 connections");
        assert!(problem.why.contains("as many addresses"), "{problem}");
        assert!(server.carry_out(&host, here, work()).is_err(), "the listener is gone");
        let setup = Setup { groups: 51, ..setup };
        assert!(server.carry_out(&host, here, Order::Begin(Box::new(setup))).is_err(), "1020 connections");
    }
}
