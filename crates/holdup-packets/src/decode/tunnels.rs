//! Between IP and TCP: tunnels and ICMP errors.

use super::view::View;
use super::{Context, Layer, Step, Why};
use crate::capture::Link;
use crate::segment::Address;

pub(super) fn protocol<'a>(protocol: u8, view: View<'a>, context: &mut Context) -> Step<'a> {
    match protocol {
        4 => Ok((Layer::Ip, view)),
        41 => Ok((Layer::Ipv6, view)),
        47 => gre(view),
        17 => udp(view, context),
        // The authentication header, which in IPv6 is an extension header.
        51 => Ok((Layer::Protocol(view.byte(0)?), view.skip(4 * (usize::from(view.byte(1)?) + 2))?)),
        // Unreachable, source quench, time exceeded, parameter problem. In a redirect tshark reads only eight bytes after the
        // quoted IP header.
        1 => match view.byte(0)? {
            3 | 4 | 11 | 12 => about(view, context),
            _ => Err(Why::NotTcp),
        },
        // Unreachable, too big, time exceeded, parameter problem.
        58 => match view.byte(0)? {
            1..=4 => {
                context.in_error = true;
                Ok((Layer::Ipv6, view.skip(8)?))
            }
            _ => Err(Why::NotTcp),
        },
        _ => Err(Why::NotTcp),
    }
}

/// The packet quoted in an ICMP error. Its length in words (RFC 4884, 3) counts from the end of its IP header, as in tshark.
fn about<'a>(view: View<'a>, context: &mut Context) -> Step<'a> {
    context.in_error = true;
    let (words, packet) = (u32::from(view.byte(5)?), view.skip(8)?);
    let header_bytes = u32::from(packet.byte(0)? & 0xf) * 4;
    Ok((Layer::Ip, if words == 0 { packet } else { packet.limit(header_bytes + 4 * words) }))
}

fn udp<'a>(view: View<'a>, context: &Context) -> Step<'a> {
    let (from_port, to_port, length) = (view.short(0)?, view.short(2)?, view.short(4)?);
    let inside = match length {
        // A jumbogram (RFC 2675, 4).
        0 if matches!(context.from, Address::V6(_)) => view.skip(8)?,
        0..=7 => return Err(Why::Malformed),
        length => view.limit(length.into()).skip(8)?,
    };
    // tshark tries the lower port first.
    for port in [from_port.min(to_port), from_port.max(to_port)] {
        match port {
            4789 => return Ok((Layer::Link(Link::Ethernet), inside.skip(8)?)),
            6081 => return geneve(inside),
            _ => {}
        }
    }
    Err(Why::NotTcp)
}

/// Geneve (RFC 8926).
fn geneve(view: View<'_>) -> Step<'_> {
    let first = view.byte(0)?;
    let kind = view.short(2)?;
    let inside = view.skip(8 + 4 * usize::from(first & 0x3f))?;
    match kind {
        0x6558 => Ok((Layer::Link(Link::Ethernet), inside)),
        kind => Ok((Layer::EtherType(kind), inside)),
    }
}

/// GRE (RFC 2784, RFC 2890), and its version 1 for PPTP (RFC 2637).
fn gre(view: View<'_>) -> Step<'_> {
    let (flags, kind) = (view.short(0)?, view.short(2)?);
    let has = |bit: u16| usize::from(flags & bit != 0);
    let has_route = flags & 0x4000 != 0;
    if has_route {
        return Err(Why::NotTcp);
    }
    let header_bytes = 4 + 4 * (has(0x8000) + has(0x2000) + has(0x1000) + has(0x0080));
    Ok((Layer::Gre(kind), view.skip(header_bytes)?))
}

pub(super) fn gre_type(kind: u16, view: View<'_>) -> Step<'_> {
    match kind {
        0x0800 => Ok((Layer::Ip, view)),
        0x86dd => Ok((Layer::Ipv6, view)),
        0x6558 => Ok((Layer::Link(Link::Ethernet), view)),
        0x8847 | 0x8848 => Ok((Layer::Mpls, view)),
        0x880b => Ok((Layer::Ppp, view)),
        _ => Err(Why::NotTcp),
    }
}

/// PPP (RFC 1661, 2; RFC 1662, 3.1): address and control may be absent, the protocol may be one byte.
pub(super) fn ppp(view: View<'_>) -> Step<'_> {
    let view = if view.short(0) == Ok(0xff03) { view.skip(2)? } else { view };
    let first = view.byte(0)?;
    let (protocol, inside) =
        if first & 1 != 0 { (first.into(), view.skip(1)?) } else { (view.short(0)?, view.skip(2)?) };
    match protocol {
        0x21 => Ok((Layer::Ip, inside)),
        0x57 => Ok((Layer::Ipv6, inside)),
        _ => Err(Why::NotTcp),
    }
}

/// MPLS labels (RFC 3032) to the bottom of the stack; the next four bits are the IP version.
pub(super) fn mpls(mut view: View<'_>) -> Step<'_> {
    loop {
        let is_bottom = view.byte(2)? & 1 != 0;
        view = view.skip(4)?;
        if is_bottom {
            return match view.byte(0)? >> 4 {
                4 => Ok((Layer::Ip, view)),
                6 => Ok((Layer::Ipv6, view)),
                _ => Err(Why::NotTcp),
            };
        }
    }
}
