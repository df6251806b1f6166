//! Any bytes as frames of any link layer, one after another so that fragments meet: each has a segment or a reason. A frame of
//! Ethernet has the same segment behind a provider's tag, which leads it around the fast way. Of each frame four bytes come
//! first: its link layer, how much of it was not captured, how long it is.
#![no_main]

use holdup_packets::capture::{Frame, Link};
use holdup_packets::decode::{Decoded, Decoder, Limits};
use holdup_packets::segment::Segment;
use libfuzzer_sys::fuzz_target;

const LINKS: [Link; 9] = [
    Link::Ethernet,
    Link::Null,
    Link::Loop,
    Link::Raw,
    Link::Ipv4,
    Link::Ipv6,
    Link::CookedV1,
    Link::CookedV2,
    Link::Other(7),
];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { datagrams: 8, fragments: 8, age_frames: 100 };
    let (mut decoder, mut tagged) = (Decoder::new(limits), Decoder::new(limits));
    let (mut rest, mut number) = (bytes, 0);
    while let Some(([which, lost, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (captured, after) = after.split_at(length);
        rest = after;
        number += 1;
        let link = LINKS[usize::from(*which) % LINKS.len()];
        let wire_bytes = captured.len() as u32 + u32::from(*lost);
        let frame = Frame { number, at_ns: 0, link, interface: 0, captured, wire_bytes };
        let decoded = decoder.decode(&frame);
        if let Decoded::Segment(segment) = decoded {
            assert!(segment.header_captured_bytes <= segment.header_bytes.max(20));
            // Datagrams are at most as long as two fragments at their ends can say.
            assert!(segment.payload_bytes.is_none_or(|bytes| bytes <= 1 << 18));
        }
        // Both decoders are given every frame, so that they remember the same fragments.
        let same = match (link, captured.split_at_checked(12)) {
            (Link::Ethernet, Some((head, tail))) => {
                let behind = [head, &[0x88, 0xa8, 0, 1], tail].concat();
                match tagged.decode(&Frame { captured: &behind, wire_bytes: wire_bytes + 4, ..frame }) {
                    Decoded::Segment(segment) => {
                        Decoded::Segment(Segment { frame_bytes: segment.frame_bytes - 4, ..segment })
                    }
                    other => other,
                }
            }
            _ => tagged.decode(&frame),
        };
        if is_segment(&decoded) || is_segment(&same) {
            assert_eq!(decoded, same);
        }
    }
});

fn is_segment(decoded: &Decoded) -> bool {
    matches!(decoded, Decoded::Segment(_))
}
