//! What two machines say to each other that carry a load between them: the messages, and the client's side. The server's
//! is [`crate::service`].
//!
//! ```text
//!   client                                       server
//!   Hello { version, nonce, release, cpus }, token  →
//!                                            ←   Hello { version, the same nonce, release, cpus }
//!   an order                                 →
//!                                            ←   its answer
//!   Bye                                      →   (the connection ends)
//! ```
//!
//! Over TCP, in [checksummed frames](holdup_model::frame) of CBOR (RFC 8949), not packed: the link is fast, and an
//! emulated CPU is not. Each connection is served alone, one order at a time. A connection that brings anything
//! else is ended with a reason; the service continues. Between guests there is no token: the service is for a link that
//! holdup made itself, and is bound to the address of that link. Between hosts it is random, one for each client, of whose address alone it is taken.

pub(crate) mod channel;
mod client;

pub use client::{Clocks, PeerClient, Server};

use holdup_host::Host;
use holdup_model::ends::{ServiceAccess, Token};
use holdup_model::guest::{PEER_PORT, PEER_WORD};
use holdup_model::{Fact, Problem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// The longest message, bytes: results with the histograms of ten thousand connections are some megabytes.
pub const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// What a problem with the server begins with: what it is a problem of.
pub const WHAT: &str = "the peer";

/// What a client does with an answer that it has not asked for.
///
/// # Errors
/// Always.
pub fn out_of_turn<T>(answer: &impl Debug) -> Result<T, Problem> {
    Err(Problem::trial(WHAT, format!("{answer:.40?} came out of turn")))
}

/// What a server does with an order that does not fit its state.
///
/// # Errors
/// Always.
pub fn order_out_of_turn<T>(order: &impl Debug) -> Result<T, Problem> {
    Err(Problem::internal(WHAT, format!("{order:.40?} came out of turn")))
}

/// What each side says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerHello {
    /// The version of holdup; both sides have the same.
    pub version: String,
    /// A number of the client's choice, which the server repeats: the answer is to this question.
    pub nonce: u64,
    /// The kernel's release.
    pub release: String,
    /// CPUs that it may use.
    pub cpus: u32,
}

impl PeerHello {
    pub(crate) fn of(host: &Host, nonce: u64) -> Self {
        PeerHello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nonce,
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpus: holdup_host::machine(host).cpus,
        }
    }
}

/// What a workload's server does for its client.
pub trait RemoteEnd: Default {
    /// From the client.
    type Order: Serialize + DeserializeOwned;
    type Answer: Serialize + DeserializeOwned;
    /// Carries out an order; `address` is the own one of the connection. Dropping the end ends all that it does.
    ///
    /// # Errors
    /// When it cannot be done; everything of it is gone then.
    fn carry_out(&mut self, host: &Host, address: IpAddr, order: Self::Order) -> Result<Self::Answer, Problem>;
}

/// From the client; `O` is what a [`RemoteEnd`] does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PeerOrder<O> {
    /// The first message. Answer: [`PeerAnswer::Hello`].
    Hello(PeerHello, Token),
    /// Read the clocks. Answer: [`PeerAnswer::Clock`].
    Clock,
    /// Report the facts of the machine. Answer: [`PeerAnswer::Facts`].
    Facts,
    /// Take part in a trial. Answer: [`PeerAnswer::Work`] or [`PeerAnswer::Failed`].
    Work(O),
    /// End the connection. No answer.
    Bye,
}

/// From the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PeerAnswer<A> {
    /// The first message.
    Hello(PeerHello),
    /// To [`PeerOrder::Clock`]: CLOCK_MONOTONIC, ns.
    Clock {
        /// When the order was there.
        received_ns: i64,
        /// When the answer was made.
        sent_back_ns: i64,
        /// CLOCK_REALTIME less CLOCK_MONOTONIC, ns.
        unix_less_monotonic_ns: i64,
    },
    /// To [`PeerOrder::Facts`].
    Facts(Vec<Fact>),
    /// To [`PeerOrder::Work`].
    Work(A),
    /// To [`PeerOrder::Work`]: it could not be done, and everything of it is gone.
    Failed(String),
    /// The connection is ended, for this reason.
    Refused(String),
    /// The connection is ended before its hello was read, because too many others wait. Another one may do better.
    Crowded,
}

/// Where this host's peer takes orders: what the kernel's command line says. `None` on a host without a peer.
pub fn of_this_host(host: &Host) -> Option<ServiceAccess> {
    let line = host.read_text("/proc/cmdline").ok()?;
    let word = line.split_whitespace().filter_map(|word| word.strip_prefix(PEER_WORD)).next_back()?;
    let at = SocketAddr::new(word.parse::<IpAddr>().ok()?, PEER_PORT);
    Some(ServiceAccess { at, number: 1, token: Token::default() })
}

/// Random bytes, at most 256: getrandom(2) gives so few in one piece.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
