//! IPv4, IPv6 and its extension headers.

use super::reassembly::{Fragment, Key};
use super::view::View;
use super::{Context, Layer, Why};
use crate::segment::Address;

pub(super) enum Internet<'a> {
    Inside(Layer, View<'a>),
    Fragment(Fragment<'a>),
}

/// An IPv4 packet (RFC 791).
pub(super) fn v4<'a>(view: View<'a>, context: &mut Context) -> Result<Internet<'a>, Why> {
    let first = view.byte(0)?;
    let header_bytes = u32::from(first & 0xf) * 4;
    if header_bytes < 20 {
        return Err(Why::Malformed);
    }
    let total = match view.short(2)? {
        // TSO segments are captured before the card sets the length.
        0 => view.wire(),
        total => total.into(),
    };
    if total < header_bytes {
        return Err(Why::Malformed);
    }
    let (ip_id, fragment) = (view.short(4)?, view.short(6)?);
    let protocol = view.byte(9)?;
    (context.from, context.to) = (Address::V4(view.word(12)?), Address::V4(view.word(16)?));
    context.ip_id = Some(ip_id);
    if header_bytes > 20
        && let Some(to) = source_route(view.limit(header_bytes).skip(20)?.bytes())
    {
        context.to = to;
    }
    let inside = view.limit(total).skip(header_bytes as usize)?;
    let (offset_bytes, has_more) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
    if offset_bytes == 0 && !has_more {
        context.is_fragment = false;
        return Ok(Internet::Inside(Layer::Protocol(protocol), inside));
    }
    let length = total - header_bytes;
    if inside.was_captured(length) {
        // tshark's key, which may coincide for two datagrams.
        let id = ip_id ^ u16::from(protocol) ^ context.vlan;
        let key = Key { from: context.from, to: context.to, id: id.into() };
        return Ok(Internet::Fragment(Fragment { key, next: protocol, offset_bytes, length, has_more, inside }));
    }
    if offset_bytes > 0 {
        return Err(Why::Fragment);
    }
    context.is_fragment = true;
    Ok(Internet::Inside(Layer::Protocol(protocol), inside))
}

/// The final destination of an unfinished source route (RFC 791, 3.1): connections are between it and the source.
fn source_route(mut options: &[u8]) -> Option<Address> {
    loop {
        options = match options {
            [1, rest @ ..] => rest,
            [0x83 | 0x89, length, pointer, ..] if *length >= 7 && *pointer >= 4 => {
                let route = options.get(3..usize::from(*length))?;
                let last = route.as_chunks::<4>().0.last()?;
                let is_to_go = usize::from(*pointer) + 3 <= usize::from(*length);
                return is_to_go.then_some(Address::V4(u32::from_be_bytes(*last)));
            }
            [0, ..] | [] | [_] | [_, 0 | 1, ..] => return None,
            [_, length, ..] => options.get(usize::from(*length)..)?,
        }
    }
}

/// An IPv6 packet (RFC 8200).
pub(super) fn v6<'a>(view: View<'a>, context: &mut Context) -> Result<Internet<'a>, Why> {
    if view.byte(0)? >> 4 != 6 {
        return Err(Why::Malformed);
    }
    let length = view.short(4)?;
    let next = view.byte(6)?;
    let from = Address::v6(u128::from_be_bytes(view.at(8)?));
    let to = Address::v6(u128::from_be_bytes(view.at(24)?));
    (context.from, context.to, context.ip_id) = (from, to, None);
    let inside = view.skip(40)?;
    let length = if length == 0 { jumbo(next, inside)? } else { length.into() };
    extensions(next, inside.limit(length), length, context)
}

/// The length of a packet with length 0: from the jumbogram option (RFC 2675), for more than 65,535 bytes. Without it the
/// packet is empty: tshark assumes TSO for IPv6 only on request.
fn jumbo(next: u8, inside: View<'_>) -> Result<u32, Why> {
    if next != 0 {
        return Ok(0);
    }
    let end = 8 * (usize::from(inside.byte(1)?) + 1);
    let mut at = 2;
    while at + 6 <= end {
        match inside.byte(at)? {
            0 => at += 1,
            0xc2 => return Ok(Some(inside.word(at + 2)?).filter(|length| *length > 0xffff).unwrap_or(0)),
            _ => at += 2 + usize::from(inside.byte(at + 1)?),
        }
    }
    Ok(0)
}

/// Skips IPv6 extension headers (RFC 8200, 4). `length` is the packet's own: a fragment that exceeds the frame is not one.
fn extensions<'a>(
    mut next: u8,
    mut view: View<'a>,
    mut length: u32,
    context: &mut Context,
) -> Result<Internet<'a>, Why> {
    loop {
        let header_bytes = match next {
            // Hop-by-hop options, destination options, Shim6.
            0 | 60 | 140 => 8 * (usize::from(view.byte(1)?) + 1),
            43 => {
                context.to = route(view)?.unwrap_or(context.to);
                8 * (usize::from(view.byte(1)?) + 1)
            }
            // The authentication header counts words (RFC 4302, 2.2).
            51 => 4 * (usize::from(view.byte(1)?) + 2),
            44 => {
                let (fragment, id) = (view.short(2)?, view.word(4)?);
                let (after, inside) = (view.byte(0)?, view.skip(8)?);
                let (offset_bytes, has_more) = (u32::from(fragment & !7), fragment & 1 != 0);
                if offset_bytes == 0 && !has_more {
                    (next, view, length) = (after, inside, length.saturating_sub(8));
                    continue;
                }
                let length = length.saturating_sub(8);
                if inside.was_captured(length) {
                    let key = Key { from: context.from, to: context.to, id };
                    let fragment = Fragment { key, next: after, offset_bytes, length, has_more, inside };
                    return Ok(Internet::Fragment(fragment));
                }
                // Unlike the first fragment of IPv4, it is not decoded.
                return Err(Why::Fragment);
            }
            _ => return Ok(Internet::Inside(Layer::Protocol(next), view)),
        };
        next = view.byte(0)?;
        view = view.skip(header_bytes)?;
        length = length.saturating_sub(header_bytes as u32);
    }
}

/// The final destination of an unfinished route: the last address, of segment routing the first (RFC 8754, 2). RPL routes (RFC
/// 6554) are read if their addresses are uncompressed.
fn route(view: View<'_>) -> Result<Option<Address>, Why> {
    let [_, length, kind, left] = view.at(0)?;
    let addresses = usize::from(length) / 2;
    let whole = kind != 3 || view.byte(4)? == 0;
    if left == 0 || addresses == 0 || !whole {
        return Ok(None);
    }
    let at = match kind {
        0 | 3 => 8 + 16 * (addresses - 1),
        2 | 4 => 8,
        _ => return Ok(None),
    };
    Ok(Some(Address::v6(u128::from_be_bytes(view.at(at)?))))
}

/// The content of a reassembled datagram.
pub(super) fn reassembled<'a>(
    fragment: &Fragment<'_>,
    view: View<'a>,
    context: &mut Context,
) -> Result<(Layer, View<'a>), Why> {
    match fragment.key.from {
        Address::V4(_) => Ok((Layer::Protocol(fragment.next), view)),
        Address::V6(_) => match extensions(fragment.next, view, view.wire(), context)? {
            Internet::Inside(layer, view) => Ok((layer, view)),
            // A fragment header within a reassembled datagram.
            Internet::Fragment(_) => Err(Why::Malformed),
        },
    }
}
