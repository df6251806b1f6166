//! Datagrams in fragments.

use super::{Case, ether4, ether6, ip4, ip6, tcp4, tcp6, tunnel, whole};
use crate::made::layers::{self, Ipv4};
use crate::made::{Tcp, link};

#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn fragments() -> Vec<Case> {
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
