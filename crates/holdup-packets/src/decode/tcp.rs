//! The TCP header.

use super::view::View;
use super::{Context, Why};
use crate::capture::Frame;
use crate::segment::{Endpoint, Options, Segment};

pub(super) const PROTOCOL: u8 = 6;

/// The captured bytes that a segment needs: up to its flags, from where tshark follows a connection.
const LEAST_BYTES: usize = 14;

pub(super) fn segment(frame: &Frame<'_>, view: View<'_>, context: &Context) -> Result<Segment, Why> {
    let header: [u8; LEAST_BYTES] = view.at(0)?;
    let header_bytes = (header[12] >> 4) * 4;
    // The length of a quoted packet or a fragment is not the segment's.
    let payload_bytes =
        if context.in_error || context.is_fragment { None } else { view.wire().checked_sub(header_bytes.into()) };
    let bytes = view.bytes();
    let header_captured_bytes = usize::from(header_bytes.max(20)).min(bytes.len()) as u8;
    let captured = bytes.get(20..header_captured_bytes.into()).unwrap_or_default();
    let options = options(captured, header_bytes.saturating_sub(header_captured_bytes).into());
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    Ok(Segment {
        frame: frame.number,
        at_ns: frame.at_ns,
        from: Endpoint { address: context.from, port: short(0) },
        to: Endpoint { address: context.to, port: short(2) },
        seq: word(4),
        ack: word(8),
        payload_bytes,
        flags: short(12) & 0xfff,
        window: bytes.get(14..16).map_or(0, |window| u16::from_be_bytes([window[0], window[1]])),
        in_error: context.in_error,
        is_fragment: context.is_fragment,
        header_bytes,
        header_captured_bytes,
        ip_id: context.ip_id,
        frame_bytes: frame.wire_bytes,
        options,
    })
}

/// Parses options (RFC 9293, 3.2), of which `missing_bytes` were not captured. Parsing ends at a malformed option; one of the
/// wrong length is skipped.
#[inline(never)]
pub(super) fn options(mut bytes: &[u8], missing_bytes: usize) -> Options {
    let mut options = Options::default();
    loop {
        // Linux's order first: NOP, NOP, timestamps.
        bytes = match bytes {
            [1, 1, rest @ ..] | [1, rest @ ..] => rest,
            [8, 10, a, b, c, d, e, f, g, h, rest @ ..] => {
                options.timestamps = Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
                rest
            }
            [5, length, rest @ ..] if (2..=rest.len() + 2).contains(&usize::from(*length)) => {
                let (blocks, rest) = rest.split_at(usize::from(*length) - 2);
                sacks(blocks, &mut options);
                rest
            }
            [] => return options,
            [0, rest @ ..] => {
                options.are_odd = rest.iter().any(|byte| *byte != 0);
                return options;
            }
            [_] | [_, 0 | 1, ..] => {
                options.are_odd = true;
                return options;
            }
            [kind, length, rest @ ..] => {
                let Some((value, rest)) = rest.split_at_checked(usize::from(*length) - 2) else {
                    // A truncated option still counts as present.
                    let is_cut = usize::from(*length) - 2 <= rest.len() + missing_bytes;
                    options.mss_is_odd |= is_cut && *kind == 2;
                    options.sack_permitted |= is_cut && *kind == 4;
                    if is_cut && *kind == 5 {
                        sacks(rest, &mut options);
                        options.sacks_are_cut = true;
                    }
                    options.are_odd = true;
                    return options;
                };
                match (kind, value) {
                    (2, [a, b]) => options.mss = Some(u16::from_be_bytes([*a, *b])),
                    (2, _) => options.mss_is_odd = true,
                    (3, [shift]) => options.window_shift = Some(*shift.min(&14)),
                    (4, _) => options.sack_permitted = true,
                    (34, [_, ..]) | (253 | 254, [0xf9, 0x89, _, ..]) => options.fast_open_cookie = true,
                    (30, _) => options.multipath = true,
                    _ => {}
                }
                rest
            }
        };
    }
}

/// The first four SACK blocks (RFC 2018, 3).
fn sacks(blocks: &[u8], options: &mut Options) {
    options.sack_count = 0;
    for block in blocks.as_chunks::<8>().0.iter().take(options.sacks.len()) {
        let [a, b, c, d, e, f, g, h] = *block;
        options.sacks[usize::from(options.sack_count)] =
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        options.sack_count += 1;
    }
}
