//! What is kept of a connection: numbers, in at most 248 bytes.

use super::tallies::Tally;
use super::unacked::List;
use crate::segment::{Address, Endpoint, Segment, Wide};

/// The shift of a direction's windows is not known.
pub(super) const SHIFT_UNKNOWN: i8 = -1;
/// Its windows are not shifted, because one end does not do that.
pub(super) const SHIFT_NONE: i8 = -2;
/// The largest segment that an end takes is not known.
pub(super) const MSS_UNKNOWN: i16 = -1;

/// Bits of [`Side::flags`].
pub(super) mod side {
    /// `base` is set.
    pub(crate) const HAS_BASE: u8 = 1;
    /// `window` is set.
    pub(crate) const HAS_WINDOW: u8 = 2;
    /// What is in flight is known: since the last gap the other end has acknowledged something.
    pub(crate) const IN_FLIGHT_IS_KNOWN: u8 = 4;
    /// The last segment with payload had PSH.
    pub(crate) const HAS_PUSHED: u8 = 8;
    /// Since its SYN it has sent nothing but that, so its window is not shifted.
    pub(crate) const HAS_ONLY_SYN: u8 = 16;
    /// Its last segment had payload.
    pub(crate) const LAST_WAS_DATA: u8 = 32;
    /// Its last segment was a keep-alive.
    pub(crate) const WAS_KEEP_ALIVE: u8 = 64;
    /// Its last segment was a probe of a zero window.
    pub(crate) const WAS_PROBE: u8 = 128;
}

/// Bits of [`Connection::flags`].
pub(super) mod connection {
    /// The hosts are addresses of IPv6.
    pub(crate) const IS_WIDE: u8 = 1;
    /// The first segment that was seen came from side 1.
    pub(crate) const BEGAN_AT_1: u8 = 2;
    /// `syn_or_rtt_ns` is the initial round trip.
    pub(crate) const HAS_RTT: u8 = 4;
    /// The SYN brought data for Fast Open.
    pub(crate) const OPENED_FAST: u8 = 8;
    /// Side 0 sent the first FIN; the next bit is that of side 1.
    pub(crate) const CLOSES: u8 = 16;
    /// Another one took its ends when no more connections could be kept, so what comes is no longer of this one.
    pub(crate) const IS_OVER: u8 = 64;
}

/// What one end has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    /// When the segment that reached `next` came.
    pub(super) next_at_ns: i64,
    /// When its last segment came.
    pub(super) last_at_ns: i64,
    /// Bytes of payload.
    pub(super) payload_bytes: u64,
    /// Bytes of frames.
    pub(super) frame_bytes: u64,
    /// Where its sequence numbers begin.
    pub(super) base: u32,
    /// The byte after the last one that it has sent; 0 for none.
    pub(super) next: u32,
    /// The frame in which that was reached.
    pub(super) next_frame: u32,
    /// Up to where it was seen without a gap; 0 for nowhere.
    pub(super) seen: u32,
    /// The last acknowledgement number that it sent.
    pub(super) ack: u32,
    /// The frame in which it sent that first.
    pub(super) ack_frame: u32,
    /// How often it was repeated.
    pub(super) repeats: u32,
    /// Bytes since the last PSH.
    pub(super) push_bytes: u32,
    /// Segments.
    pub(super) segments: u32,
    /// Those with payload.
    pub(super) data_segments: u32,
    /// The most that was in flight, bytes.
    pub(super) in_flight_bytes_max: u32,
    /// What of it is not acknowledged.
    pub(super) unacked: List,
    /// Its place in the store of selective acknowledgements, plus one; 0 for none.
    pub(super) sacks: u32,
    /// Its last window as it stood in the header.
    pub(super) window: u16,
    /// The largest segment that it takes. Wireshark keeps it in 16 bits with a sign, so one beyond 32,767 is negative.
    pub(super) mss: i16,
    /// How often each kind was seen.
    pub(super) tally: Tally,
    /// The shift of its windows.
    pub(super) shift: i8,
    /// The low 8 bits of the payload of the segment that reached `next`; Wireshark keeps no more.
    pub(super) next_payload_bytes: u8,
    /// See [`side`].
    pub(super) flags: u8,
}

impl Side {
    fn new() -> Self {
        Side {
            next_at_ns: 0,
            last_at_ns: 0,
            payload_bytes: 0,
            frame_bytes: 0,
            base: 0,
            next: 0,
            next_frame: 0,
            seen: 0,
            ack: 0,
            ack_frame: 0,
            repeats: 0,
            push_bytes: 0,
            segments: 0,
            data_segments: 0,
            in_flight_bytes_max: 0,
            unacked: List::default(),
            sacks: 0,
            window: 0,
            mss: MSS_UNKNOWN,
            tally: Tally::default(),
            shift: SHIFT_UNKNOWN,
            next_payload_bytes: 0,
            flags: 0,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// When it sent its last segment, if that had payload.
    #[inline]
    pub(super) fn last_data_ns(&self) -> Option<i64> {
        self.has(side::LAST_WAS_DATA).then_some(self.last_at_ns)
    }

    /// Its last window; what no window in a header can be when it has sent none.
    #[inline]
    pub(super) fn window(&self) -> u32 {
        if self.has(side::HAS_WINDOW) { self.window.into() } else { u32::MAX }
    }
}

/// The ends of a connection, that of side 0 first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Address and port of each as one number ([`end_v4`]).
    V4([u64; 2]),
    V6([Wide; 2], [u16; 2]),
}

/// Which connection a segment is of, and from which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) ends: Ends,
    /// Which side sends. The greater end is side 0, as Wireshark has it: by address, then by port.
    pub(super) from: usize,
}

/// An end of IPv4 as one number, which is greater when its address is, or its port on the same address.
#[inline(always)]
pub(super) fn end_v4(host: u32, port: u16) -> u64 {
    u64::from(host) << 16 | u64::from(port)
}

impl Key {
    #[inline(always)]
    pub(super) fn of(segment: &Segment) -> Key {
        Key::between([segment.from, segment.to])
    }

    /// The key of what the first of two ends sends to the other.
    #[inline(always)]
    pub(super) fn between([from, to]: [Endpoint; 2]) -> Key {
        let ports = [from.port, to.port];
        match (from.address, to.address) {
            (Address::V4(a), Address::V4(b)) => {
                let (a, b) = (end_v4(a, ports[0]), end_v4(b, ports[1]));
                Key { ends: Ends::V4([a.max(b), a.min(b)]), from: usize::from(a <= b) }
            }
            (a, b) => Key::ordered([wide(a), wide(b)], ports),
        }
    }

    /// Kept out of the way of IPv4, where both ends fit two registers.
    #[inline(never)]
    fn ordered([a, b]: [Wide; 2], [p, q]: [u16; 2]) -> Key {
        if (a, p) > (b, q) {
            Key { ends: Ends::V6([a, b], [p, q]), from: 0 }
        } else {
            Key { ends: Ends::V6([b, a], [q, p]), from: 1 }
        }
    }
}

impl Ends {
    /// Well mixed bits of the two ends.
    #[inline(always)]
    pub(super) fn hash(&self) -> u64 {
        let [a, b] = match *self {
            Ends::V4(ends) => ends,
            Ends::V6([a, b], ports) => {
                let hosts = half(a, 0x9e37_79b9_7f4a_7c15) ^ half(b, 0xc2b2_ae3d_27d4_eb4f);
                [hosts, both(ports)]
            }
        };
        fold(a ^ 0xa076_1d64_78bd_642f, b ^ 0xe703_7ed1_a0b4_28db)
    }
}

/// Two ports as one number.
pub(super) fn both([a, b]: [u16; 2]) -> u64 {
    u64::from(a) << 16 | u64::from(b)
}

fn wide(address: Address) -> Wide {
    match address {
        Address::V4(bits) => u128::from(bits).into(),
        Address::V6(bits) => bits,
    }
}

/// The bits of an address as 64, mixed with others.
fn half(bits: Wide, others: u64) -> u64 {
    let bits = u128::from(bits);
    let bits = fold((bits >> 64) as u64 ^ 0x2d35_8dcc_aa6c_78a5, bits as u64 ^ 0x8bb8_4b93_962e_acc9);
    fold(bits, others)
}

/// The product of two numbers, its halves over each other.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    pub(super) sides: [Side; 2],
    /// When its first segment came.
    pub(super) first_at_ns: i64,
    /// When the last SYN came, 0 for none; with [`connection::HAS_RTT`] how long the handshake took.
    pub(super) syn_or_rtt_ns: i64,
    /// Its ends: with IPv4 as in [`Ends::V4`]; with IPv6 both ports, and its place in the table of addresses with a bit beside
    /// it that no end of IPv4 has.
    pub(super) ends: [u64; 2],
    /// The frame of its first segment.
    pub(super) first_frame: u32,
    /// What was seen of it.
    pub(super) completeness: u8,
    /// See [`connection`].
    pub(super) flags: u8,
}

const _: () = assert!(size_of::<Connection>() <= 248, "a connection and its slot have 256 bytes");

impl Connection {
    /// One of which nothing was seen yet.
    pub(super) fn new(key: &Key, ends: [u64; 2], segment: &Segment) -> Self {
        let is_wide = matches!(key.ends, Ends::V6(..));
        Connection {
            sides: [Side::new(); 2],
            first_at_ns: segment.at_ns,
            syn_or_rtt_ns: 0,
            ends,
            first_frame: segment.frame,
            completeness: 0,
            flags: u8::from(is_wide) * connection::IS_WIDE + key.from as u8 * connection::BEGAN_AT_1,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// How long the handshake took, ns; 0 when that is not known.
    #[inline]
    pub(super) fn rtt_ns(&self) -> i64 {
        if self.has(connection::HAS_RTT) { self.syn_or_rtt_ns } else { 0 }
    }

    /// The side that sends and the other.
    #[inline]
    pub(super) fn sides(&mut self, from: usize) -> (&mut Side, &mut Side) {
        let [a, b] = &mut self.sides;
        if from == 0 { (a, b) } else { (b, a) }
    }
}
