//! The two ends of a trial on two hosts: the host under test, and the one that makes its load.

use crate::environment::Fact;
use crate::metric::Measurement;
use crate::trial::{NamedHistogram, Window};
use crate::value::Parameters;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What facts of the client host begin with.
pub const CLIENT_PREFIX: &str = "client.";

/// `[hosts]` of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The host under test, as `ssh` takes it: knobs, collectors and what is loaded are there.
    pub server: String,
    /// The host that makes the load, as `ssh` takes it.
    pub client: String,
    /// The name or address by which the client reaches the server; `None` for the `HostName` of the ssh configuration.
    #[serde(default)]
    pub address: Option<String>,
}

/// From the host under test to the client host, over the lines of both.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientOrder {
    /// Resolve the name of the host under test. Answer: [`ClientAnswer::Route`].
    Route {
        /// A name or an address.
        server: String,
    },
    /// Open a TCP connection, and close it. Answer: [`ClientAnswer::Done`].
    Connect(SocketAddr),
    /// Make a session of a workload ready; one of the same number ends. Answer: [`ClientAnswer::Facts`].
    Prepare(Box<ClientSession>),
    /// Begin a trial. Answer: [`ClientAnswer::Done`].
    Trial {
        /// The number of the session.
        session: u32,
        /// All parameters of the arm.
        parameters: Parameters,
        /// Load before the window, ns.
        warmup_ns: u64,
        /// Length of the window, ns.
        duration_ns: u64,
        /// The trial's seed.
        seed: u64,
    },
    /// Wait for the next moment of the trial, for a second at most. Answer: [`ClientAnswer::Moment`].
    Next,
    /// The window of the host under test is open, or closed: go on. Answer: [`ClientAnswer::Done`].
    Go,
    /// End the trial under way. Answer: [`ClientAnswer::Done`].
    Stop,
}

/// A session on the client host.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientSession {
    /// Its number.
    pub session: u32,
    /// The workload's id.
    pub kind: String,
    /// The parameters of every arm that will use it.
    pub combinations: Vec<Parameters>,
    /// The server that PostgreSQL loads connect to, with its password.
    pub postgres_url: Option<String>,
}

/// Without passwords: what is printed of an order goes into messages.
impl fmt::Debug for ClientOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientOrder::Route { .. } => "Route",
            ClientOrder::Connect(_) => "Connect",
            ClientOrder::Prepare(_) => "Prepare",
            ClientOrder::Trial { .. } => "Trial",
            ClientOrder::Next => "Next",
            ClientOrder::Go => "Go",
            ClientOrder::Stop => "Stop",
        })
    }
}

/// From the client host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientAnswer {
    /// It is done.
    Done,
    /// To [`ClientOrder::Route`].
    Route {
        /// The address of the host under test.
        server: IpAddr,
        /// The address that connections to it come from.
        client: IpAddr,
    },
    /// To [`ClientOrder::Prepare`].
    Facts(Vec<Fact>),
    /// To [`ClientOrder::Next`].
    Moment(Box<ClientMoment>),
}

/// The moments of a trial on the client host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ClientMoment {
    /// Nothing yet.
    Waiting,
    /// The warm-up is over; it waits for [`ClientOrder::Go`].
    Opening,
    /// Its window is closed; it waits for [`ClientOrder::Go`].
    Closing(Window),
    /// The trial is over.
    Over(Result<ClientResult, crate::Problem>),
}

/// What a trial brought, as `TrialResult` of `holdup-load`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientResult {
    /// Its metrics.
    pub measurements: Vec<Measurement>,
    /// Its histograms.
    pub histograms: Vec<NamedHistogram>,
    /// What else is worth keeping.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let session = ClientSession {
            session: 0,
            kind: "pgbench".to_owned(),
            combinations: Vec::new(),
            postgres_url: Some("postgresql://u:secret@h/d".to_owned()),
        };
        let shown = format!("{:?}", ClientOrder::Prepare(Box::new(session)));
        assert_eq!(shown, "Prepare");
    }
}
