//! What client and server say to each other in a trial of `stream`.

use holdup_load::worker_pool::Sharing;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What the server is to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// For each connection whether the server sends.
    pub sends: Vec<bool>,
    /// Bytes of one transfer.
    pub size: u64,
    /// Workers of the server.
    pub workers: usize,
    /// True if they are processes.
    pub processes: bool,
    /// Time from one transfer of a connection to the next, ns; 0 for none.
    pub interval_ns: u64,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// SO_SNDBUF.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF.
    pub receive_buffer: Option<u32>,
}

impl Begin {
    pub(crate) fn sharing(&self) -> Sharing {
        if self.processes { Sharing::Processes } else { Sharing::Threads }
    }
}

/// From the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Listen. Answer: [`Answer::Listening`].
    Begin(Begin),
    /// Take the connections that come from these addresses, in this order, and work. Answer: [`Answer::Working`].
    Work(Vec<SocketAddr>),
    /// Report the counts so far. Answer: [`Answer::Edge`].
    Read,
    /// End: stop sending, receive what is under way. Answer: [`Answer::Ended`].
    End,
}

/// From the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// On this port of the link's address.
    Listening(u16),
    /// Every connection is open, that number of foreign ones was refused, and the workers run.
    Working(u64),
    /// What was counted so far.
    Edge(Counts),
    /// All workers have ended.
    Ended(Counts),
}

/// What the server counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Of each connection the bytes and whole transfers of the server, sent or received.
    pub moved: Vec<(u64, u64)>,
    /// CPU time of the workers so far, ns; `None` when it could not be read.
    pub cpu_ns: Option<u64>,
    /// TCP segments that the server's machine has sent again since it was booted; `None` when it does not count.
    pub retransmitted: Option<u64>,
}
