//! The most usual frame at once: Ethernet, an IPv4 header without options, TCP, all of its header captured.

use super::tcp::{self, PROTOCOL};
use crate::capture::{Frame, Link};
use crate::segment::{Address, Endpoint, Options, Segment};

/// The segment of such a frame; `None` leaves any other one to the way through all layers, which comes to the same.
#[inline(always)]
pub(super) fn segment(frame: &Frame<'_>) -> Option<Segment> {
    let head: &[u8; 54] = frame.captured.first_chunk()?;
    let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    // IPv4 with a header of 20 bytes; no fragment.
    let is_usual = frame.link == Link::Ethernet
        && short(12) == 0x0800
        && head[14] == 0x45
        && head[23] == PROTOCOL
        && short(20) & 0x3fff == 0;
    if !is_usual {
        return None;
    }
    let total = u32::from(short(16));
    let header_bytes = (head[46] >> 4) * 4;
    let wire_bytes = frame.wire_bytes.max(frame.captured.len() as u32);
    let payload_bytes = total.checked_sub(20 + u32::from(header_bytes))?;
    if header_bytes < 20 || 14 + total > wire_bytes {
        return None;
    }
    // Each kind of options makes a segment of its own: what is written as a whole need not be copied from where it was
    // written in parts, for which a core has to wait.
    match frame.captured.get(54..34 + usize::from(header_bytes))? {
        [] => Some(made(frame, head, payload_bytes, Options::default())),
        [1, 1, 8, 10, a, b, c, d, e, f, g, h] => {
            let timestamps = (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]));
            Some(made(frame, head, payload_bytes, Options { timestamps: Some(timestamps), ..Options::default() }))
        }
        options => Some(made(frame, head, payload_bytes, tcp::options(options, 0))),
    }
}

#[inline(always)]
fn made(frame: &Frame<'_>, head: &[u8; 54], payload_bytes: u32, options: Options) -> Segment {
    let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let header_bytes = (head[46] >> 4) * 4;
    Segment {
        frame: frame.number,
        at_ns: frame.at_ns,
        from: Endpoint { address: Address::V4(word(26)), port: short(34) },
        to: Endpoint { address: Address::V4(word(30)), port: short(36) },
        seq: word(38),
        ack: word(42),
        payload_bytes: Some(payload_bytes),
        flags: short(46) & 0xfff,
        window: short(48),
        in_error: false,
        is_fragment: false,
        header_bytes,
        header_captured_bytes: header_bytes,
        ip_id: Some(short(18)),
        frame_bytes: frame.wire_bytes,
        options,
    }
}
