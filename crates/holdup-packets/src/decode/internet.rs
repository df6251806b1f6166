//! IPv4, IPv6 and its extension headers.

use super::reassembly::{Fragment, Key};
use super::view::View;
use super::{Context, Layer, Why};
use crate::segment::Address;

/// What an IP header leads to.
pub(super) enum Internet<'a> {
    Inside(Layer, View<'a>),
    Fragment(Fragment<'a>),
}

/// An IPv4 packet (RFC 791).
pub(super) fn v4<'a>(view: View<'a>, context: &mut Context) -> Result<Internet<'a>, Why> {
    let first = view.byte(0)?;
    let header_bytes = u32::from(first & 0xf) * 4;
    if first >> 4 != 4 || header_bytes < 20 {
        return Err(Why::Malformed);
    }
    let total = match view.short(2)? {
        // Segments that the card is to cut are captured before it fills in the length.
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
    let inside = view.limit(total).skip(header_bytes as usize)?;
    let (offset_bytes, has_more) = (u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0);
    if offset_bytes == 0 && !has_more {
        context.is_fragment = false;
        return Ok(Internet::Inside(Layer::Protocol(protocol), inside));
    }
    let length = total - header_bytes;
    if inside.was_captured(length) {
        let key = Key { from: context.from, to: context.to, id: ip_id.into(), protocol, vlan: context.vlan };
        return Ok(Internet::Fragment(Fragment { key, next: protocol, offset_bytes, length, has_more, inside }));
    }
    if offset_bytes > 0 {
        return Err(Why::Fragment);
    }
    context.is_fragment = true;
    Ok(Internet::Inside(Layer::Protocol(protocol), inside))
}

/// An IPv6 packet (RFC 8200).
pub(super) fn v6<'a>(view: View<'a>, context: &mut Context) -> Result<Internet<'a>, Why> {
    if view.byte(0)? >> 4 != 6 {
        return Err(Why::Malformed);
    }
    let length = view.short(4)?;
    let next = view.byte(6)?;
    let from = Address::V6(u128::from_be_bytes(view.at(8)?));
    let to = Address::V6(u128::from_be_bytes(view.at(24)?));
    (context.from, context.to, context.ip_id) = (from, to, None);
    let inside = view.skip(40)?;
    let inside = match length {
        // A jumbogram, or a segment that the card is to cut.
        0 => jumbo(next, inside)?,
        length => inside.limit(length.into()),
    };
    extensions(next, inside, context)
}

/// What a packet holds whose length is 0: by the option of jumbograms (RFC 2675), or what there is.
fn jumbo(next: u8, inside: View<'_>) -> Result<View<'_>, Why> {
    if next == 0 {
        let end = 8 * (usize::from(inside.byte(1)?) + 1);
        let mut at = 2;
        while at + 6 <= end {
            match inside.byte(at)? {
                0 => at += 1,
                0xc2 => return Ok(inside.limit(inside.word(at + 2)?)),
                _ => at += 2 + usize::from(inside.byte(at + 1)?),
            }
        }
    }
    Ok(inside)
}

/// Goes over extension headers of IPv6 (RFC 8200, 4).
fn extensions<'a>(mut next: u8, mut view: View<'a>, context: &mut Context) -> Result<Internet<'a>, Why> {
    loop {
        let header_bytes = match next {
            // Options hop by hop, a route, options for the destination, mobility, HIP, Shim6.
            0 | 43 | 60 | 135 | 139 | 140 => 8 * (usize::from(view.byte(1)?) + 1),
            // The authentication header counts in words (RFC 4302, 2.2).
            51 => 4 * (usize::from(view.byte(1)?) + 2),
            44 => {
                let (fragment, id) = (view.short(2)?, view.word(4)?);
                let (after, inside) = (view.byte(0)?, view.skip(8)?);
                let (offset_bytes, has_more) = (u32::from(fragment & !7), fragment & 1 != 0);
                if offset_bytes == 0 && !has_more {
                    (next, view) = (after, inside);
                    continue;
                }
                let length = inside.wire();
                if inside.was_captured(length) {
                    let key = Key { from: context.from, to: context.to, id, protocol: 0, vlan: 0 };
                    let fragment = Fragment { key, next: after, offset_bytes, length, has_more, inside };
                    return Ok(Internet::Fragment(fragment));
                }
                if offset_bytes > 0 {
                    return Err(Why::Fragment);
                }
                context.is_fragment = true;
                (next, view) = (after, inside);
                continue;
            }
            _ => return Ok(Internet::Inside(Layer::Protocol(next), view)),
        };
        next = view.byte(0)?;
        view = view.skip(header_bytes)?;
    }
}

/// What a datagram holds that was reassembled.
pub(super) fn reassembled<'a>(
    fragment: &Fragment<'_>,
    view: View<'a>,
    context: &mut Context,
) -> Result<(Layer, View<'a>), Why> {
    match fragment.key.from {
        Address::V4(_) => Ok((Layer::Protocol(fragment.next), view)),
        Address::V6(_) => match extensions(fragment.next, view, context)? {
            Internet::Inside(layer, view) => Ok((layer, view)),
            // A fragment header in what is reassembled: nobody sends that.
            Internet::Fragment(_) => Err(Why::Malformed),
        },
    }
}
