//! The client.

use super::channel::{Channel, End};
use super::{PeerAnswer, PeerHello, PeerOrder, RemoteEnd, WHAT};
use crate::Cancel;
use crate::clock::{now_ns, unix_less_monotonic_ns};
use holdup_host::Host;
use holdup_model::ends::ServiceAccess;
use holdup_model::{ClockOffset, Fact, Problem, ProblemKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one attempt to connect may take, so that a cancelled wait ends soon.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// How long an answer may take; facts of an emulated machine take some seconds on a busy host.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How long the server of a trial may take to answer; its workers end within this, too.
const WORK_LIMIT: Duration = Duration::from_secs(60);
/// The shortest of this number of round trips counts: the first ones wake CPUs and fill caches.
const ROUND_TRIPS: u32 = 50;

/// What a comparison of the clocks of both ends brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_MONOTONIC of the server less the client's.
    pub monotonic: ClockOffset,
    /// CLOCK_REALTIME of the server less the client's.
    pub wall: ClockOffset,
    /// The shortest round trip of an order and its answer: both kernels, the link, and the wake-up of a thread at either end.
    pub round_trip_ns: u64,
}

impl Clocks {
    /// In words, what the comparison rests on.
    pub fn source() -> String {
        format!("the shortest of {ROUND_TRIPS} orders and answers between both ends")
    }
}

/// A connection to the service at the server. Dropping it ends the connection.
#[derive(Debug)]
pub struct PeerClient {
    channel: Channel,
    address: SocketAddr,
    hello: PeerHello,
    cancel: Cancel,
}

impl PeerClient {
    /// Connects and exchanges hellos. A service that is not there yet is waited for.
    ///
    /// # Errors
    /// When nothing answers within `timeout`, what answers is no service of this version of holdup, or `cancel` asks to
    /// end.
    pub fn connect(
        host: &Host,
        access: &ServiceAccess,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<PeerClient, Problem> {
        let address = access.at;
        let failed = |e: std::io::Error| Problem::host(what(address), e.to_string());
        let begun = Instant::now();
        let (channel, hello) = loop {
            if cancel.is_cancelled() {
                return Err(Problem::interrupted(what(address)));
            }
            let stream = match TcpStream::connect_timeout(&address, ATTEMPT) {
                Ok(stream) => stream,
                Err(e) if begun.elapsed() >= timeout => {
                    let why = format!("it does not answer within {:.1} s: {e}", timeout.as_secs_f64());
                    return Err(Problem::host(what(address), why));
                }
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
            };
            let mut channel = Channel::new(stream).map_err(failed)?;
            let nonce = u64::from_ne_bytes(super::random().map_err(failed)?);
            let left = timeout.saturating_sub(begun.elapsed()).max(ATTEMPT);
            // A service that has ended the connection before has said why.
            let sent = channel.send(&PeerOrder::<()>::Hello(PeerHello::of(host, nonce), access.token.clone()));
            let answer = channel.receive::<PeerAnswer<()>>(Some(left), cancel);
            let answer = answer.map_err(|end| problem(address, &sent.err().unwrap_or(end)))?;
            let why = match answer {
                PeerAnswer::Hello(hello) if hello.version != env!("CARGO_PKG_VERSION") => {
                    format!("it is holdup {}, this is {}", hello.version.escape_debug(), env!("CARGO_PKG_VERSION"))
                }
                PeerAnswer::Hello(hello) if hello.nonce != nonce => {
                    "its hello answers another one's question".to_owned()
                }
                PeerAnswer::Hello(hello) => break (channel, hello),
                PeerAnswer::Crowded if begun.elapsed() < timeout => continue,
                PeerAnswer::Crowded => "too many connections to it have shown no token".to_owned(),
                PeerAnswer::Refused(why) => format!("it refuses: {why}"),
                other => return Err(out_of_turn(address, &other)),
            };
            return Err(Problem::host(what(address), why));
        };
        Ok(PeerClient { channel, address, hello, cancel: cancel.clone() })
    }

    /// What the server said of itself.
    pub fn hello(&self) -> &PeerHello {
        &self.hello
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives an order and waits for its answer.
    ///
    /// # Errors
    /// When the connection ends, the answer does not come within `limit`, or the server refuses. The connection is of
    /// no use then. Of kind `Trial` when the server could not do it.
    fn ask<O: Serialize, A: DeserializeOwned>(
        &mut self,
        order: &PeerOrder<O>,
        limit: Duration,
    ) -> Result<PeerAnswer<A>, Problem> {
        let asked = self.channel.send(order).and_then(|()| self.channel.receive(Some(limit), &self.cancel));
        match asked.map_err(|end| problem(self.address, &end))? {
            PeerAnswer::Refused(why) => Err(Problem::host(what(self.address), format!("it refuses: {why}"))),
            PeerAnswer::Failed(why) => Err(Problem::trial(WHAT, why)),
            answer => Ok(answer),
        }
    }

    /// What is known about the server's machine.
    ///
    /// # Errors
    /// When the connection ends, or the server refuses.
    pub fn facts(&mut self) -> Result<Vec<Fact>, Problem> {
        match self.ask::<(), ()>(&PeerOrder::Facts, ANSWER_LIMIT)? {
            PeerAnswer::Facts(facts) => Ok(facts),
            other => Err(out_of_turn(self.address, &other)),
        }
    }

    /// Compares the clocks of both ends.
    ///
    /// # Errors
    /// When the connection ends, or the server refuses.
    pub fn compare_clocks(&mut self) -> Result<Clocks, Problem> {
        let mut best: Option<ClockOffset> = None;
        let mut round_trip_ns = u64::MAX;
        let mut theirs_ns = 0;
        for _ in 0..ROUND_TRIPS {
            let sent_ns = now_ns();
            let (received_ns, sent_back_ns) = match self.ask::<(), ()>(&PeerOrder::Clock, ANSWER_LIMIT)? {
                PeerAnswer::Clock { received_ns, sent_back_ns, unix_less_monotonic_ns } => {
                    theirs_ns = unix_less_monotonic_ns;
                    (received_ns, sent_back_ns)
                }
                other => return Err(out_of_turn(self.address, &other)),
            };
            let answered_ns = now_ns();
            round_trip_ns = round_trip_ns.min(answered_ns - sent_ns);
            let read = ClockOffset::of(sent_ns.cast_signed(), received_ns, sent_back_ns, answered_ns.cast_signed());
            best = Some(read.better(best));
        }
        let monotonic = best.ok_or_else(|| Problem::internal(what(self.address), "its clock was not read"))?;
        let wall_less_monotonic = theirs_ns.saturating_sub(unix_less_monotonic_ns());
        let wall = ClockOffset { offset_ns: monotonic.offset_ns.saturating_add(wall_less_monotonic), ..monotonic };
        Ok(Clocks { monotonic, wall, round_trip_ns })
    }
}

impl Drop for PeerClient {
    fn drop(&mut self) {
        // A server side that has gone needs no farewell.
        let _gone = self.channel.send(&PeerOrder::<()>::Bye);
    }
}

fn what(address: SocketAddr) -> String {
    format!("{WHAT} at {address}")
}

fn problem(address: SocketAddr, end: &End) -> Problem {
    match end {
        End::Cancelled => Problem::interrupted(what(address)),
        other => Problem::host(what(address), other.to_string()),
    }
}

fn out_of_turn<A>(address: SocketAddr, answer: &PeerAnswer<A>) -> Problem {
    let kind = match answer {
        PeerAnswer::Hello(_) => "hello",
        PeerAnswer::Clock { .. } => "clock",
        PeerAnswer::Facts(_) => "facts",
        PeerAnswer::Work(_) => "work",
        PeerAnswer::Failed(_) | PeerAnswer::Refused(_) | PeerAnswer::Crowded => "refusal",
    };
    Problem::host(what(address), format!("an answer came out of turn: {kind}"))
}

/// The server of a trial, as its client sees it. What goes wrong with it makes a trial void.
#[derive(Debug)]
pub struct Server<E> {
    client: RefCell<PeerClient>,
    end: PhantomData<E>,
}

impl<E: RemoteEnd> Server<E> {
    /// Over this connection.
    pub fn new(client: PeerClient) -> Self {
        Server { client: RefCell::new(client), end: PhantomData }
    }

    /// Where the service is.
    pub fn address(&self) -> SocketAddr {
        self.client.borrow().address()
    }

    /// The own address of the connection.
    pub fn own_address(&self) -> IpAddr {
        self.client.borrow().channel.address()
    }

    /// Has the server do something, and waits for that.
    ///
    /// # Errors
    /// Of kind `Trial`, of kind `Interrupted` when asked to end.
    pub fn ask(&self, order: E::Order) -> Result<E::Answer, Problem> {
        let mut client = self.client.borrow_mut();
        let answer = client.ask::<_, E::Answer>(&PeerOrder::Work(order), WORK_LIMIT).map_err(void)?;
        match answer {
            PeerAnswer::Work(answer) => Ok(answer),
            other => Err(void(out_of_turn(client.address, &other))),
        }
    }

    /// The same with the middle between order and answer, CLOCK_MONOTONIC in ns: what the server counts is taken to be of then.
    ///
    /// # Errors
    /// Those of [`Server::ask`].
    pub fn ask_when(&self, order: E::Order) -> Result<(E::Answer, u64), Problem> {
        let asked_ns = now_ns();
        let answer = self.ask(order)?;
        Ok((answer, asked_ns + (now_ns() - asked_ns) / 2))
    }

    /// Compares the clocks of both ends.
    ///
    /// # Errors
    /// Those of [`Server::ask`].
    pub fn compare_clocks(&self) -> Result<Clocks, Problem> {
        self.client.borrow_mut().compare_clocks().map_err(void)
    }
}

/// Another trial may do better.
fn void(problem: Problem) -> Problem {
    match problem.kind {
        ProblemKind::Interrupted => problem,
        _ => problem.of_kind(ProblemKind::Trial),
    }
}
