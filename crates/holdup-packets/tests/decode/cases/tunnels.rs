//! Link layers, tunnels, and the errors of routers.

use super::{Case, V4, V6, ether4, ether6, expecting, none, one, tcp4, tcp6, tunnel};
use crate::made::layers::{self, Ipv4, Ipv6};
use crate::made::link;

pub(super) fn links() -> Vec<Case> {
    let (p4, p6) = (tcp4().packet(), tcp6().packet());
    let ether = link::ETHERNET;
    let tag = |inner: &[u8]| layers::vlan(7, layers::ETHER_IPV4, inner);
    let snap = |bytes: &[u8]| [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], bytes].concat();
    let llc = snap(&p4);
    let mut cases = vec![
        one("ethernet with ipv4", ether, ether4(&p4)),
        one("ethernet with ipv6", ether, ether6(&p6)),
        one("ethernet with a vlan", ether, layers::ethernet(0x8100, &tag(&p4))),
        one("ieee 802.1ad", ether, layers::ethernet(0x88a8, &layers::vlan(9, 0x8100, &tag(&p4)))),
        one("qinq of old", ether, layers::ethernet(0x9100, &layers::vlan(9, 0x8100, &tag(&p4)))),
        none("0x9200 is no vlan", ether, layers::ethernet(0x9200, &tag(&p4))),
        one("snap", ether, layers::ethernet(llc.len() as u16, &llc)),
        one("vlan with snap", ether, layers::ethernet(0x8100, &layers::vlan(7, llc.len() as u16, &llc))),
        one("mpls", ether, layers::ethernet(layers::ETHER_MPLS, &layers::mpls(&[16, 17], &p4))),
        one("mpls with ipv6", ether, layers::ethernet(0x8848, &layers::mpls(&[16], &p6))),
        one("pppoe", ether, layers::ethernet(layers::ETHER_PPPOE, &layers::pppoe(1, &p4))),
        one("pppoe with ipv6", ether, layers::ethernet(layers::ETHER_PPPOE, &layers::pppoe(1, &p6))),
        one("raw", link::RAW, p4.clone()),
        one("raw with ipv6", link::RAW, p6.clone()),
        one("raw by its other number", link::RAW_BSD, p4.clone()),
        one("raw ipv4", link::IPV4, p4.clone()),
        one("raw ipv6", link::IPV6, p6.clone()),
        one("cooked v1", link::LINUX_SLL, layers::cooked_v1(layers::ETHER_IPV4, &p4)),
        one("cooked v1 with a vlan", link::LINUX_SLL, layers::cooked_v1(0x8100, &tag(&p4))),
        one("cooked v2", link::LINUX_SLL2, layers::cooked_v2(layers::ETHER_IPV6, &p6)),
        one("cooked v2 with a vlan", link::LINUX_SLL2, layers::cooked_v2(0x8100, &tag(&p4))),
        one("ipv6 by the type of ipv4", ether, ether4(&p6)),
        none("ipv4 by the type of ipv6", ether, ether6(&p4)),
        none("arp", ether, layers::ethernet(0x0806, &[0; 28])),
        none("udp", ether, ether4(&tunnel(layers::UDP).around(&layers::udp(1, 2, &p4)))),
    ];
    for family in [2, 10, 23, 24, 26, 28, 30] {
        for is_big_endian in [false, true] {
            for number in [link::NULL, link::LOOP] {
                let packet = if family == 2 { &p4 } else { &p6 };
                let frame = layers::loopback(family, is_big_endian, packet);
                // By the link layer of OpenBSD the family is in network order, by the other one in any.
                let is_read = [2, 24, 28, 30].contains(&family) && (is_big_endian || number == link::NULL);
                cases.push(if is_read {
                    one("loopback", number, frame)
                } else {
                    none("loopback of another", number, frame)
                });
            }
        }
    }
    cases
}

#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn tunnels() -> Vec<Case> {
    let ether = link::ETHERNET;
    let (p4, p6) = (tcp4().packet(), tcp6().packet());
    let (f4, f6) = (tcp4().frame(), tcp6().frame());
    let over = |protocol: u8, inside: &[u8]| ether4(&tunnel(protocol).around(inside));
    let over6 = |next: u8, inside: &[u8]| ether6(&Ipv6::new(5, 6, next).around(inside));
    let udp = |port, inside: &[u8]| over(layers::UDP, &layers::udp(50_000, port, inside));
    vec![
        one("ip in ip", ether, over(4, &p4)),
        one("6in4", ether, over(41, &p6)),
        one("ipv4 in ipv6", ether, over6(4, &p4)),
        one("ipv6 in ipv6", ether, over6(41, &p6)),
        one("gre", ether, over(47, &layers::gre(false, None, None, 0x0800, &p4))),
        one("gre with all of it", ether, over(47, &layers::gre(true, Some(3), Some(4), 0x86dd, &p6))),
        one("gre with a key", ether, over6(47, &layers::gre(false, Some(3), None, 0x0800, &p4))),
        one("gre with a sequence number", ether, over(47, &layers::gre(false, None, Some(1), 0x0800, &p4))),
        one("gre with ethernet", ether, over(47, &layers::gre(false, Some(3), None, 0x6558, &f4))),
        one("gre with mpls", ether, over(47, &layers::gre(false, None, None, 0x8847, &layers::mpls(&[16], &p4)))),
        one("gre of version 1 with ppp", ether, {
            let ppp = [&[0x00, 0x21][..], &p4].concat();
            let head = [0x30, 0x01, 0x88, 0x0b, (ppp.len() >> 8) as u8, ppp.len() as u8, 0, 1, 0, 0, 0, 1];
            over(47, &[&head[..], &ppp].concat())
        }),
        none(
            "gre with a vlan",
            ether,
            over(47, &layers::gre(false, None, None, 0x8100, &layers::vlan(1, 0x0800, &p4))),
        ),
        one("vxlan", ether, udp(4789, &layers::vxlan(100, &f4))),
        one("vxlan with ipv6", ether, over6(17, &layers::udp(50_000, 4789, &layers::vxlan(100, &f6)))),
        one("vxlan from its port", ether, over(17, &layers::udp(4789, 50_000, &layers::vxlan(100, &f4)))),
        one("vxlan by flags that are 0", ether, udp(4789, &[&[0; 8][..], &f4].concat())),
        one("geneve", ether, udp(6081, &layers::geneve(100, &[], 0x6558, &f4))),
        one("geneve with options", ether, udp(6081, &layers::geneve(100, &[1, 2, 3, 1, 0, 0, 0, 0], 0x6558, &f6))),
        one("geneve with ipv4", ether, udp(6081, &layers::geneve(100, &[], 0x0800, &p4))),
        one(
            "geneve of another version",
            ether,
            udp(6081, &{
                let mut geneve = layers::geneve(100, &[], 0x6558, &f4);
                geneve[0] |= 0x40;
                geneve
            }),
        ),
        none(
            "vxlan, udp with a length of 0",
            ether,
            over(17, &{
                let mut udp = layers::udp(50_000, 4789, &layers::vxlan(100, &f4));
                udp[4..6].fill(0);
                udp
            }),
        ),
        one(
            "vxlan, udp with a length beyond the datagram",
            ether,
            over(17, &{
                let mut udp = layers::udp(50_000, 4789, &layers::vxlan(100, &f4));
                udp[4] = 0x7f;
                udp
            }),
        ),
        expecting(
            one(
                "vxlan, udp that is shorter than what is inside",
                ether,
                over(17, &{
                    let mut udp = layers::udp(50_000, 4789, &layers::vxlan(100, &f4));
                    udp[4..6].copy_from_slice(&(8 + 8 + 14 + 20 + 32 + 50_u16).to_be_bytes());
                    udp
                }),
            ),
            &[(1, Some(50), 32)],
        ),
        one("ip in ip in ip", ether, over(4, &tunnel(4).around(&p4))),
        one(
            "vxlan in gre",
            ether,
            over(
                47,
                &layers::gre(
                    false,
                    None,
                    None,
                    0x0800,
                    &tunnel(17).around(&layers::udp(50_000, 4789, &layers::vxlan(1, &f4))),
                ),
            ),
        ),
    ]
}

pub(super) fn errors() -> Vec<Case> {
    let ether = link::ETHERNET;
    let p4 = tcp4().packet();
    let error = |kind, length: usize| {
        ether4(&Ipv4::new(0x0a00_00fe, V4.0, layers::ICMP).around(&layers::icmp(kind, 1, &p4[..length])))
    };
    let error6 = |kind, length: usize| {
        let icmp = layers::icmpv6(9, V6.0, kind, 0, &tcp6().packet()[..length]);
        ether6(&Ipv6::new(9, V6.0, layers::ICMPV6).around(&icmp))
    };
    let all = p4.len();
    let words = |words, length| {
        let mut frame = error(3, length);
        frame[14 + 20 + 5] = words;
        frame
    };
    vec![
        expecting(one("a packet of 5 words behind its header", ether, words(5, all)), &[(1, None, 20)]),
        expecting(one("a packet of 200 words", ether, words(200, all)), &[(1, None, 32)]),
        none("a packet of 3 words behind its header", ether, words(3, all)),
        expecting(one("unreachable", ether, error(3, all)), &[(1, None, 32)]),
        expecting(one("source quench", ether, error(4, all)), &[(1, None, 32)]),
        none("redirect", ether, error(5, all)),
        expecting(one("time exceeded", ether, error(11, all)), &[(1, None, 32)]),
        expecting(one("parameter problem", ether, error(12, all)), &[(1, None, 32)]),
        none("an echo with a packet in it", ether, error(8, all)),
        none("the least that a router sends back", ether, error(3, 28)),
        expecting(one("as far as the window", ether, error(3, 36)), &[(1, None, 16)]),
        expecting(one("as far as the options", ether, error(3, 40)), &[(1, None, 20)]),
        expecting(one("icmpv6: unreachable", ether, error6(1, 172)), &[(1, None, 32)]),
        expecting(one("icmpv6: too big", ether, error6(2, 172)), &[(1, None, 32)]),
        expecting(one("icmpv6: time exceeded", ether, error6(3, 172)), &[(1, None, 32)]),
        expecting(one("icmpv6: parameter problem", ether, error6(4, 100)), &[(1, None, 32)]),
        none("icmpv6: echo", ether, error6(128, 172)),
    ]
}
