//! The two ends of a trial on two or more hosts: the host under test, and those that make its load.

use crate::clock_offset::ClockOffset;
use crate::environment::Fact;
use crate::problem::Problem;
use crate::trial::{TrialResult, Window};
use crate::value::Parameters;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What facts of the client host begin with.
pub const CLIENT_PREFIX: &str = "client.";
/// What facts of both hosts together begin with.
pub const ENDS_PREFIX: &str = "ends.";
/// The fact how far the client's CLOCK_REALTIME is ahead of the server's, ms, with [`ENDS_PREFIX`] before it.
pub const CLOCK_OFFSET: &str = "clock_offset_ms";
/// The fact how far that may be off, ms.
pub const CLOCK_OFFSET_ERROR: &str = "clock_offset_error_ms";
/// The most client hosts of a plan.
pub const MOST_CLIENT_HOSTS: usize = 16;

/// The key of a fact of a client host, by its place among all. With several its number, from 1, follows the prefix.
pub fn key_of_client(prefix: &str, (at, of): (usize, usize), key: &str) -> String {
    if of == 1 { format!("{prefix}{key}") } else { format!("{prefix}{}.{key}", at + 1) }
}

/// `[hosts]` of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The host under test, as `ssh` takes it: knobs, collectors and what is loaded are there.
    pub server: String,
    /// The hosts that make the load, as `ssh` takes them; at least one.
    #[serde(rename = "client", deserialize_with = "one_or_several")]
    pub clients: Vec<String>,
    /// The name or address by which the clients reach the server; `None` for the `HostName` of the ssh configuration.
    #[serde(default)]
    pub address: Option<String>,
}

/// Bundles of one client host may have its name in place of a list.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Names::deserialize(from)? {
        Names::One(name) => vec![name],
        Names::Several(names) => names,
    })
}

/// What the host under test needs to know of its client hosts beside their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientHostsView {
    /// The name by which they reach it.
    pub reached_as: String,
    /// CLOCK_REALTIME of each less that of the host under test, in the order of the plan.
    pub clocks: Vec<ClockOffset>,
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
    /// The service that the load connects to: PostgreSQL, or one of holdup.
    pub service: ServiceAccess,
}

/// The part of a plan that one client host has. It comes from the holdup that gives orders to all hosts; what the host under test
/// asks of a client host is compared with it at both ends of the client's line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientPlan {
    /// The name by which it reaches the host under test.
    pub reached_as: String,
    /// The workload's id and the parameters of each arm, as this host has them.
    pub arms: Vec<(String, Parameters)>,
    /// Load before each window, ns.
    pub warmup_ns: u64,
    /// The length of each window, ns.
    pub duration_ns: u64,
}

impl ClientPlan {
    /// Refuses an order that the plan does not name. `server` is the address of [`ClientAnswer::Route`]; before that none is
    /// connected to.
    ///
    /// # Errors
    /// Of kind `Host`, which names the order.
    pub fn check(&self, order: &ClientOrder, server: Option<IpAddr>) -> Result<(), Problem> {
        let is_named = match order {
            ClientOrder::Route { server } => *server == self.reached_as,
            ClientOrder::Connect(to) => server == Some(to.ip()),
            ClientOrder::Prepare(of) => {
                let has = |own: &Parameters| self.arms.iter().any(|(kind, arm)| *kind == of.kind && arm == own);
                // No more sessions than arms: each holds connections and folders.
                let is_one_of_few = (of.session as usize) < self.arms.len() && !of.combinations.is_empty();
                server == Some(of.service.at.ip()) && is_one_of_few && of.combinations.iter().all(has)
            }
            ClientOrder::Trial { parameters, warmup_ns, duration_ns, .. } => {
                (*warmup_ns, *duration_ns) == (self.warmup_ns, self.duration_ns)
                    && self.arms.iter().any(|(_, arm)| arm == parameters)
            }
            ClientOrder::Next | ClientOrder::Go | ClientOrder::Stop => true,
        };
        if is_named {
            return Ok(());
        }
        let order: String = format!("{order:?}").chars().take(200).collect();
        let why = format!("it asked a client host for what the plan does not name: {order}");
        Err(Problem::host("the host under test", why).hint("look at what runs there: holdup asks for nothing else"))
    }
}

/// Where the host under test serves a load, and what it asks for first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAccess {
    /// Its address.
    pub at: SocketAddr,
    /// The number of the client host, from 1: its role in PostgreSQL.
    pub number: u32,
    /// What who connects has to say.
    pub token: Token,
}

/// A word that only those know who were given it. Empty where none is asked for.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Token(pub String);

/// In a time that does not depend on where two differ.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let (own, other) = (self.0.as_bytes(), other.0.as_bytes());
        own.len() == other.len() && own.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl Eq for Token {}

/// What is printed of an order goes into messages.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
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
    Over(Result<TrialResult, Problem>),
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
            service: access([127, 0, 0, 1]),
        };
        assert!(!format!("{:?}", session.service).contains("secret"));
        assert_eq!(format!("{:?}", ClientOrder::Prepare(Box::new(session))), "Prepare");
    }

    fn access(at: [u8; 4]) -> ServiceAccess {
        ServiceAccess { at: (at, 1).into(), number: 1, token: Token("secret".to_owned()) }
    }

    #[test]
    fn what_the_plan_does_not_name_is_refused() {
        let parameters = |script: &str| {
            let mut all = Parameters::default();
            all.set("script", script);
            all
        };
        let plan = ClientPlan {
            reached_as: "db1".to_owned(),
            arms: vec![("pgbench".to_owned(), parameters("tpcb-like")), ("stream".to_owned(), Parameters::default())],
            warmup_ns: 1,
            duration_ns: 2,
        };
        let (here, there) = ([10, 0, 0, 5], [10, 0, 0, 6]);
        let is_taken =
            |order: ClientOrder, server: Option<[u8; 4]>| plan.check(&order, server.map(IpAddr::from)).is_ok();
        for (name, expect) in [("db1", true), ("db2", false), ("localhost", false)] {
            assert_eq!(is_taken(ClientOrder::Route { server: name.to_owned() }, None), expect, "{name}");
        }
        assert!(is_taken(ClientOrder::Connect((here, 7).into()), Some(here)));
        assert!(!is_taken(ClientOrder::Connect((there, 7).into()), Some(here)));
        assert!(!is_taken(ClientOrder::Connect((here, 7).into()), None));
        let prepare = |session, kind: &str, combinations, at| {
            let kind = kind.to_owned();
            ClientOrder::Prepare(Box::new(ClientSession { session, kind, combinations, service: access(at) }))
        };
        let planned = || vec![parameters("tpcb-like")];
        assert!(is_taken(prepare(1, "pgbench", planned(), here), Some(here)));
        for (order, why) in [
            (prepare(0, "pgbench", vec![parameters("tpcb-like"), parameters("file")], here), "a script of a file"),
            (prepare(0, "pgbench", planned(), there), "another address"),
            (prepare(0, "stream", planned(), here), "parameters of another workload"),
            (prepare(0, "pgbench", Vec::new(), here), "no parameters"),
            (prepare(2, "pgbench", planned(), here), "more sessions than arms"),
        ] {
            assert!(!is_taken(order, Some(here)), "{why}");
        }
        let trial = |script: &str, duration_ns| {
            let (parameters, warmup_ns) = (parameters(script), 1);
            ClientOrder::Trial { session: 0, parameters, warmup_ns, duration_ns, seed: 9 }
        };
        for (script, duration_ns, expect) in [("tpcb-like", 2, true), ("file", 2, false), ("tpcb-like", 3, false)] {
            assert_eq!(is_taken(trial(script, duration_ns), Some(here)), expect, "{script} for {duration_ns} ns");
        }
        assert!(is_taken(ClientOrder::Next, None) && is_taken(ClientOrder::Stop, None));
    }

    #[test]
    fn hosts_of_a_bundle_have_one_client_or_a_list() {
        let read =
            |client: &str| serde_json::from_str::<Hosts>(&format!("{{\"server\": \"s\", \"client\": {client}}}"));
        assert_eq!(read("\"a\"").expect("one").clients, ["a"]);
        assert_eq!(read("[\"a\", \"b\"]").expect("two").clients, ["a", "b"]);
        assert!(read("1").is_err());
    }

    #[test]
    fn several_client_hosts_are_numbered_in_facts() {
        assert_eq!(key_of_client(ENDS_PREFIX, (0, 1), CLOCK_OFFSET), "ends.clock_offset_ms");
        assert_eq!(key_of_client(CLIENT_PREFIX, (1, 2), "ssh.host"), "client.2.ssh.host");
    }

    #[test]
    fn only_the_same_token_is_the_same() {
        let token = |text: &str| Token(text.to_owned());
        assert_eq!(token("abcd"), token("abcd"));
        for other in ["", "abc", "abce", "bbcd", "abcde"] {
            assert_ne!(token("abcd"), token(other));
        }
    }
}
