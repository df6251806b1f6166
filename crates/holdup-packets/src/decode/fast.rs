//! The fast path for common frames: Ethernet (with or without a VLAN), Linux cooked or raw IP; an IP header without options or
//! extensions; a complete TCP header.

use super::Decoded;
use super::tcp::{self, PROTOCOL};
use crate::capture::{Frame, Link};
use crate::segment::{Address, Endpoint, Options, Segment};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;

/// A constant is stored in place; the result of [`Options::default`] would be copied.
const NO_OPTIONS: Options = Options {
    mss: None,
    window_shift: None,
    sack_permitted: false,
    timestamps: None,
    sacks: [(0, 0); 4],
    sack_count: 0,
    sacks_are_cut: false,
    multipath: false,
    fast_open_cookie: false,
    mss_is_odd: false,
    are_odd: false,
};

/// The parts of such a frame.
pub(super) struct FastFrame<'a> {
    ip: Ip<'a>,
    /// The IP payload length.
    length: u32,
    header: &'a [u8; 20],
    header_bytes: u8,
    options: &'a [u8],
}

enum Ip<'a> {
    V4(&'a [u8; 20]),
    V6(&'a [u8; 40]),
}

/// The EtherType, and the length of the link-layer header.
#[inline(always)]
fn packet(link: Link, captured: &[u8]) -> Option<(u16, usize)> {
    if link != Link::Ethernet {
        return not_ethernet(link, captured);
    }
    Some(match short(captured, 12)? {
        VLAN => (short(captured, 16)?, 18),
        kind => (kind, 14),
    })
}

/// The endpoints of the only possible segment; `None` if the fast path does not apply.
#[inline(always)]
pub(super) fn ends(frame: &Frame<'_>) -> Option<[Endpoint; 2]> {
    let (kind, header_bytes) = packet(frame.link, frame.captured)?;
    let packet = frame.captured.get(header_bytes..)?;
    let ports = |at: usize| Some([short(packet, at)?, short(packet, at + 2)?]);
    let ((from, to, _), [from_port, to_port]) = match kind {
        IPV4 => {
            let ip = packet.first_chunk::<20>().filter(|ip| is_plain_v4(ip))?;
            (ends_v4(ip), ports(20)?)
        }
        IPV6 => {
            let ip = packet.first_chunk::<40>().filter(|ip| is_plain_v6(ip))?;
            (ends_v6(ip), ports(40)?)
        }
        _ => return None,
    };
    Some([Endpoint { address: from, port: from_port }, Endpoint { address: to, port: to_port }])
}

/// A 20-byte header, not a fragment, with TCP.
#[inline(always)]
fn is_plain_v4(ip: &[u8; 20]) -> bool {
    ip[0] == 0x45 && ip[9] == PROTOCOL && u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0
}

/// No extension header, with TCP.
#[inline(always)]
fn is_plain_v6(ip: &[u8; 40]) -> bool {
    ip[0] >> 4 == 6 && ip[6] == PROTOCOL
}

/// Parses a common frame; all others take the path through all layers, which gives the same result.
#[inline(always)]
pub(super) fn fast_frame<'a>(frame: &Frame<'a>) -> Option<FastFrame<'a>> {
    let captured = frame.captured;
    let (kind, header_bytes) = packet(frame.link, captured)?;
    let packet = captured.get(header_bytes..)?;
    let wire_bytes = frame.wire_bytes.max(captured.len() as u32) - header_bytes as u32;
    // Both headers together, for one bounds check.
    let (ip, length, header, rest) = match kind {
        IPV4 => {
            let (headers, rest) = packet.split_first_chunk::<40>()?;
            let (ip, header) = (headers.first_chunk::<20>()?, headers.last_chunk::<20>()?);
            let total = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
            if !is_plain_v4(ip) || total > wire_bytes {
                return None;
            }
            (Ip::V4(ip), total.checked_sub(20)?, header, rest)
        }
        IPV6 => {
            let (headers, rest) = packet.split_first_chunk::<60>()?;
            let (ip, header) = (headers.first_chunk::<40>()?, headers.last_chunk::<20>()?);
            let length = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
            if !is_plain_v6(ip) || length == 0 || 40 + length > wire_bytes {
                return None;
            }
            (Ip::V6(ip), length, header, rest)
        }
        _ => return None,
    };
    let header_bytes = (header[12] >> 4) * 4;
    if length < u32::from(header_bytes) {
        return None;
    }
    let options = rest.get(..usize::from(header_bytes).checked_sub(20)?)?;
    Some(FastFrame { ip, length, header, header_bytes, options })
}

#[inline(never)]
fn not_ethernet(link: Link, captured: &[u8]) -> Option<(u16, usize)> {
    match link {
        Link::CookedV1 => Some((short(captured, 14)?, 16)),
        Link::CookedV2 => Some((short(captured, 0)?, 20)),
        Link::Raw => Some((if captured.first()? >> 4 == 6 { IPV6 } else { IPV4 }, 0)),
        _ => None,
    }
}

impl FastFrame<'_> {
    /// Each combination builds the segment in place: loading a copy of fields that were just stored separately stalls.
    #[inline(always)]
    pub(super) fn decoded(&self, frame: &Frame<'_>) -> Decoded {
        match (&self.ip, self.options.try_into().map(timestamps)) {
            (Ip::V4(ip), Ok(Some(both))) => Decoded::Segment(self.segment(frame, ends_v4(ip), alone(both))),
            (Ip::V4(ip), _) if self.options.is_empty() => {
                Decoded::Segment(self.segment(frame, ends_v4(ip), NO_OPTIONS))
            }
            (Ip::V4(ip), _) => Decoded::Segment(self.segment(frame, ends_v4(ip), tcp::options(self.options, 0))),
            (Ip::V6(ip), Ok(Some(both))) => Decoded::Segment(self.segment(frame, ends_v6(ip), alone(both))),
            (Ip::V6(ip), _) => Decoded::Segment(self.segment(frame, ends_v6(ip), tcp::options(self.options, 0))),
        }
    }

    #[inline(always)]
    fn segment(
        &self,
        frame: &Frame<'_>,
        (from, to, ip_id): (Address, Address, Option<u16>),
        options: Options,
    ) -> Segment {
        let FastFrame { header, header_bytes, .. } = *self;
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Segment {
            frame: frame.number,
            at_ns: frame.at_ns,
            from: Endpoint { address: from, port: short(0) },
            to: Endpoint { address: to, port: short(2) },
            seq: word(4),
            ack: word(8),
            payload_bytes: Some(self.length - u32::from(header_bytes)),
            flags: short(12) & 0xfff,
            window: short(14),
            in_error: false,
            is_fragment: false,
            header_bytes,
            header_captured_bytes: header_bytes,
            ip_id,
            frame_bytes: frame.wire_bytes,
            options,
        }
    }
}

#[inline(always)]
fn ends_v4(ip: &[u8; 20]) -> (Address, Address, Option<u16>) {
    let address = |at: usize| Address::V4(u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]));
    (address(12), address(16), Some(u16::from_be_bytes([ip[4], ip[5]])))
}

#[inline(always)]
fn ends_v6(ip: &[u8; 40]) -> (Address, Address, Option<u16>) {
    let address = |at: usize| Address::v6(u128::from_be_bytes(std::array::from_fn(|i| ip[at + i])));
    (address(8), address(24), None)
}

/// The timestamps in options as Linux writes them: NOP, NOP, timestamps.
#[inline(always)]
fn timestamps([a, b, c, d, e, f, g, h, i, j, k, l]: &[u8; 12]) -> Option<(u32, u32)> {
    // One comparison of four bytes.
    let is_alone = u32::from_be_bytes([*a, *b, *c, *d]) == 0x0101_080a;
    is_alone.then_some((u32::from_be_bytes([*e, *f, *g, *h]), u32::from_be_bytes([*i, *j, *k, *l])))
}

#[inline(always)]
fn alone(timestamps: (u32, u32)) -> Options {
    Options { timestamps: Some(timestamps), ..NO_OPTIONS }
}

#[inline(always)]
fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}
