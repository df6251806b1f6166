//! Headers around packets.

use holdup_packets::segment::Address;

/// The number of TCP as a protocol of IP.
pub const TCP: u8 = 6;
/// The number of UDP.
pub const UDP: u8 = 17;
/// The number of ICMP.
pub const ICMP: u8 = 1;
/// The number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// The number of GRE.
pub const GRE: u8 = 47;
/// The number of IPv4 inside of IP.
pub const IPV4_INSIDE: u8 = 4;
/// The number of IPv6 inside of IP.
pub const IPV6_INSIDE: u8 = 41;

/// The EtherType of IPv4.
pub const ETHER_IPV4: u16 = 0x0800;
/// The EtherType of IPv6.
pub const ETHER_IPV6: u16 = 0x86dd;
/// The EtherType of a VLAN's tag.
pub const ETHER_VLAN: u16 = 0x8100;
/// The EtherType of a provider's tag around one (IEEE 802.1ad).
pub const ETHER_QINQ: u16 = 0x88a8;
/// The EtherType of frames of Ethernet inside of GRE (transparent bridging).
pub const ETHER_BRIDGED: u16 = 0x6558;
/// The EtherType of MPLS.
pub const ETHER_MPLS: u16 = 0x8847;
/// The EtherType of a session of PPPoE.
pub const ETHER_PPPOE: u16 = 0x8864;

/// The EtherType of a packet, by its first four bits.
pub fn ether_type(packet: &[u8]) -> u16 {
    if packet.first().is_some_and(|first| first >> 4 == 6) { ETHER_IPV6 } else { ETHER_IPV4 }
}

/// An IPv4 header that is yet to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipv4 {
    /// The source, in host order.
    pub from: u32,
    /// The destination.
    pub to: u32,
    /// The number of what is inside.
    pub protocol: u8,
    /// The identification.
    pub id: u16,
    /// Time to live.
    pub hops: u8,
    /// True if it says that it must not be cut into fragments.
    pub dont_fragment: bool,
    /// True if more fragments follow.
    pub more_fragments: bool,
    /// Where in the datagram the fragment belongs, bytes, a multiple of 8.
    pub offset_bytes: u16,
    /// Options, filled up with zeros to words.
    pub options: Vec<u8>,
    /// The total length that the header says, in place of the right one.
    pub total_bytes: Option<u16>,
}

impl Ipv4 {
    /// A header of 20 bytes with identification 0, 64 hops, no fragment.
    pub fn new(from: u32, to: u32, protocol: u8) -> Self {
        Ipv4 {
            from,
            to,
            protocol,
            id: 0,
            hops: 64,
            dont_fragment: false,
            more_fragments: false,
            offset_bytes: 0,
            options: Vec::new(),
            total_bytes: None,
        }
    }

    /// The packet. A total length beyond 65,535 is written as 0, as cards that cut segments themselves are given it.
    ///
    /// # Panics
    /// When the options take more than 40 bytes.
    pub fn around(&self, inside: &[u8]) -> Vec<u8> {
        let header_bytes = 20 + self.options.len().next_multiple_of(4);
        assert!(header_bytes <= 60, "options of {} bytes, at most 40", self.options.len());
        let total = u16::try_from(header_bytes + inside.len()).unwrap_or(0);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        let fragment = flags | (self.offset_bytes / 8);
        let mut bytes = Vec::with_capacity(header_bytes + inside.len());
        bytes.extend([0x40 | (header_bytes / 4) as u8, 0]);
        bytes.extend(self.total_bytes.unwrap_or(total).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([self.hops, self.protocol, 0, 0]);
        bytes.extend(self.from.to_be_bytes());
        bytes.extend(self.to.to_be_bytes());
        bytes.extend(&self.options);
        bytes.resize(header_bytes, 0);
        let sum = checksum(0, &bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(inside);
        bytes
    }

    /// The datagram cut into packets, each with at most `most_bytes` of what is inside, rounded down to 8.
    pub fn fragments(&self, inside: &[u8], most_bytes: usize) -> Vec<Vec<u8>> {
        let each = (most_bytes / 8 * 8).max(8);
        let last = inside.len().div_ceil(each).saturating_sub(1);
        let cut = |(i, part): (usize, &[u8])| {
            Ipv4 { more_fragments: i < last, offset_bytes: (i * each) as u16, ..self.clone() }.around(part)
        };
        inside.chunks(each).enumerate().map(cut).collect()
    }
}

/// An IPv6 header that is yet to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipv6 {
    /// The source, in host order.
    pub from: u128,
    /// The destination.
    pub to: u128,
    /// The number of what is inside, an extension header or a protocol.
    pub next: u8,
    /// The hop limit.
    pub hops: u8,
    /// The payload length that the header says, in place of the right one.
    pub payload_bytes: Option<u16>,
}

impl Ipv6 {
    /// A header with 64 hops.
    pub fn new(from: u128, to: u128, next: u8) -> Self {
        Ipv6 { from, to, next, hops: 64, payload_bytes: None }
    }

    /// The packet. A length beyond 65,535 is written as 0.
    pub fn around(&self, inside: &[u8]) -> Vec<u8> {
        let length = self.payload_bytes.unwrap_or(u16::try_from(inside.len()).unwrap_or(0));
        let mut bytes = Vec::with_capacity(40 + inside.len());
        bytes.extend([0x60, 0, 0, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([self.next, self.hops]);
        bytes.extend(self.from.to_be_bytes());
        bytes.extend(self.to.to_be_bytes());
        bytes.extend(inside);
        bytes
    }

    /// The datagram cut into packets with fragment headers, each with at most `most_bytes` of what is inside, rounded down to 8.
    pub fn fragments(&self, id: u32, inside: &[u8], most_bytes: usize) -> Vec<Vec<u8>> {
        let each = (most_bytes / 8 * 8).max(8);
        let last = inside.len().div_ceil(each).saturating_sub(1);
        let cut = |(i, part): (usize, &[u8])| {
            let header = fragment_header(self.next, (i * each) as u16, i < last, id);
            Ipv6 { next: 44, ..self.clone() }.around(&[&header[..], part].concat())
        };
        inside.chunks(each).enumerate().map(cut).collect()
    }
}

/// A fragment header of IPv6 (RFC 8200, 4.5): what follows it, the place in the datagram in bytes, whether more follow.
pub fn fragment_header(next: u8, offset_bytes: u16, more: bool, id: u32) -> [u8; 8] {
    let [high, low] = (offset_bytes & !7 | u16::from(more)).to_be_bytes();
    let [a, b, c, d] = id.to_be_bytes();
    [next, 0, high, low, a, b, c, d]
}

/// An extension header of IPv6 that holds options (hop by hop 0, destination 60) or a route (43): what follows it, and its
/// body, filled up with zeros (`Pad1`) to a multiple of 8 bytes.
pub fn extension(next: u8, body: &[u8]) -> Vec<u8> {
    let length = (2 + body.len()).next_multiple_of(8);
    let mut bytes = vec![next, (length / 8 - 1) as u8];
    bytes.extend(body);
    bytes.resize(length, 0);
    bytes
}

/// A frame of Ethernet, without padding.
pub fn ethernet(ether_type: u16, inside: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(14 + inside.len());
    bytes.extend([0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1]);
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(inside);
    bytes
}

/// What follows the EtherType of a VLAN: the tag, the EtherType of what is inside, what is inside.
pub fn vlan(tag: u16, ether_type: u16, inside: &[u8]) -> Vec<u8> {
    [&tag.to_be_bytes()[..], &ether_type.to_be_bytes(), inside].concat()
}

/// What follows the EtherType of MPLS: labels, the last marked as the bottom, and what is inside.
pub fn mpls(labels: &[u32], inside: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, label) in labels.iter().enumerate() {
        let is_bottom = u32::from(i + 1 == labels.len());
        bytes.extend((label << 12 | is_bottom << 8 | 64).to_be_bytes());
    }
    bytes.extend(inside);
    bytes
}

/// What follows the EtherType of a session of PPPoE (RFC 2516, 4), with an IP packet.
pub fn pppoe(session: u16, packet: &[u8]) -> Vec<u8> {
    let protocol: u16 = if ether_type(packet) == ETHER_IPV6 { 0x57 } else { 0x21 };
    let mut bytes = vec![0x11, 0];
    bytes.extend(session.to_be_bytes());
    bytes.extend(((packet.len() + 2) as u16).to_be_bytes());
    bytes.extend(protocol.to_be_bytes());
    bytes.extend(packet);
    bytes
}

/// A frame of Linux cooked, version 1.
pub fn cooked_v1(ether_type: u16, inside: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend(inside);
    bytes
}

/// A frame of Linux cooked, version 2.
pub fn cooked_v2(ether_type: u16, inside: &[u8]) -> Vec<u8> {
    let mut bytes = ether_type.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
    bytes.extend(inside);
    bytes
}

/// A frame of BSD loopback, the family in network order or the other one.
pub fn loopback(family: u32, big_endian: bool, inside: &[u8]) -> Vec<u8> {
    let family = if big_endian { family.to_be_bytes() } else { family.to_le_bytes() };
    [&family[..], inside].concat()
}

/// A datagram of UDP, without a checksum.
pub fn udp(from_port: u16, to_port: u16, inside: &[u8]) -> Vec<u8> {
    let length = (8 + inside.len()) as u16;
    let mut bytes = Vec::with_capacity(8 + inside.len());
    for number in [from_port, to_port, length, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(inside);
    bytes
}

/// What is in a datagram of VXLAN (RFC 7348): the header and a frame of Ethernet.
pub fn vxlan(network: u32, frame: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x08, 0, 0, 0];
    bytes.extend((network << 8).to_be_bytes());
    bytes.extend(frame);
    bytes
}

/// What is in a datagram of Geneve (RFC 8926): the header, options (whole words), and what is inside by its EtherType.
pub fn geneve(network: u32, options: &[u8], ether_type: u16, inside: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(options.len() / 4) as u8, 0];
    bytes.extend(ether_type.to_be_bytes());
    bytes.extend((network << 8).to_be_bytes());
    bytes.extend(options);
    bytes.extend(inside);
    bytes
}

/// What follows the protocol number of GRE (RFC 2784, RFC 2890), version 0.
pub fn gre(with_checksum: bool, key: Option<u32>, sequence: Option<u32>, ether_type: u16, inside: &[u8]) -> Vec<u8> {
    let flags = u16::from(with_checksum) << 15 | u16::from(key.is_some()) << 13 | u16::from(sequence.is_some()) << 12;
    let mut bytes = flags.to_be_bytes().to_vec();
    bytes.extend(ether_type.to_be_bytes());
    if with_checksum {
        bytes.extend([0; 4]);
    }
    for number in [key, sequence].into_iter().flatten() {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(inside);
    if with_checksum {
        let sum = checksum(0, &bytes);
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// A message of ICMP: an error about a packet, of which it has what is given.
pub fn icmp(kind: u8, code: u8, about: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(about);
    let sum = checksum(0, &bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A message of ICMPv6 between two hosts: an error about a packet, of which it has what is given.
pub fn icmpv6(from: u128, to: u128, kind: u8, code: u8, about: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(about);
    let sum = checksum(pseudo_sum(Address::v6(from), Address::v6(to), ICMPV6, bytes.len()), &bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The sum over the pseudo header of TCP and its like (RFC 9293, 3.1; RFC 8200, 8.1), not folded.
pub fn pseudo_sum(from: Address, to: Address, protocol: u8, length: usize) -> u64 {
    let of = |address| match address {
        Address::V4(bits) => words_sum(&bits.to_be_bytes()),
        Address::V6(bits) => words_sum(&u128::from(bits).to_be_bytes()),
    };
    of(from) + of(to) + u64::from(protocol) + length as u64
}

/// The checksum of the internet (RFC 1071) over bytes, after a sum over others.
pub fn checksum(sum: u64, bytes: &[u8]) -> u16 {
    let mut sum = sum + words_sum(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The sum of 16-bit words in network order, the last filled up with a zero.
fn words_sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))).sum()
}
