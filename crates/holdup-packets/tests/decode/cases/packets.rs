//! Lengths, cuts, extension headers and options.

use super::{Case, V4, V6, ether4, ether6, expecting, ip4, ip6, none, one, tcp4, tcp6};
use crate::made::layers::{self, Ipv4, Ipv6};
use crate::made::{Tcp, link};
use holdup_packets::segment::{Options, SYN};

pub(super) fn lengths() -> Vec<Case> {
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
        expecting(one("a header of 0 words", ether, odd(0)), &[(1, Some(132), 20)]),
        expecting(one("a header of 4 words", ether, odd(4)), &[(1, Some(116), 20)]),
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

pub(super) fn cuts() -> Vec<Case> {
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

pub(super) fn extensions() -> Vec<Case> {
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

pub(super) fn options() -> Vec<Case> {
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
        with("one that exceeds the header", &[4, 2, 8, 10, 0, 0, 0, 1]),
        with("one without a length", &[4, 2, 1, 1, 1, 1, 1, 2]),
        with("one of length 1", &[4, 2, 3, 1, 3, 3, 7]),
        with("twice", &[2, 4, 1, 0, 2, 4, 2, 0]),
        with("four blocks", &[&[1, 1, 5, 34][..], &[9; 32]].concat()),
        with("a block and a half", &[1, 1, 5, 14, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]),
        with("multipath", &[30, 12, 0, 0x81, 1, 2, 3, 4, 5, 6, 7, 8]),
        with("unknown ones", &[253, 4, 1, 2, 77, 2, 4, 2]),
    ]
}

/// Packets with an unfinished route, by the number of its end, after plain ones to the ends 2, 9 and 10.
pub(super) fn routed() -> (Vec<Vec<u8>>, Vec<u32>) {
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
