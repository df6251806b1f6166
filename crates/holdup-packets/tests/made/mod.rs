//! Builds frames and captures, for tests, benches and the seeds of fuzzing. Other crates' tests include it by its path.
//!
//! A [`Tcp`] becomes a packet ([`Tcp::packet`]) or an Ethernet frame ([`Tcp::frame`]); the functions of [`layers`] put other headers
//! around a packet; [`Pcap`] and [`PcapNg`] write frames as files. Lengths and checksums are right unless a test asks otherwise,
//! payloads are zeros.
#![allow(dead_code, unreachable_pub, unused_imports, missing_docs, reason = "no test uses all of it")]

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
