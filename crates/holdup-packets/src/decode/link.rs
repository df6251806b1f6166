//! Link layers and EtherTypes.

use super::view::View;
use super::{Context, Layer, Step, Why};
use crate::capture::Link;

pub(super) fn link(link: Link, view: View<'_>) -> Step<'_> {
    match link {
        Link::Ethernet => ethernet(view),
        Link::Raw | Link::Ipv4 => Ok((Layer::Ip, view)),
        Link::Ipv6 => Ok((Layer::Ipv6, view)),
        Link::CookedV1 => typed(view.short(14)?, view.skip(16)?),
        Link::CookedV2 => typed(view.short(0)?, view.skip(20)?),
        Link::Null => loopback(view, true),
        Link::Loop => loopback(view, false),
        Link::Other(_) => Err(Why::NotTcp),
    }
}

/// IEEE 802.3, 3.1.1: a type up to 1,500 is a length, followed by IEEE 802.2.
fn ethernet(view: View<'_>) -> Step<'_> {
    typed(view.short(12)?, view.skip(14)?)
}

fn typed(kind: u16, inside: View<'_>) -> Step<'_> {
    match kind {
        0..=1500 => Ok((Layer::Llc, inside.limit(kind.into()))),
        1501..=1535 => Err(Why::NotTcp),
        _ => Ok((Layer::EtherType(kind), inside)),
    }
}

/// BSD loopback: the protocol family, in network or host order. The numbers of IPv6 differ between systems.
fn loopback(view: View<'_>, is_any_order: bool) -> Step<'_> {
    let family = view.word(0)?;
    let family = if is_any_order && family > 0xffff { family.swap_bytes() } else { family };
    let inside = view.skip(4)?;
    match family {
        2 => Ok((Layer::Ip, inside)),
        24 | 28 | 30 => Ok((Layer::Ipv6, inside)),
        _ => Err(Why::NotTcp),
    }
}

pub(super) fn ether_type<'a>(kind: u16, view: View<'a>, context: &mut Context) -> Step<'a> {
    match kind {
        0x0800 => Ok((Layer::Ip, view)),
        0x86dd => Ok((Layer::Ipv6, view)),
        0x8100 | 0x88a8 | 0x9100 => {
            // tshark distinguishes fragments by the first VLAN, without provider tags (IEEE 802.1ad).
            if kind != 0x88a8 && context.vlan == 0 {
                context.vlan = view.short(0)? & 0xfff;
            }
            typed(view.short(2)?, view.skip(4)?)
        }
        0x8847 | 0x8848 => Ok((Layer::Mpls, view)),
        0x8864 => {
            let length = view.short(4)?;
            Ok((Layer::Ppp, view.skip(6)?.limit(length.into())))
        }
        _ => Err(Why::NotTcp),
    }
}

/// IEEE 802.2 with SNAP for EtherTypes (RFC 1042).
pub(super) fn llc(view: View<'_>) -> Step<'_> {
    match view.at(0)? {
        [0xaa, 0xaa, 0x03, 0, 0, 0] => Ok((Layer::EtherType(view.short(6)?), view.skip(8)?)),
        _ => Err(Why::NotTcp),
    }
}
