//! The parameters of `ping`.

use crate::parameters::{parameters, words};
use crate::{Bytes, Placement, Sharing};
use std::path::PathBuf;

words! {
    /// How the client sends.
    Mode {
        /// One burst, then its answers, then the next burst: a closed loop.
        PingPong,
        /// At its own rate, independent of the server; some messages are answered: an open loop.
        UnderLoad,
        /// At its own rate or as fast as it can; nothing is answered.
        Throughput,
        /// At recorded times; some messages are answered: an open loop.
        Playback,
    }
}

words! {
    /// What carries the messages.
    Protocol {
        /// Datagrams that may be dropped.
        Udp,
        /// A byte stream with back-pressure.
        Tcp,
        /// Datagrams with back-pressure.
        UnixDatagram,
        /// A byte stream with back-pressure, without a network.
        UnixStream,
    }
}

impl Protocol {
    /// True if it has no borders between messages.
    pub fn is_stream(self) -> bool {
        matches!(self, Protocol::Tcp | Protocol::UnixStream)
    }

    /// True if the kernel may drop what it took.
    pub fn may_lose(self) -> bool {
        self == Protocol::Udp
    }
}

words! {
    /// How an end waits.
    Waiting {
        /// It sleeps in the kernel.
        Block,
        /// It asks again and again.
        Poll,
    }
}

words! {
    /// What lies between client and server.
    Network {
        /// The loopback link of the host itself.
        Host,
        /// The loopback link of a new namespace.
        Loopback,
        /// A veth pair between two namespaces.
        Veth,
        /// A Linux bridge between two namespaces.
        Bridge,
        /// An Open vSwitch between two namespaces.
        #[strum(serialize = "openvswitch")]
        OpenVSwitch,
    }
}

words! {
    /// The program that measures.
    By {
        /// This program.
        Holdup,
        /// sockperf.
        Sockperf,
    }
}

/// The most messages per second.
pub const MOST_PER_S: i64 = 1_000_000_000;
/// The largest buffer that a socket can be given, bytes: the kernel keeps twice as much in a 32-bit number.
pub const LARGEST_BUFFER: i64 = 1 << 29;

parameters! {
    /// What a plan sets of `ping`.
    "ping"

    /// closed loop, open loop, one way only, or as recorded
    mode: Mode = "ping-pong",
    /// what carries the messages
    protocol: Protocol = "udp",
    /// bytes of a message, header included; 8 at least where some are answered and some not
    size: Bytes = "14",
    /// messages per second, 0 for as fast as can be; by default 10000 under load, else 0
    rate: Option<u64> [0..=MOST_PER_S],
    /// messages that are sent one right after the other
    burst: u64 [1..=1 << 20] = "1",
    /// one of n messages is answered under load and in playback; by default 100
    reply_every: Option<u64> [1..=MOST_PER_S],
    /// lines of seconds and bytes (mode = playback)
    playback_file: Option<PathBuf>,
    /// whether client and server are processes or threads
    sharing: Sharing = "processes",
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// of each socket, bytes; 0 for the kernel's default
    #[real]
    receive_buffer: Bytes [0..=LARGEST_BUFFER] = "0",
    /// of each socket, bytes; 0 for the kernel's default
    #[real]
    send_buffer: Bytes [0..=LARGEST_BUFFER] = "0",
    /// whether an end that waits sleeps in the kernel or asks again and again
    waiting: Waiting = "block",
    /// what lies between client and server; all but host is made for the trial
    network: Network = "host",
    /// MTU of that network's links in bytes
    #[real]
    mtu: Option<u32> [68..=65_535],
    /// the program that measures: holdup, or a reference tool that is installed
    #[real]
    by: By = "holdup",
}
