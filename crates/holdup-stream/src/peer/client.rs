//! The client.

use super::channel::{Channel, End};
use super::{PeerAnswer, PeerHello, PeerOrder, WHAT};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::{Fact, Problem};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one attempt to connect may take, so that a cancelled wait ends soon.
const ATTEMPT: Duration = Duration::from_millis(500);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// How long an answer may take; facts of an emulated machine take some seconds on a busy host.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

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
        address: SocketAddr,
        timeout: Duration,
        cancel: &Cancel,
    ) -> Result<PeerClient, Problem> {
        let begun = Instant::now();
        let stream = loop {
            if cancel.is_cancelled() {
                return Err(Problem::interrupted(what(address)));
            }
            match TcpStream::connect_timeout(&address, ATTEMPT) {
                Ok(stream) => break stream,
                Err(e) if begun.elapsed() >= timeout => {
                    let why = format!("it does not answer within {:.1} s: {e}", timeout.as_secs_f64());
                    return Err(Problem::host(what(address), why));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        };
        let failed = |e: std::io::Error| Problem::host(what(address), e.to_string());
        let mut channel = Channel::new(stream).map_err(failed)?;
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty()).map_err(|e| failed(e.into()))?;
        let nonce = u64::from_ne_bytes(nonce);
        let left = timeout.saturating_sub(begun.elapsed()).max(ATTEMPT);
        let answer = channel
            .send(&PeerOrder::Hello(PeerHello::of(host, nonce)))
            .and_then(|()| channel.receive::<PeerAnswer>(Some(left), cancel))
            .map_err(|end| problem(address, &end))?;
        let why = match answer {
            PeerAnswer::Hello(hello) if hello.version != env!("CARGO_PKG_VERSION") => {
                format!("it is holdup {}, this is {}", hello.version.escape_debug(), env!("CARGO_PKG_VERSION"))
            }
            PeerAnswer::Hello(hello) if hello.nonce != nonce => "its hello answers another one's question".to_owned(),
            PeerAnswer::Hello(hello) => return Ok(PeerClient { channel, address, hello, cancel: cancel.clone() }),
            PeerAnswer::Refused(why) => format!("it refuses: {why}"),
            other => return Err(out_of_turn(address, &other)),
        };
        Err(Problem::host(what(address), why))
    }

    /// What the server said of itself.
    pub fn hello(&self) -> &PeerHello {
        &self.hello
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives an order and waits for its answer.
    ///
    /// # Errors
    /// When the connection ends, the answer does not come within `limit`, or the server refuses. The connection is of
    /// no use then.
    pub fn ask(&mut self, order: &PeerOrder, limit: Duration) -> Result<PeerAnswer, Problem> {
        let asked = self.channel.send(order).and_then(|()| self.channel.receive(Some(limit), &self.cancel));
        match asked.map_err(|end| problem(self.address, &end))? {
            PeerAnswer::Refused(why) => Err(Problem::host(what(self.address), format!("it refuses: {why}"))),
            answer => Ok(answer),
        }
    }

    /// What is known about the server's machine.
    ///
    /// # Errors
    /// Those of [`PeerClient::ask`].
    pub fn facts(&mut self) -> Result<Vec<Fact>, Problem> {
        match self.ask(&PeerOrder::Facts, ANSWER_LIMIT)? {
            PeerAnswer::Facts(facts) => Ok(facts),
            other => Err(out_of_turn(self.address, &other)),
        }
    }

    /// The shortest of `count` (at least one) round trips of an order and its answer, ns: both kernels, the link, and
    /// the wake-up of a thread at either end.
    ///
    /// # Errors
    /// Those of [`PeerClient::ask`].
    pub fn round_trip_ns(&mut self, count: u32) -> Result<u64, Problem> {
        let mut shortest = u64::MAX;
        for _ in 0..count.max(1) {
            let begun = Instant::now();
            match self.ask(&PeerOrder::Echo, ANSWER_LIMIT)? {
                PeerAnswer::Echo => {}
                other => return Err(out_of_turn(self.address, &other)),
            }
            shortest = shortest.min(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        Ok(shortest)
    }

    /// Ends the connection in order.
    pub fn bye(mut self) {
        // A server side that has gone needs no farewell.
        let _gone = self.channel.send(&PeerOrder::Bye);
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

fn out_of_turn(address: SocketAddr, answer: &PeerAnswer) -> Problem {
    let kind: String = format!("{answer:?}").chars().take(40).collect();
    Problem::host(what(address), format!("an answer came out of turn: {kind}"))
}
