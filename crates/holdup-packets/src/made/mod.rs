//! Frames and captures made from numbers, for tests, benches and the seeds of fuzzing.
//!
//! A [`Tcp`] becomes a packet ([`Tcp::packet`]) or a frame of Ethernet ([`Tcp::frame`]); the functions of [`layers`] put other
//! headers around a packet; [`Pcap`] and [`PcapNg`] write frames as files. Lengths and checksums are right unless a test asks
//! otherwise, payloads are zeros.
//!
//! ```
//! use holdup_packets::made::{Pcap, Tcp, link};
//! use holdup_packets::segment::{ACK, Address, Endpoint};
//!
//! let client = Endpoint { address: Address::V4(0x0a00_0001), port: 40_000 };
//! let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5432 };
//! let mut capture = Pcap::new(link::ETHERNET).with_nanoseconds();
//! capture.frame(1_000, &Tcp { seq: 1, ack: 1, flags: ACK, payload_bytes: 100, ..Tcp::new(client, server) }.frame());
//! assert_eq!(capture.into_bytes().len(), 24 + 16 + 14 + 20 + 20 + 100);
//! ```

pub mod layers;
mod pcap;
mod pcapng;
mod tcp;

pub use pcap::Pcap;
pub use pcapng::PcapNg;
pub use tcp::Tcp;

/// Numbers of link layers, as files of captures have them (<https://www.tcpdump.org/linktypes.html>).
pub mod link {
    /// BSD loopback: the protocol family in the order of the machine that captured.
    pub const NULL: u32 = 0;
    /// Ethernet.
    pub const ETHERNET: u32 = 1;
    /// An IP packet without a link layer, as some systems number it.
    pub const RAW_BSD: u32 = 12;
    /// An IP packet without a link layer.
    pub const RAW: u32 = 101;
    /// OpenBSD loopback: the protocol family in network order.
    pub const LOOP: u32 = 108;
    /// Linux cooked, version 1.
    pub const LINUX_SLL: u32 = 113;
    /// An IPv4 packet without a link layer.
    pub const IPV4: u32 = 228;
    /// An IPv6 packet without a link layer.
    pub const IPV6: u32 = 229;
    /// Linux cooked, version 2.
    pub const LINUX_SLL2: u32 = 276;
}
