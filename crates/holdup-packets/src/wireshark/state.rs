//! The state of a connection, in at most 248 bytes.

use super::tallies::Tally;
use super::unacked::List;
use crate::segment::{Address, Endpoint, Segment, Wide};

/// The window scale is unknown.
pub(super) const SHIFT_UNKNOWN: i8 = -1;
/// Windows are not scaled.
pub(super) const SHIFT_NONE: i8 = -2;
/// The MSS is unknown.
pub(super) const MSS_UNKNOWN: i16 = -1;

/// Bits of [`Side::flags`].
pub(super) mod side {
    /// `base` is set.
    pub(crate) const HAS_BASE: u8 = 1;
    /// `window` is set.
    pub(crate) const HAS_WINDOW: u8 = 2;
    /// Bytes in flight are known: the other end has acknowledged something since the last gap.
    pub(crate) const IN_FLIGHT_IS_KNOWN: u8 = 4;
    /// The last data segment had PSH.
    pub(crate) const HAS_PUSHED: u8 = 8;
    /// It has sent nothing since its SYN, whose window is not scaled.
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
    /// IPv6.
    pub(crate) const IS_WIDE: u8 = 1;
    /// Side 1 sent the first captured segment.
    pub(crate) const BEGAN_AT_1: u8 = 2;
    /// `syn_or_rtt_ns` is the initial round trip.
    pub(crate) const HAS_RTT: u8 = 4;
    /// The SYN had Fast Open data.
    pub(crate) const OPENED_FAST: u8 = 8;
    /// Side 0 sent the first FIN; the next bit is that of side 1.
    pub(crate) const CLOSES: u8 = 16;
    /// Its endpoints were reused beyond the limit of connections, so later segments are not its own.
    pub(crate) const IS_OVER: u8 = 64;
}

/// What one end has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    /// The time of the segment that reached `next`.
    pub(super) next_at_ns: i64,
    /// The time of its last segment.
    pub(super) last_at_ns: i64,
    pub(super) payload_bytes: u64,
    pub(super) frame_bytes: u64,
    /// The initial sequence number.
    pub(super) base: u32,
    /// The highest sequence number sent plus one; 0 for none.
    pub(super) next: u32,
    /// The frame that reached `next`.
    pub(super) next_frame: u32,
    /// The number up to which there is no gap; 0 for none.
    pub(super) seen: u32,
    /// Its last acknowledgement number.
    pub(super) ack: u32,
    /// The first frame with it.
    pub(super) ack_frame: u32,
    /// Its duplicates.
    pub(super) repeats: u32,
    /// Bytes since the last PSH.
    pub(super) push_bytes: u32,
    pub(super) segments: u32,
    pub(super) data_segments: u32,
    pub(super) in_flight_bytes_max: u32,
    pub(super) unacked: List,
    /// Its index in [`super::sacks::Sacks`] plus one; 0 for none.
    pub(super) sacks: u32,
    /// Its last unscaled window.
    pub(super) window: u16,
    /// Its MSS. Wireshark stores it as a signed 16-bit number, so one beyond 32,767 is negative.
    pub(super) mss: i16,
    pub(super) tally: Tally,
    /// Its window scale.
    pub(super) shift: i8,
    /// The low 8 bits of the payload length of the segment that reached `next`, as in Wireshark.
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

    /// The time of its last segment, if that had payload.
    #[inline]
    pub(super) fn last_data_ns(&self) -> Option<i64> {
        self.has(side::LAST_WAS_DATA).then_some(self.last_at_ns)
    }

    /// Its last window; `u32::MAX` before the first.
    #[inline]
    pub(super) fn window(&self) -> u32 {
        if self.has(side::HAS_WINDOW) { self.window.into() } else { u32::MAX }
    }
}

/// The endpoints of a connection, side 0 first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Address and port of each as one number ([`end_v4`]).
    V4([u64; 2]),
    V6([Wide; 2], [u16; 2]),
}

/// The connection and direction of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) ends: Ends,
    /// The sending side. The greater endpoint is side 0, as in Wireshark: by address, then by port.
    pub(super) from: usize,
}

/// An IPv4 endpoint as a number that orders by address, then by port.
#[inline(always)]
pub(super) fn end_v4(host: u32, port: u16) -> u64 {
    u64::from(host) << 16 | u64::from(port)
}

impl Key {
    #[inline(always)]
    pub(super) fn of(segment: &Segment) -> Key {
        Key::between([segment.from, segment.to])
    }

    /// The key of a segment from the first endpoint to the second.
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

    /// Not inlined, so that IPv4 stays in two registers.
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

pub(super) fn both([a, b]: [u16; 2]) -> u64 {
    u64::from(a) << 16 | u64::from(b)
}

fn wide(address: Address) -> Wide {
    match address {
        Address::V4(bits) => u128::from(bits).into(),
        Address::V6(bits) => bits,
    }
}

fn half(bits: Wide, others: u64) -> u64 {
    let bits = u128::from(bits);
    let bits = fold((bits >> 64) as u64 ^ 0x2d35_8dcc_aa6c_78a5, bits as u64 ^ 0x8bb8_4b93_962e_acc9);
    fold(bits, others)
}

/// Multiply and fold.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Connection {
    pub(super) sides: [Side; 2],
    pub(super) first_at_ns: i64,
    /// The time of the last SYN, 0 for none; with [`connection::HAS_RTT`] the round trip of the handshake.
    pub(super) syn_or_rtt_ns: i64,
    /// IPv4: as in [`Ends::V4`]. IPv6: both ports, and the index in the table of addresses with a bit that no IPv4 endpoint
    /// has.
    pub(super) ends: [u64; 2],
    pub(super) first_frame: u32,
    /// Segments that were looked at one by one, in units of [`STEPS`], less one unit for each segment of the connection.
    pub(super) effort: u16,
    /// `tcp.completeness`.
    pub(super) completeness: u8,
    /// See [`connection`].
    pub(super) flags: u8,
}

/// Steps through lists that each segment may take, some 1 us.
pub(super) const STEPS: u64 = 256;

/// Steps of one segment, in units of [`STEPS`]: those of a path with much in flight that loses some of it, some 80 ms.
pub(super) const MOST_EFFORT: u16 = 65_000;

const _: () = assert!(size_of::<Connection>() <= 248, "a connection and its slot have 256 bytes");

impl Connection {
    pub(super) fn new(key: &Key, ends: [u64; 2], segment: &Segment) -> Self {
        let is_wide = matches!(key.ends, Ends::V6(..));
        Connection {
            sides: [Side::new(); 2],
            first_at_ns: segment.at_ns,
            syn_or_rtt_ns: 0,
            ends,
            first_frame: segment.frame,
            effort: 0,
            completeness: 0,
            flags: u8::from(is_wide) * connection::IS_WIDE + key.from as u8 * connection::BEGAN_AT_1,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The round trip of the handshake, ns; 0 if unknown.
    #[inline]
    pub(super) fn rtt_ns(&self) -> i64 {
        if self.has(connection::HAS_RTT) { self.syn_or_rtt_ns } else { 0 }
    }

    /// Adds the steps of a segment to the effort; true if the lists of the connection have to be given up.
    pub(super) fn is_exhausted_by(&mut self, steps: u64) -> bool {
        let units = (steps / STEPS).min(u64::from(u16::MAX)) as u16;
        self.effort = self.effort.saturating_add(units).saturating_sub(1);
        units > 0 && self.effort > MOST_EFFORT
    }

    /// The sender and the receiver.
    #[inline]
    pub(super) fn sides(&mut self, from: usize) -> (&mut Side, &mut Side) {
        let [a, b] = &mut self.sides;
        if from == 0 { (a, b) } else { (b, a) }
    }
}
