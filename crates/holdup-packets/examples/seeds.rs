//! Writes seeds for the fuzz targets that read captures and frames: `cargo run -p holdup-packets --example seeds -- FOLDER` fills
//! `FOLDER/capture` and `FOLDER/frame_decode`.
#![allow(clippy::print_stderr, reason = "an example says what is wrong")]

#[path = "../tests/made/mod.rs"]
mod made;

use crate::made::layers::{self, Ipv4, Ipv6};
use crate::made::{Pcap, PcapNg, Tcp, link};
use holdup_packets::segment::{ACK, Address, Endpoint, Options, SYN};
use std::io::{self, Write};
use std::path::Path;

fn tcp(is_v6: bool) -> Tcp {
    let end = |low: u32, port| {
        let address = if is_v6 { Address::v6(low.into()) } else { Address::V4(low) };
        Endpoint { address, port }
    };
    Tcp { seq: 1, ack: 2, flags: ACK, payload_bytes: 40, ..Tcp::new(end(1, 40_000), end(2, 5432)) }
}

/// Frames with the numbers of their link layers: each link layer, each tunnel, fragments, errors, options.
fn frames() -> Vec<(u32, Vec<u8>)> {
    let (p4, p6) = (tcp(false).packet(), tcp(true).packet());
    let (f4, segment) = (tcp(false).frame(), tcp(true).segment());
    let around =
        |protocol, inside: &[u8]| layers::ethernet(layers::ETHER_IPV4, &Ipv4::new(3, 4, protocol).around(inside));
    let options = Options {
        mss: Some(1460),
        window_shift: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 2)),
        ..Options::default()
    };
    let sack = Options { sacks: [(1, 2); 4], sack_count: 3, timestamps: Some((3, 4)), ..Options::default() };
    let tagged = layers::vlan(7, layers::ETHER_IPV4, &p4);
    let mut frames = vec![
        (link::ETHERNET, f4.clone()),
        (link::ETHERNET, tcp(true).frame()),
        (link::ETHERNET, Tcp { flags: SYN, options, ..tcp(false) }.frame()),
        (link::ETHERNET, Tcp { options: sack, ..tcp(true) }.frame()),
        (link::ETHERNET, layers::ethernet(0x88a8, &layers::vlan(8, layers::ETHER_VLAN, &tagged))),
        (link::ETHERNET, layers::ethernet(layers::ETHER_MPLS, &layers::mpls(&[16, 17], &p4))),
        (link::ETHERNET, layers::ethernet(layers::ETHER_PPPOE, &layers::pppoe(1, &p6))),
        (link::ETHERNET, around(layers::GRE, &layers::gre(true, Some(1), Some(2), layers::ETHER_BRIDGED, &f4))),
        (link::ETHERNET, around(layers::UDP, &layers::udp(50_000, 4789, &layers::vxlan(1, &f4)))),
        (link::ETHERNET, around(layers::UDP, &layers::udp(50_000, 6081, &layers::geneve(1, &[0; 4], 0x0800, &p4)))),
        (link::ETHERNET, around(layers::IPV6_INSIDE, &p6)),
        (link::ETHERNET, around(layers::ICMP, &layers::icmp(3, 1, &p4))),
        (link::NULL, layers::loopback(30, false, &p6)),
        (link::LOOP, layers::loopback(2, true, &p4)),
        (link::RAW, p6),
        (link::LINUX_SLL, layers::cooked_v1(layers::ETHER_IPV4, &p4)),
        (link::LINUX_SLL2, layers::cooked_v2(layers::ETHER_IPV4, &p4)),
    ];
    for packet in Ipv4::new(1, 2, layers::TCP).fragments(&tcp(false).segment(), 32) {
        frames.push((link::ETHERNET, layers::ethernet(layers::ETHER_IPV4, &packet)));
    }
    for packet in Ipv6::new(1, 2, layers::TCP).fragments(9, &segment, 32) {
        frames.push((link::ETHERNET, layers::ethernet(layers::ETHER_IPV6, &packet)));
    }
    let body = [&layers::extension(43, &[0; 4])[..], &layers::extension(6, &[0; 22]), &segment].concat();
    frames.push((link::RAW, Ipv6::new(1, 2, 0).around(&body)));
    frames
}

fn captures() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let frames = frames();
    let mut plain = [Pcap::new(link::ETHERNET), Pcap::new(link::ETHERNET).big_endian().with_nanoseconds().cut_at(96)];
    for pcap in &mut plain {
        for (i, (_, frame)) in frames.iter().filter(|(number, _)| *number == link::ETHERNET).enumerate() {
            pcap.frame(i as i64 * 1_000_000, frame);
        }
    }
    let [pcap, pcap_of_ns] = plain.map(Pcap::into_bytes);
    let mut pcapng = PcapNg::new();
    for is_big_endian in [false, true] {
        pcapng.section(is_big_endian);
        for (i, (number, frame)) in frames.iter().enumerate() {
            let interface = pcapng.interface_with(*number, 0, Some(if i % 2 == 0 { 9 } else { 0x94 }), Some(1));
            pcapng.frame(interface, 5_000_000_000, frame);
        }
        pcapng.block(5, &[0; 12]);
        pcapng.old_frame(0, 5_000_000_000, &frames[0].1);
        pcapng.simple_frame(&frames[0].1, frames[0].1.len() as u32);
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&pcap)?;
    let zstd = ruzstd::encoding::compress_to_vec(&pcap[..], ruzstd::encoding::CompressionLevel::Fastest);
    let pcapng = pcapng.into_bytes();
    Ok(vec![("pcap", pcap), ("pcap-ns", pcap_of_ns), ("pcapng", pcapng), ("gzip", gzip.finish()?), ("zstd", zstd)])
}

/// The input of `frame_decode`: the number of the link layer in its list, what was not captured, the length, the frame.
fn input(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let order =
        [link::ETHERNET, link::NULL, link::LOOP, link::RAW, link::IPV4, link::IPV6, link::LINUX_SLL, link::LINUX_SLL2];
    let mut bytes = Vec::new();
    for (number, frame) in frames {
        let which = order.iter().position(|one| one == number).unwrap_or(order.len());
        bytes.extend([which as u8, 0]);
        bytes.extend((frame.len() as u16).to_be_bytes());
        bytes.extend(frame);
    }
    bytes
}

fn write(folder: &Path) -> io::Result<()> {
    let (into_captures, into_frames) = (folder.join("capture"), folder.join("frame_decode"));
    std::fs::create_dir_all(&into_captures)?;
    std::fs::create_dir_all(&into_frames)?;
    for (name, bytes) in captures()? {
        std::fs::write(into_captures.join(name), bytes)?;
    }
    let frames = frames();
    for (i, frame) in frames.iter().enumerate() {
        std::fs::write(into_frames.join(format!("frame-{i}")), input(std::slice::from_ref(frame)))?;
    }
    std::fs::write(into_frames.join("all"), input(&frames))
}

fn main() {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("name the folder: cargo run -p holdup-packets --example seeds -- FOLDER");
        return;
    };
    if let Err(e) = write(Path::new(&folder)) {
        eprintln!("{}: {e}", folder.display());
    }
}
