//! Frames with faults in their headers: cut by the capture, lengths that cannot be, options that are none, segments in errors of
//! routers.

use crate::dice::Dice;
use crate::made::{Tcp, layers};
use holdup_packets::segment::Address;

/// What was captured of a segment after one fault or none, and how long its frame was.
pub(crate) fn frame(dice: &mut Dice, tcp: &Tcp) -> (Vec<u8>, u32) {
    let mut tcp = tcp.clone();
    let choice = dice.below(12);
    if choice < 4 {
        tcp.options = Default::default();
        tcp.more_options = options(dice);
    }
    let mut packet = tcp.packet();
    let ip_bytes = if matches!(tcp.from.address, Address::V4(_)) { 20 } else { 40 };
    match choice {
        // The length of the header: too short, or beyond the segment.
        4 => packet[ip_bytes + 12] = (dice.below(16) as u8) << 4 | packet[ip_bytes + 12] & 0xf,
        5 | 6 => packet = in_error(dice, &tcp, &packet),
        _ => {}
    }
    let frame = layers::ethernet(layers::ether_type(&packet), &packet);
    let wire_bytes = frame.len() as u32;
    let mut captured = frame;
    if choice == 7 {
        let least = 14 + ip_bytes + 14;
        captured.truncate(least + dice.below(50) as usize);
    }
    (captured, wire_bytes)
}

/// Bytes of options: real ones, with lengths that are sometimes wrong, and anything.
fn options(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut used = Vec::new();
    for _ in 0..dice.below(5) {
        // An option that stands there twice is left out: docs/packets.md.
        let kind = dice.pick(&[0, 1, 1, 2, 3, 4, 5, 8, 19, 30, 34, 69, 253, 254]);
        if kind > 1 && used.contains(&kind) {
            continue;
        }
        used.push(kind);
        let right = match kind {
            0 | 1 => 1,
            2 => 4,
            3 => 3,
            4 => 2,
            5 => 2 + 8 * dice.pick(&[1, 1, 2, 3]),
            8 | 30 => 10,
            34 => dice.pick(&[2, 6, 10]),
            253 | 254 => dice.pick(&[4, 6, 12]),
            _ => 6,
        };
        // A selective acknowledgement that ends within a block makes Wireshark give the whole segment up as malformed.
        let length = if dice.chance(10) && kind != 5 && kind != 30 { dice.below(12) as u8 } else { right };
        bytes.push(kind);
        if kind > 1 {
            bytes.push(length);
            let value = (2..right).map(|_| dice.below(4) as u8).collect::<Vec<_>>();
            bytes.extend(value);
            if kind >= 253 && right >= 4 {
                let at = bytes.len() - usize::from(right) + 2;
                bytes[at..at + 2].copy_from_slice(&dice.pick(&[[0xf9, 0x89], [0, 1]]));
            }
        }
    }
    bytes.truncate(40);
    bytes.resize(bytes.len().next_multiple_of(4), dice.pick(&[0, 0, 1, 7]));
    bytes
}

/// The packet in the error of a router, of which it has some. One that ends inside of an option is left out: docs/packets.md.
fn in_error(dice: &mut Dice, tcp: &Tcp, packet: &[u8]) -> Vec<u8> {
    let kept = dice.pick(&[28, 34, 36, 40, 1000]).min(packet.len());
    match (tcp.from.address, tcp.to.address) {
        (Address::V4(from), Address::V4(_)) => {
            let message = layers::icmp(dice.pick(&[3, 11]), dice.pick(&[0, 1]), &packet[..kept]);
            layers::Ipv4::new(0x0a01_0101, from, layers::ICMP).around(&message)
        }
        (Address::V6(from), _) => {
            let from = u128::from(from);
            let router = 0x2001_0db8 << 96 | 0xffff;
            let message =
                layers::icmpv6(router, from, dice.pick(&[1, 2, 3]), 0, &packet[..(kept + 20).min(packet.len())]);
            layers::Ipv6::new(router, from, layers::ICMPV6).around(&message)
        }
        _ => packet.to_vec(),
    }
}
