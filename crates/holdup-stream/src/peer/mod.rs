//! What two machines say to each other that carry a load between them: the messages, and the client's side. The server's
//! is [`crate::service`].
//!
//! ```text
//!   client                                       server
//!   Hello { version, nonce, release, cpus }  →
//!                                            ←   Hello { version, the same nonce, release, cpus }
//!   an order                                 →
//!                                            ←   its answer
//!   Bye                                      →   (the connection ends)
//! ```
//!
//! Over TCP, in [checksummed frames](holdup_model::frame) of CBOR (RFC 8949), not packed: the link is fast, and an
//! emulated CPU is not. Each connection is served alone, one order at a time. A connection that brings anything
//! else is ended with a reason; the service continues. There is no password: the service is for a link that holdup made
//! itself, and is bound to the address of that link.

pub(crate) mod channel;
mod client;
pub mod stream;

pub use client::PeerClient;

use holdup_host::Host;
use holdup_model::Fact;
use holdup_model::guest::{PEER_PORT, PEER_WORD};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The longest message, bytes: results with the histograms of ten thousand connections are some megabytes.
pub const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// What a problem with the server begins with: what it is a problem of.
pub const WHAT: &str = "the peer";

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

/// From the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PeerOrder {
    /// The first message. Answer: [`PeerAnswer::Hello`].
    Hello(PeerHello),
    /// Nothing but an answer. Answer: [`PeerAnswer::Echo`].
    Echo,
    /// Report the facts of the machine. Answer: [`PeerAnswer::Facts`].
    Facts,
    /// One end of a trial of `stream`. Answer: [`PeerAnswer::Stream`].
    Stream(stream::Order),
    /// End the connection. No answer.
    Bye,
}

/// From the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PeerAnswer {
    /// The first message.
    Hello(PeerHello),
    /// To [`PeerOrder::Echo`].
    Echo,
    /// To [`PeerOrder::Facts`].
    Facts(Vec<Fact>),
    /// To [`PeerOrder::Stream`].
    Stream(stream::Answer),
    /// The connection is ended, for this reason.
    Refused(String),
}

/// Where this host's peer takes orders: what the kernel's command line says. `None` on a host without a peer.
pub fn of_this_host(host: &Host) -> Option<SocketAddr> {
    let line = host.read_text("/proc/cmdline").ok()?;
    let word = line.split_whitespace().filter_map(|word| word.strip_prefix(PEER_WORD)).next_back()?;
    Some(SocketAddr::new(word.parse::<IpAddr>().ok()?, PEER_PORT))
}
