//! A segment of TCP as it stood in a frame.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// FIN.
pub const FIN: u16 = 0x001;
/// SYN.
pub const SYN: u16 = 0x002;
/// RST.
pub const RST: u16 = 0x004;
/// PSH.
pub const PSH: u16 = 0x008;
/// ACK.
pub const ACK: u16 = 0x010;
/// URG.
pub const URG: u16 = 0x020;

/// The bits of an address of IPv6 in host order, the highest first: a number of 128 bits that stands without padding beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wide([u32; 4]);

impl From<u128> for Wide {
    #[inline]
    fn from(bits: u128) -> Wide {
        Wide([96, 64, 32, 0].map(|shift| (bits >> shift) as u32))
    }
}

impl From<Wide> for u128 {
    #[inline]
    fn from(Wide(words): Wide) -> u128 {
        words.iter().fold(0, |bits, word| bits << 32 | u128::from(*word))
    }
}

/// An address of IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// IPv4, in host order.
    V4(u32),
    /// IPv6, in host order.
    V6(Wide),
}

impl Address {
    /// One of IPv6 by its bits.
    #[inline]
    pub fn v6(bits: u128) -> Address {
        Address::V6(bits.into())
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        match address {
            Address::V4(bits) => Ipv4Addr::from_bits(bits).into(),
            Address::V6(bits) => Ipv6Addr::from_bits(bits.into()).into(),
        }
    }
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The host.
    pub address: Address,
    /// Its port.
    pub port: u16,
}

/// The options that any judgement needs. The blocks come first: behind the MSS they would be copied together with its two bytes
/// that nobody wrote, in words that no write filled as a whole, which is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Options {
    /// The blocks of a selective acknowledgement: first byte, and the byte after the last.
    pub sacks: [(u32, u32); 4],
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The largest segment that its sender takes, bytes.
    pub mss: Option<u16>,
    /// The shift of its sender's windows, at most 14 (RFC 7323, 2.3).
    pub window_shift: Option<u8>,
    /// Whether selective acknowledgements are permitted.
    pub sack_permitted: bool,
    /// How many blocks of a selective acknowledgement there are.
    pub sack_count: u8,
    /// Whether the capture ends inside of that option, so that there may be more of them.
    pub sacks_are_cut: bool,
    /// Whether options of Multipath TCP are there.
    pub multipath: bool,
    /// Whether a cookie of TCP Fast Open is there, not only the request for one (RFC 7413, 4.1.1).
    pub fast_open_cookie: bool,
    /// Whether an option of MSS is there that has not 4 bytes, so that `mss` is `None`.
    pub mss_is_odd: bool,
    /// Whether what was captured of them is not a list of options to its end: one says more bytes than the header has, or
    /// something follows the end of the list.
    pub are_odd: bool,
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The number of the frame that it ended in, from 1.
    pub frame: u32,
    /// When that frame was captured, ns since the epoch.
    pub at_ns: i64,
    /// Who sent it.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// The sequence number of its first byte.
    pub seq: u32,
    /// The acknowledgement number, whether the flag is set or not.
    pub ack: u32,
    /// Bytes of payload by the IP header, captured or not; `None` where it cannot be known (a header that claims more than
    /// the datagram has).
    pub payload_bytes: Option<u32>,
    /// The flags: [`FIN`] and the others, and those of ECN above.
    pub flags: u16,
    /// The window as it stands in the header; 0 when it was not captured.
    pub window: u16,
    /// Whether it stood in the error message of a router (ICMP), as what that is about.
    pub in_error: bool,
    /// Whether it is the first fragment of a datagram whose others cannot be had; its length is not known.
    pub is_fragment: bool,
    /// Bytes of the header, as it says; below 20 it is bogus.
    pub header_bytes: u8,
    /// How many of them, or of the 20 that every header has, were captured; at least 14, so the window may be missing. Where it is
    /// fewer, options may be missing, and tshark follows the connection but tells no marks of its sequence numbers.
    pub header_captured_bytes: u8,
    /// IPv4's identification, `None` with IPv6.
    pub ip_id: Option<u16>,
    /// Bytes of the frame on the wire.
    pub frame_bytes: u32,
    /// The options.
    pub options: Options,
}

const _: () = assert!(size_of::<Segment>() <= 152, "threads hand segments to each other");

impl Segment {
    /// Whether one of these flags is set.
    #[inline]
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}
