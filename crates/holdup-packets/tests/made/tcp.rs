//! A segment of TCP made from numbers.

use super::layers::{self, Ipv4, Ipv6};
use holdup_packets::segment::{Address, Endpoint, Options};

/// A segment that is yet to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tcp {
    /// Who sends it.
    pub from: Endpoint,
    /// To whom; its address is of the same family.
    pub to: Endpoint,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The flags, the lower 12 bits.
    pub flags: u16,
    /// The window as it stands in the header.
    pub window: u16,
    /// The options, without those that are only flags (as [`Options::multipath`]).
    pub options: Options,
    /// Bytes of options after those, as they are.
    pub more_options: Vec<u8>,
    /// How much payload there is, bytes.
    pub payload_bytes: usize,
    /// IPv4's identification.
    pub ip_id: u16,
    /// IPv4's time to live, IPv6's hop limit.
    pub hops: u8,
}

impl Tcp {
    /// A segment between two ends with no flag and no payload, window 65,535.
    pub fn new(from: Endpoint, to: Endpoint) -> Self {
        Tcp {
            from,
            to,
            seq: 0,
            ack: 0,
            flags: 0,
            window: 65_535,
            options: Options::default(),
            more_options: Vec::new(),
            payload_bytes: 0,
            ip_id: 0,
            hops: 64,
        }
    }

    /// The TCP header and the payload.
    ///
    /// # Panics
    /// When the options take more than 40 bytes, or the two addresses are of different families.
    pub fn segment(&self) -> Vec<u8> {
        let options = self.option_bytes();
        let header_bytes = 20 + options.len();
        assert!(header_bytes <= 60, "options of {} bytes, at most 40", options.len());
        let mut bytes = Vec::with_capacity(header_bytes + self.payload_bytes);
        bytes.extend(self.from.port.to_be_bytes());
        bytes.extend(self.to.port.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend((((header_bytes / 4) as u16) << 12 | self.flags & 0xfff).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.resize(header_bytes + self.payload_bytes, 0);
        let sum = layers::pseudo_sum(self.from.address, self.to.address, layers::TCP, bytes.len());
        let checksum = layers::checksum(sum, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The segment in an IP packet, by the family of its addresses.
    ///
    /// # Panics
    /// As [`Tcp::segment`].
    pub fn packet(&self) -> Vec<u8> {
        let segment = self.segment();
        match (self.from.address, self.to.address) {
            (Address::V4(from), Address::V4(to)) => {
                Ipv4 { id: self.ip_id, hops: self.hops, ..Ipv4::new(from, to, layers::TCP) }.around(&segment)
            }
            (Address::V6(from), Address::V6(to)) => {
                Ipv6 { hops: self.hops, ..Ipv6::new(from.into(), to.into(), layers::TCP) }.around(&segment)
            }
            _ => panic!("two families in one segment"),
        }
    }

    /// The segment in an IP packet in a frame of Ethernet, without padding.
    ///
    /// # Panics
    /// As [`Tcp::segment`].
    pub fn frame(&self) -> Vec<u8> {
        let packet = self.packet();
        layers::ethernet(layers::ether_type(&packet), &packet)
    }

    /// The options as Linux writes them: filled up to words by NOP before each, and at the end.
    fn option_bytes(&self) -> Vec<u8> {
        let Options { mss, window_shift, sack_permitted, timestamps, sacks, sack_count, .. } = self.options;
        let mut bytes = Vec::new();
        if let Some(mss) = mss {
            bytes.extend([2, 4]);
            bytes.extend(mss.to_be_bytes());
        }
        match (sack_permitted, timestamps.is_some()) {
            (true, true) => bytes.extend([4, 2]),
            (true, false) => bytes.extend([1, 1, 4, 2]),
            (false, true) => bytes.extend([1, 1]),
            (false, false) => {}
        }
        if let Some((value, echo)) = timestamps {
            bytes.extend([8, 10]);
            bytes.extend(value.to_be_bytes());
            bytes.extend(echo.to_be_bytes());
        }
        if let Some(shift) = window_shift {
            bytes.extend([1, 3, 3, shift]);
        }
        let sacks = &sacks[..usize::from(sack_count)];
        if !sacks.is_empty() {
            bytes.extend([1, 1, 5, 2 + 8 * sack_count]);
            for (first, end) in sacks {
                bytes.extend(first.to_be_bytes());
                bytes.extend(end.to_be_bytes());
            }
        }
        bytes.extend(&self.more_options);
        bytes.resize(bytes.len().next_multiple_of(4), 1);
        bytes
    }
}
