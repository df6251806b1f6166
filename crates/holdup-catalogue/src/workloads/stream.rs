//! The parameters of `stream`.

use crate::parameters::{parameters, words};
use crate::{Bytes, Placement, Sharing};
use std::path::PathBuf;

words! {
    /// Which way the data goes, seen from the end that connects.
    Mode {
        /// All connections write.
        Write,
        /// All connections read.
        Read,
        /// Each number of connections in both directions at the same time.
        Both,
    }
}

words! {
    /// What connections speak.
    Protocol {
        /// RFC 9293.
        Tcp,
        /// RFC 768.
        Udp,
        /// Stream sockets of one host, unix(7).
        Unix,
    }
}

words! {
    /// What lies between the two ends.
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
        /// The network to the guest beside this one, `[guest] peer = true`.
        Peer,
    }
}

words! {
    /// The program that measures.
    By {
        /// This program.
        Holdup,
        /// iperf3(1).
        Iperf3,
        /// uperf.
        Uperf,
    }
}

/// The most connections in one direction.
pub const MOST_CONNECTIONS: i64 = 10_000;
/// The most that one socket buffer may be asked for, bytes; the kernel holds it in an `int` and doubles it (socket(7)).
pub const LARGEST_BUFFER: i64 = 1 << 30;
/// The workers of one end where the plan does not say: one for each flow, at most this number.
const OWN_WORKERS: u32 = 64;
/// What iperf3 writes with one call over TCP, bytes.
const TCP_BYTES: u64 = 128 << 10;
/// What one Ethernet frame carries, bytes: 1500 less the headers of IPv4 and UDP.
const UDP_BYTES: u64 = 1472;

parameters! {
    /// What a plan sets of `stream`.
    "stream"

    /// connections that carry data, in each direction
    connections: u32 [1..=MOST_CONNECTIONS] = "1",
    /// what they speak
    protocol: Protocol = "tcp",
    /// bytes of one transfer; 128KB, with udp 1472 bytes
    size: Option<Bytes>,
    /// which way the data goes, seen from the end that connects
    mode: Mode = "write",
    /// threads or processes at each end; by default one for each connection, at most 64
    workers: Option<u32> [1..=10_000],
    /// what workers are
    sharing: Sharing = "threads",
    /// what lies between the two ends; peer: another guest
    network: Network = "host",
    /// MTU of that network's links in bytes
    #[real]
    mtu: Option<u32> [68..=65_535],
    /// a uperf profile, which says what each strand does
    #[real]
    profile: Option<PathBuf>,
    /// transfers per second of each connection; 0 is as fast as it can
    #[real]
    rate: u64 [0..=1_000_000] = "0",
    /// TCP_NODELAY at both ends
    no_delay: bool = "off",
    /// SO_SNDBUF; left to the kernel otherwise
    #[real]
    send_buffer: Option<Bytes> [1..=LARGEST_BUFFER],
    /// SO_RCVBUF; left to the kernel otherwise
    #[real]
    receive_buffer: Option<Bytes> [1..=LARGEST_BUFFER],
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// the program that measures: holdup, or a reference tool that is installed
    #[real]
    by: By = "holdup",
}

impl Parameters {
    /// Bytes of one transfer.
    pub fn transfer_bytes(&self) -> u64 {
        self.size.unwrap_or(if self.protocol == Protocol::Udp { UDP_BYTES } else { TCP_BYTES })
    }

    /// Flows from the end that connects, and to it.
    pub fn flows(&self) -> [u32; 2] {
        match self.mode {
            Mode::Write => [self.connections, 0],
            Mode::Read => [0, self.connections],
            Mode::Both => [self.connections; 2],
        }
    }

    /// The most workers of one end.
    pub fn most_workers(&self) -> u32 {
        self.workers.unwrap_or(OWN_WORKERS)
    }
}
