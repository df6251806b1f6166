//! Frames by hand, each with the segments that tshark 4.6 sees in them.

use crate::judge::tshark;
use crate::lines::{cut_headers, ours, segments, tsharks};
use holdup_packets::made::layers::{self, Ipv4, Ipv6};
use holdup_packets::made::{PcapNg, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint, Options, PSH, SYN};

/// A frame: what was on the wire, and how much of it was captured.
type Cut = (Vec<u8>, usize);

struct Case {
    name: &'static str,
    link: u32,
    frames: Vec<Cut>,
    /// Of each segment: its frame, the length of its payload (`None`: not known), the captured bytes of its header.
    expect: Vec<(u32, Option<u32>, u8)>,
}

const V4: (u32, u32) = (0x0a00_0001, 0x0a00_0002);
const V6: (u128, u128) = (0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2);

fn tcp4() -> Tcp {
    let end = |address, port| Endpoint { address: Address::V4(address), port };
    let options = Options { timestamps: Some((7, 8)), ..Options::default() };
    let (from, to) = (end(V4.0, 40_000), end(V4.1, 5432));
    Tcp { seq: 1000, ack: 2000, flags: ACK | PSH, window: 512, options, payload_bytes: 100, ..Tcp::new(from, to) }
}

fn tcp6() -> Tcp {
    let end = |address, port| Endpoint { address: Address::V6(address), port };
    Tcp { from: end(V6.0, 40_000), to: end(V6.1, 5432), ..tcp4() }
}

/// IP around the segment of [`tcp4`].
fn ip4() -> Ipv4 {
    Ipv4 { id: 77, ..Ipv4::new(V4.0, V4.1, layers::TCP) }
}

fn ip6(next: u8) -> Ipv6 {
    Ipv6::new(V6.0, V6.1, next)
}

fn tunnel(protocol: u8) -> Ipv4 {
    Ipv4::new(0xc0a8_0001, 0xc0a8_0002, protocol)
}

fn whole(frame: Vec<u8>) -> Cut {
    let length = frame.len();
    (frame, length)
}

fn ether4(packet: &[u8]) -> Vec<u8> {
    layers::ethernet(layers::ETHER_IPV4, packet)
}

fn ether6(packet: &[u8]) -> Vec<u8> {
    layers::ethernet(layers::ETHER_IPV6, packet)
}

fn one(name: &'static str, link: u32, frame: Vec<u8>) -> Case {
    Case { name, link, frames: vec![whole(frame)], expect: vec![(1, Some(100), 32)] }
}

fn none(name: &'static str, link: u32, frame: Vec<u8>) -> Case {
    Case { expect: vec![], ..one(name, link, frame) }
}

fn expecting(case: Case, expect: &[(u32, Option<u32>, u8)]) -> Case {
    Case { expect: expect.to_vec(), ..case }
}

fn links() -> Vec<Case> {
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

fn lengths() -> Vec<Case> {
    let ether = link::ETHERNET;
    let segment = tcp4().segment();
    let padded = |frame: Vec<u8>| [&frame[..], &[0; 20]].concat();
    let total = |total_bytes| ether4(&Ipv4 { total_bytes: Some(total_bytes), ..ip4() }.around(&segment));
    let payload =
        |payload_bytes| ether6(&Ipv6 { payload_bytes: Some(payload_bytes), ..ip6(6) }.around(&tcp6().segment()));
    let jumbo = |said: u32, inside: &[u8]| {
        let option = [&[0xc2, 4][..], &said.to_be_bytes()].concat();
        let inside = [&layers::extension(6, &option)[..], inside].concat();
        ether6(&Ipv6 { payload_bytes: Some(0), ..ip6(0) }.around(&inside))
    };
    let large6 = Tcp { payload_bytes: 100_000, ..tcp6() }.segment();
    let odd = |header: u8| {
        let mut frame = tcp4().frame();
        frame[46] = header << 4;
        frame
    };
    vec![
        one("padding after the datagram", ether, padded(tcp4().frame())),
        expecting(
            one("padding after an empty segment", ether, padded(Tcp { payload_bytes: 0, ..tcp4() }.frame())),
            &[(1, Some(0), 32)],
        ),
        one("a length of 0 is the rest of the frame", ether, total(0)),
        expecting(one("a length of 0 and padding", ether, padded(total(0))), &[(1, Some(120), 32)]),
        none("ipv6, a length of 0", ether, payload(0)),
        one("a length beyond the frame", ether, total(1500)),
        one("ipv6, a length beyond the frame", ether, payload(1500)),
        expecting(one("a length within the header of tcp", ether, total(44)), &[(1, None, 24)]),
        expecting(one("a length that cuts the payload", ether, total(60)), &[(1, Some(8), 32)]),
        none("a length below the header of ip", ether, total(19)),
        expecting(
            one("a segment for the card to cut", ether, Tcp { payload_bytes: 100_000, ..tcp4() }.frame()),
            &[(1, Some(100_000), 32)],
        ),
        none("a jumbogram that need be none", ether, jumbo(8 + 132, &tcp6().segment())),
        expecting(one("a long jumbogram", ether, jumbo(8 + large6.len() as u32, &large6)), &[(1, Some(100_000), 32)]),
        expecting(
            one("a jumbogram with padding", ether, padded(jumbo(8 + large6.len() as u32, &large6))),
            &[(1, Some(100_000), 32)],
        ),
        expecting(one("a header of 0 words", ether, odd(0)), &[(1, Some(132), 0)]),
        expecting(one("a header of 4 words", ether, odd(4)), &[(1, Some(116), 16)]),
        expecting(one("a header of 15 words", ether, odd(15)), &[(1, Some(72), 60)]),
        expecting(
            one("a header of 15 words in a shorter datagram", ether, {
                let mut frame = Tcp { payload_bytes: 0, ..tcp4() }.frame();
                frame[46] = 0xf0;
                frame
            }),
            &[(1, None, 32)],
        ),
        one(
            "options of ipv4",
            ether,
            ether4(&Ipv4 { options: vec![7, 7, 4, 0, 0, 0, 0, 0], ..ip4() }.around(&segment)),
        ),
        none("a header of ipv4 with 4 words", ether, {
            let mut frame = tcp4().frame();
            frame[14] = 0x44;
            frame
        }),
    ]
}

fn cuts() -> Vec<Case> {
    let cut = |name, frame: Vec<u8>, at, expect: &[(u32, Option<u32>, u8)]| Case {
        name,
        link: link::ETHERNET,
        frames: vec![(frame, at)],
        expect: expect.to_vec(),
    };
    let frame = || tcp4().frame();
    vec![
        cut("cut in the payload", frame(), 14 + 20 + 32 + 10, &[(1, Some(100), 32)]),
        cut("cut after the header", frame(), 14 + 20 + 32, &[(1, Some(100), 32)]),
        cut("cut in the options", frame(), 14 + 20 + 31, &[(1, Some(100), 31)]),
        cut("cut before the options", frame(), 14 + 20 + 20, &[(1, Some(100), 20)]),
        cut("cut in the checksum", frame(), 14 + 20 + 17, &[(1, Some(100), 17)]),
        cut("cut after the window", frame(), 14 + 20 + 16, &[(1, Some(100), 16)]),
        cut("cut in the acknowledgement number", frame(), 14 + 20 + 11, &[]),
        cut("cut in the ports", frame(), 14 + 20 + 3, &[]),
        cut("cut in ip", frame(), 14 + 19, &[]),
        cut("cut in ethernet", frame(), 13, &[]),
        cut("nothing captured", frame(), 0, &[]),
        cut("cut at 68 bytes behind ipv6", tcp6().frame(), 68 + 2, &[(1, Some(100), 16)]),
        cut("cut at 96 bytes behind ipv6", tcp6().frame(), 96, &[(1, Some(100), 32)]),
    ]
}

fn extensions() -> Vec<Case> {
    let ether = link::ETHERNET;
    let segment = tcp6().segment();
    let chain = |first: u8, parts: &[&[u8]]| ether6(&ip6(first).around(&[&parts.concat()[..], &segment].concat()));
    let route = layers::extension(6, &[&[0; 6][..], &(V6.1 + 7).to_be_bytes()].concat());
    let authentication = [&[6, 4, 0, 0][..], &[1; 20]].concat();
    vec![
        one("hop by hop", ether, chain(0, &[&layers::extension(6, &[1, 4, 0, 0, 0, 0])])),
        one("destination and route", ether, chain(60, &[&layers::extension(43, &[]), &route])),
        one("a fragment that is the whole", ether, chain(44, &[&layers::fragment_header(6, 0, false, 9)])),
        one("authentication", ether, chain(51, &[&authentication])),
        one(
            "authentication in ipv4",
            ether,
            ether4(&Ipv4 { protocol: 51, ..ip4() }.around(&[&authentication[..], &tcp4().segment()].concat())),
        ),
        none("mobility", ether, chain(135, &[&layers::extension(6, &[0; 6])])),
        none("hip", ether, chain(139, &[&layers::extension(6, &[0; 38])])),
        one("shim6", ether, chain(140, &[&layers::extension(6, &[0x80, 0, 0, 0, 0, 0])])),
        none("no next header", ether, chain(59, &[])),
        none("an extension of tests", ether, chain(253, &[&layers::extension(6, &[])])),
        one(
            "a source route",
            ether,
            ether4(&Ipv4 { options: vec![0x83, 7, 4, 10, 0, 0, 9], ..ip4() }.around(&tcp4().segment())),
        ),
    ]
}

fn tunnels() -> Vec<Case> {
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

fn errors() -> Vec<Case> {
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

fn fragments() -> Vec<Case> {
    let frames = |name, frames: Vec<Vec<u8>>, expect: &[(u32, Option<u32>, u8)]| Case {
        name,
        link: link::ETHERNET,
        frames: frames.into_iter().map(whole).collect(),
        expect: expect.to_vec(),
    };
    let segment = Tcp { payload_bytes: 1000, ..tcp4() }.segment();
    let parts: Vec<Vec<u8>> = ip4().fragments(&segment, 400).iter().map(|packet| ether4(packet)).collect();
    let [a, b, c] = [0, 1, 2].map(|i| parts[i].clone());
    let segment6 = Tcp { payload_bytes: 1000, ..tcp6() }.segment();
    let parts6: Vec<Vec<u8>> = ip6(6).fragments(5, &segment6, 400).iter().map(|packet| ether6(packet)).collect();
    let [a6, b6, c6] = [0, 1, 2].map(|i| parts6[i].clone());
    // A fragment of what is at a place, of any length, with more to follow or not.
    let piece = |from: usize, to: usize, more_fragments| {
        ether4(
            &Ipv4 { offset_bytes: from as u16, more_fragments, ..ip4() }.around(&segment[from..to.min(segment.len())]),
        )
    };
    let end = segment.len();
    let tagged = |vlan, frame: &[u8]| layers::ethernet(0x8100, &layers::vlan(vlan, 0x0800, &frame[14..]));
    let tail = |offset_bytes, length: usize| ether4(&Ipv4 { offset_bytes, ..ip4() }.around(&vec![0; length]));
    vec![
        frames("in order", vec![a.clone(), b.clone(), c.clone()], &[(3, Some(1000), 32)]),
        frames("out of order", vec![c.clone(), a.clone(), b.clone()], &[(3, Some(1000), 32)]),
        frames("one is missing", vec![a.clone(), c.clone()], &[]),
        frames("the first alone", vec![a.clone()], &[]),
        frames("twice the same", vec![a.clone(), a.clone(), b.clone(), c.clone()], &[(4, Some(1000), 32)]),
        frames("one more after the end", vec![a.clone(), b.clone(), c.clone(), b.clone()], &[(3, Some(1000), 32)]),
        frames("twice all", [&parts[..], &parts].concat(), &[(3, Some(1000), 32), (6, Some(1000), 32)]),
        frames("two that overlap", vec![piece(0, 400, true), piece(200, end, false)], &[(2, Some(1000), 32)]),
        frames("two ends, the first is too short", vec![a.clone(), tail(400, 8), b.clone()], &[(2, Some(376), 32)]),
        frames(
            "two ends, the second is too short",
            vec![c.clone(), tail(400, 8), a.clone(), b.clone()],
            &[(4, Some(1000), 32)],
        ),
        frames(
            "beyond the end",
            vec![
                a.clone(),
                ether4(&Ipv4 { offset_bytes: 2000, more_fragments: true, ..ip4() }.around(&[0; 8])),
                b.clone(),
                c.clone(),
            ],
            &[(4, Some(1000), 32)],
        ),
        frames(
            "a length that is no multiple of 8",
            vec![piece(0, 403, true), piece(400, end, false)],
            &[(2, Some(1000), 32)],
        ),
        frames(
            "in two vlans",
            vec![tagged(1, &a), tagged(2, &b), tagged(1, &c), tagged(1, &b)],
            &[(4, Some(1000), 32)],
        ),
        frames("ipv6 in order", vec![a6.clone(), b6.clone(), c6.clone()], &[(3, Some(1000), 32)]),
        frames("ipv6 out of order", vec![c6.clone(), b6.clone(), a6.clone()], &[(3, Some(1000), 32)]),
        frames(
            "ipv6 in two vlans",
            vec![layers::ethernet(0x8100, &layers::vlan(1, 0x86dd, &a6[14..])), b6.clone(), c6.clone()],
            &[(3, Some(1000), 32)],
        ),
        frames("ipv6, the first one missing", vec![b6.clone(), c6.clone()], &[]),
        Case {
            name: "a first fragment that was cut",
            link: link::ETHERNET,
            frames: vec![(a.clone(), 96), (b.clone(), 96), (c.clone(), 96)],
            expect: vec![(1, None, 32)],
        },
        Case {
            name: "ipv6, a first fragment that was cut",
            link: link::ETHERNET,
            frames: vec![(a6.clone(), 110), (b6.clone(), 110), (c6.clone(), 110)],
            expect: vec![],
        },
        Case {
            name: "one of three was cut",
            link: link::ETHERNET,
            frames: vec![whole(a.clone()), (b.clone(), 96), whole(c.clone()), whole(b.clone())],
            expect: vec![(4, Some(1000), 32)],
        },
        frames(
            "a segment in a tunnel in fragments",
            tunnel(4)
                .fragments(&Tcp { payload_bytes: 1000, ..tcp4() }.packet(), 600)
                .iter()
                .map(|p| ether4(p))
                .collect(),
            &[(2, Some(1000), 32)],
        ),
        frames(
            "fragments in fragments",
            ip4()
                .fragments(&segment, 600)
                .iter()
                .enumerate()
                .flat_map(|(i, part)| Ipv4 { id: i as u16, ..tunnel(4) }.fragments(part, 400))
                .map(|packet| ether4(&packet))
                .collect(),
            &[(4, Some(1000), 32)],
        ),
    ]
}

fn options() -> Vec<Case> {
    let with = |name, options: &[u8]| {
        let tcp = Tcp { options: Options::default(), more_options: options.to_vec(), flags: SYN, ..tcp4() };
        let header = 20 + options.len().next_multiple_of(4) as u8;
        expecting(one(name, link::ETHERNET, tcp.frame()), &[(1, Some(100), header)])
    };
    vec![
        with("of a SYN", &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]),
        with("an mss of the wrong length", &[2, 3, 5, 4, 2]),
        with("times of the wrong length", &[8, 6, 1, 2, 3, 4, 4, 2]),
        with("nothing after the end", &[4, 2, 0, 3, 3, 7]),
        with("one that goes on beyond the header", &[4, 2, 8, 10, 0, 0, 0, 1]),
        with("one without a length", &[4, 2, 1, 1, 1, 1, 1, 2]),
        with("one of length 1", &[4, 2, 3, 1, 3, 3, 7]),
        with("twice", &[2, 4, 1, 0, 2, 4, 2, 0]),
        with("four blocks", &[&[1, 1, 5, 34][..], &[9; 32]].concat()),
        with("a block and a half", &[1, 1, 5, 14, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]),
        with("multipath", &[30, 12, 0, 0x81, 1, 2, 3, 4, 5, 6, 7, 8]),
        with("unknown ones", &[253, 4, 1, 2, 77, 2, 4, 2]),
    ]
}

/// Packets on a way that is yet to go on, by the number of the end of it, after plain ones to the ends 2, 9 and 10.
fn routed() -> (Vec<Vec<u8>>, Vec<u32>) {
    let end4 = |low: u32| 0x0a00_0000 | low;
    let end6 = |low: u128| 0x2001_0db8 << 96 | low;
    let v4 = |to, options: &[u8]| {
        ether4(&Ipv4 { options: options.to_vec(), ..Ipv4::new(V4.0, end4(to), layers::TCP) }.around(&tcp4().segment()))
    };
    let v6 = |kind: u8, left: u8, first: u8, through: &[u128]| {
        let addresses: Vec<u8> = through.iter().flat_map(|low| end6(*low).to_be_bytes()).collect();
        let body = [&[kind, left, first, 0, 0, 0][..], &addresses].concat();
        ether6(&ip6(43).around(&[&layers::extension(6, &body)[..], &tcp6().segment()].concat()))
    };
    let plain6 = |to| ether6(&Ipv6::new(V6.0, end6(to), layers::TCP).around(&tcp6().segment()));
    let all = [
        (v4(2, &[]), 0),
        (v4(9, &[]), 1),
        (v4(10, &[]), 2),
        (v4(2, &[0x83, 7, 4, 10, 0, 0, 9]), 1),
        (v4(2, &[0x89, 7, 4, 10, 0, 0, 9]), 1),
        (v4(2, &[0x83, 7, 8, 10, 0, 0, 9]), 0),
        (v4(2, &[0x83, 11, 4, 10, 0, 0, 9, 10, 0, 0, 10]), 2),
        (v4(2, &[0x83, 11, 8, 10, 0, 0, 9, 10, 0, 0, 10]), 2),
        (v4(2, &[0x83, 11, 12, 10, 0, 0, 9, 10, 0, 0, 10]), 0),
        (v4(2, &[1, 0x83, 7, 4, 10, 0, 0, 9]), 1),
        (v4(2, &[0, 0x83, 7, 4, 10, 0, 0, 9]), 0),
        (v4(2, &[0x83, 7, 5, 10, 0, 0, 9]), 0),
        (plain6(2), 3),
        (plain6(9), 4),
        (plain6(10), 5),
        (v6(0, 1, 0, &[9]), 4),
        (v6(0, 0, 0, &[9]), 3),
        (v6(0, 2, 0, &[9, 10]), 5),
        (v6(2, 1, 0, &[9]), 4),
        (v6(3, 1, 0, &[9, 10]), 5),
        (v6(4, 1, 1, &[9, 10]), 4),
        (v6(4, 0, 1, &[9, 10]), 3),
        (v6(253, 1, 0, &[9]), 3),
    ];
    all.into_iter().unzip()
}

#[test]
fn a_connection_is_with_the_end_of_a_route() {
    let (frames, expect) = routed();
    let mut capture = PcapNg::new();
    capture.interface(link::ETHERNET);
    for frame in &frames {
        capture.frame(0, 0, frame);
    }
    let capture = capture.into_bytes();
    let mut ends = Vec::new();
    let ours: Vec<usize> = segments(&capture)
        .iter()
        .map(|segment| {
            ends.iter().position(|end| *end == segment.to).unwrap_or_else(|| {
                ends.push(segment.to);
                ends.len() - 1
            })
        })
        .collect();
    assert_eq!(ours, expect.iter().map(|stream| *stream as usize).collect::<Vec<_>>());
    if let Some(tshark) = tshark() {
        let rows = tshark.fields(&capture, &["tcp.stream"], &[]);
        let theirs: Vec<String> = rows.into_iter().flatten().collect();
        assert_eq!(theirs, expect.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
}

/// Cases as one capture. Their fragments would meet, so each that has some is a capture of its own.
fn capture(cases: &[&Case]) -> Vec<u8> {
    let mut capture = PcapNg::new();
    for (i, case) in cases.iter().enumerate() {
        capture.interface(case.link);
        for (frame, captured) in &case.frames {
            capture.cut_frame(i as u32, 0, &frame[..*captured], frame.len() as u32, &[]);
        }
    }
    capture.into_bytes()
}

fn all() -> Vec<Case> {
    [links(), lengths(), cuts(), extensions(), tunnels(), errors(), fragments(), options()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn each_is_read_as_expected() {
    let mut wrong = String::new();
    for case in all() {
        let found: Vec<(u32, Option<u32>, u8)> = segments(&capture(&[&case]))
            .iter()
            .map(|segment| (segment.frame, segment.payload_bytes, segment.header_captured_bytes))
            .collect();
        if found != case.expect {
            wrong += &format!("{}: {found:?}, expected {:?}\n", case.name, case.expect);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn tshark_reads_each_the_same() {
    let Some(tshark) = tshark() else { return };
    let all = all();
    let (alone, together): (Vec<&Case>, Vec<&Case>) = all.iter().partition(|case| case.frames.len() > 1);
    let mut wrong = String::new();
    for cases in alone.iter().map(std::slice::from_ref).chain([&together[..]]) {
        let capture = capture(cases);
        let (ours, theirs) = (ours(&capture), tsharks(&tshark, &capture, &cut_headers(&capture)));
        let of = |lines: &[String], frame: usize| -> Vec<String> {
            lines.iter().filter(|line| line.starts_with(&format!("{frame} "))).cloned().collect()
        };
        let mut first = 1;
        for case in cases {
            for frame in first..first + case.frames.len() {
                let (ours, theirs) = (of(&ours, frame), of(&theirs, frame));
                if ours != theirs {
                    wrong += &format!("{}:\n  holdup {ours:?}\n  tshark {theirs:?}\n", case.name);
                }
            }
            first += case.frames.len();
        }
    }
    assert!(wrong.is_empty(), "{}\n{wrong}", tshark.version);
}
