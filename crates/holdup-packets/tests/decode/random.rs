//! Thousands of random frames, read as tshark reads them.

use crate::decode::lines::{cut_headers, ours, tsharks};
use crate::judge::tshark;
use crate::made::layers::{self, Ipv4, Ipv6};
use crate::made::{PcapNg, Tcp, link};
use holdup_packets::segment::{Address, Endpoint, Options};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Captures, and packets in each, from which frames are made.
const CAPTURES: u64 = 4;
const PACKETS: usize = 2000;

struct Random(Pcg64Mcg);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn address4(&mut self) -> u32 {
        0x0a00_0000 | self.below(16) as u32
    }

    fn address6(&mut self) -> u128 {
        0x2001_0db8 << 96 | self.below(16) as u128
    }

    fn options(&mut self) -> Options {
        let mut options = Options::default();
        if self.percent(60) {
            options.timestamps = Some((self.word(), self.word()));
        }
        if self.percent(20) {
            options.mss = Some(self.word() as u16);
            options.window_shift = Some(self.below(15) as u8);
            options.sack_permitted = self.percent(50);
        } else if self.percent(30) {
            options.sack_count = 1 + self.below(3) as u8;
            options.sacks = std::array::from_fn(|_| (self.word(), self.word()));
            options.sacks[usize::from(options.sack_count)..].fill((0, 0));
        }
        options
    }

    fn tcp(&mut self) -> Tcp {
        let is_v4 = self.percent(60);
        let mut end = |port| {
            let address = if is_v4 { Address::V4(self.address4()) } else { Address::v6(self.address6()) };
            Endpoint { address, port }
        };
        // Ports of nothing that tshark knows.
        let (from, to) = (end(50_001), end(50_002));
        let payload_bytes = if self.percent(3) { self.below(80_000) } else { self.below(300) };
        Tcp {
            seq: self.word(),
            ack: self.word(),
            flags: self.word() as u16 & 0xfff,
            window: self.word() as u16,
            options: self.options(),
            payload_bytes,
            ..Tcp::new(from, to)
        }
    }

    /// The packets that hold a packet: one, or its fragments; with extension headers and options here and there.
    fn packets(&mut self, from_v4: bool, protocol: u8, inside: &[u8]) -> Vec<Vec<u8>> {
        let id = self.word() as u16;
        let most = 8 + self.below(inside.len().max(1));
        let is_cut = self.percent(15) && inside.len() < 60_000;
        if from_v4 {
            let options = if self.percent(10) { vec![1; 4 * self.below(11)] } else { Vec::new() };
            let total_bytes = self.percent(3).then_some(inside.len() as u16);
            let ip = Ipv4 { id, options, total_bytes, ..Ipv4::new(self.address4(), self.address4(), protocol) };
            if is_cut { ip.fragments(inside, most) } else { vec![ip.around(inside)] }
        } else {
            let payload_bytes = self.percent(3).then_some(inside.len() as u16);
            let plain = Ipv6 { payload_bytes, ..Ipv6::new(self.address6(), self.address6(), protocol) };
            if is_cut {
                return plain.fragments(id.into(), inside, most);
            }
            if self.percent(20) {
                let kind = self.of(&[0, 43, 60]);
                let body = vec![0; self.below(20)];
                return vec![
                    Ipv6 { next: kind, payload_bytes: None, ..plain }
                        .around(&[&layers::extension(protocol, &body)[..], inside].concat()),
                ];
            }
            vec![plain.around(inside)]
        }
    }

    /// A packet inside of another one.
    fn tunnelled(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let kind = layers::ether_type(packet);
        let inside = if kind == layers::ETHER_IPV4 { 4 } else { 41 };
        let (protocol, inside) = match self.below(6) {
            0 => (inside, packet.to_vec()),
            1 => {
                let (key, sequence) = (self.percent(50).then_some(1), self.percent(50).then_some(2));
                (layers::GRE, layers::gre(self.percent(50), key, sequence, kind, packet))
            }
            2 => (layers::GRE, layers::gre(false, None, None, layers::ETHER_BRIDGED, &self.bridged(packet))),
            3 => (layers::UDP, layers::udp(50_003, 4789, &layers::vxlan(7, &self.bridged(packet)))),
            4 => {
                let options = vec![0; 4 * self.below(3)];
                (
                    layers::UDP,
                    layers::udp(
                        50_003,
                        6081,
                        &layers::geneve(7, &options, layers::ETHER_BRIDGED, &self.bridged(packet)),
                    ),
                )
            }
            _ => (layers::UDP, layers::udp(50_003, 6081, &layers::geneve(7, &[], kind, packet))),
        };
        let is_v4 = self.percent(60);
        self.packets(is_v4, protocol, &inside)
    }

    /// A frame of Ethernet with up to three tags around a packet.
    fn bridged(&mut self, packet: &[u8]) -> Vec<u8> {
        let (mut kind, mut inside) = (layers::ether_type(packet), packet.to_vec());
        while self.percent(20) {
            inside = layers::vlan(self.word() as u16, kind, &inside);
            kind = self.of(&[0x8100, 0x88a8, 0x9100]);
        }
        let mut frame = layers::ethernet(kind, &inside);
        if self.percent(10) {
            frame.extend(vec![0; self.below(20)]);
        }
        frame
    }

    fn linked(&mut self, link: u32, packet: &[u8]) -> Vec<u8> {
        let kind = layers::ether_type(packet);
        match link {
            link::LINUX_SLL => layers::cooked_v1(kind, packet),
            link::LINUX_SLL2 => layers::cooked_v2(kind, packet),
            link::NULL | link::LOOP => {
                let family = if kind == layers::ETHER_IPV4 { 2 } else { self.of(&[24, 28, 30]) };
                layers::loopback(family, self.percent(50), packet)
            }
            link::ETHERNET => self.bridged(packet),
            _ => packet.to_vec(),
        }
    }
}

const LINKS: [u32; 6] = [link::ETHERNET, link::LINUX_SLL, link::LINUX_SLL2, link::NULL, link::LOOP, link::RAW];

/// A capture of random frames.
fn capture(seed: u64) -> Vec<u8> {
    let mut random = Random(Pcg64Mcg::seed_from_u64(seed));
    let mut capture = PcapNg::new();
    for number in LINKS {
        capture.interface(number);
    }
    let mut frames: Vec<(u32, Vec<u8>)> = Vec::new();
    for _ in 0..PACKETS {
        let tcp = random.tcp();
        let mut packets = match (tcp.from.address, random.percent(80)) {
            (_, true) => vec![tcp.packet()],
            (Address::V4(_), _) => random.packets(true, layers::TCP, &tcp.segment()),
            (Address::V6(_), _) => random.packets(false, layers::TCP, &tcp.segment()),
        };
        while random.percent(40) && packets[0].len() < 60_000 {
            packets = packets.iter().flat_map(|packet| random.tunnelled(packet)).collect();
        }
        // The checksum of a router's error is of no account.
        if random.percent(3) {
            let error = layers::icmp(random.of(&[3, 11]), 0, &packets[0]);
            packets = vec![Ipv4::new(9, 9, layers::ICMP).around(&error)];
        }
        let which = if random.percent(50) { 0 } else { random.below(LINKS.len()) };
        for packet in packets {
            frames.push((which as u32, random.linked(LINKS[which], &packet)));
        }
    }
    disturb(&mut random, &mut frames);
    for (interface, frame) in frames {
        let captured = match random.below(10) {
            0 => random.below(frame.len() + 1),
            1 => frame.len().min(96),
            _ => frame.len(),
        };
        capture.cut_frame(interface, 0, &frame[..captured], frame.len() as u32, &[]);
    }
    capture.into_bytes()
}

/// Loses, repeats and exchanges frames here and there.
fn disturb(random: &mut Random, frames: &mut [(u32, Vec<u8>)]) {
    for i in 0..frames.len().saturating_sub(3) {
        match random.below(30) {
            0 => frames.swap(i, i + 1),
            1 => frames.swap(i, i + 3),
            2 => frames[i] = frames[i + 1].clone(),
            _ => {}
        }
    }
}

pub(crate) fn tshark_reads_random_frames_the_same() {
    let tshark = tshark();
    let first = std::env::var("HOLDUP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + CAPTURES {
        let capture = capture(seed);
        let (ours, theirs) = (ours(&capture), tsharks(&tshark, &capture, &cut_headers(&capture)));
        assert!(ours.len() > PACKETS / 2, "only {} segments", ours.len());
        let frame = |line: &String| -> u32 { line.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0) };
        let mut wrong = Vec::new();
        for line in ours.iter().filter(|line| !theirs.contains(line)) {
            wrong.push((frame(line), "holdup", line));
        }
        for line in theirs.iter().filter(|line| !ours.contains(line)) {
            wrong.push((frame(line), "tshark", line));
        }
        wrong.sort();
        wrong.truncate(20);
        assert!(wrong.is_empty(), "HOLDUP_SEED={seed}, {}: {wrong:#?}", tshark.version);
    }
}
