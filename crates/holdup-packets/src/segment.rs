//! A TCP segment in a frame.

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
/// An IPv6 address in host order, most significant word first: 128 bits without the alignment, and so the padding, of `u128`.
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

/// An IPv4 or IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// IPv4, in host order.
    V4(u32),
    /// IPv6, in host order.
    V6(Wide),
}

impl Address {
    /// An IPv6 address.
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

/// An endpoint of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// Its port.
    pub port: u16,
}

/// The options that a judgement needs. The blocks come first: after `mss` they would be copied together with its two bytes of
/// padding, and loading words that no single store wrote stalls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Options {
    /// The blocks of a SACK: first byte, and the byte after the last.
    pub sacks: [(u32, u32); 4],
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// MSS, bytes.
    pub mss: Option<u16>,
    /// Window scale, at most 14 (RFC 7323, 2.3).
    pub window_shift: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// The number of SACK blocks.
    pub sack_count: u8,
    /// True if the capture truncates the SACK option.
    pub sacks_are_cut: bool,
    /// True if there are options of Multipath TCP.
    pub multipath: bool,
    /// True if there is a TCP Fast Open cookie, not only the request for one (RFC 7413, 4.1.1).
    pub fast_open_cookie: bool,
    /// True if there is an MSS option whose length is not 4, so that `mss` is `None`.
    pub mss_is_odd: bool,
    /// True if the captured options are malformed: an option exceeds the header, or data follows the end of the list.
    pub are_odd: bool,
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The number of its (last) frame, from 1.
    pub frame: u32,
    /// The capture time of that frame, ns since the epoch.
    pub at_ns: i64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number, also without the ACK flag.
    pub ack: u32,
    /// Payload bytes by the IP header, captured or not; `None` if unknown (a header longer than the datagram).
    pub payload_bytes: Option<u32>,
    /// [`FIN`] and the others, with the ECN flags above.
    pub flags: u16,
    /// The unscaled window; 0 if it was not captured.
    pub window: u16,
    /// True if it was quoted in an ICMP error.
    pub in_error: bool,
    /// True if it is the first fragment of an incomplete datagram; its length is unknown.
    pub is_fragment: bool,
    /// The header length; below 20 it is bogus.
    pub header_bytes: u8,
    /// The captured bytes of the header, or of its minimum of 20; at least 14, so the window may be missing. With fewer bytes
    /// than the header has, options may be missing, and tshark follows the connection but gives no marks for its sequence
    /// numbers.
    pub header_captured_bytes: u8,
    /// The IPv4 identification.
    pub ip_id: Option<u16>,
    /// The length of the frame on the wire.
    pub frame_bytes: u32,
    /// The options.
    pub options: Options,
}

const _: () = assert!(size_of::<Segment>() <= 152, "threads hand segments to each other");

impl Segment {
    /// True if any of these flags is set.
    #[inline]
    pub fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
}
