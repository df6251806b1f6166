//! What packet sockets had no room for, as the kernel counts it for the sockets of one network namespace.
//!
//! Sources: sock_diag(7); `include/uapi/linux/packet_diag.h`, `net/packet/diag.c`, `SK_MEMINFO_DROPS` of
//! `include/uapi/linux/sock_diag.h` (v6.18). The number is `sk_drops`, which `net/packet/af_packet.c:packet_rcv` raises.

use super::netlink::{self, Netlink, Request, attribute, number32};
use std::collections::BTreeMap;
use std::io;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const PACKET_SHOW_INFO: u32 = 0x1;
const PACKET_SHOW_MEMINFO: u32 = 0x10;
const PACKET_DIAG_INFO: u16 = 0;
const PACKET_DIAG_MEMINFO: u16 = 6;
const SK_MEMINFO_DROPS: usize = 8;
/// The length of `struct packet_diag_msg`.
const HEADER: usize = 16;

/// What is asked for: `struct packet_diag_req` of all packet sockets.
fn question() -> [u8; 20] {
    let mut request = [0; 20];
    request[0] = libc::AF_PACKET as u8;
    request[8..12].copy_from_slice(&(PACKET_SHOW_INFO | PACKET_SHOW_MEMINFO).to_ne_bytes());
    request
}

/// The packets that packet sockets dropped, by the index of the link that they are bound to. A link without such a
/// socket is missing.
pub(super) fn drops(netlink: &mut Netlink) -> io::Result<BTreeMap<u32, u64>> {
    let mut found = BTreeMap::new();
    let listed = netlink.list(&mut Request::new(SOCK_DIAG_BY_FAMILY, 0, &question()), &mut |_, payload| {
        if let Some((link, drops)) = drops_of(payload) {
            *found.entry(link).or_default() += drops;
        }
    });
    match listed {
        Err(e) if netlink::errno(&e) == Some(libc::ENOENT) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel does not list packet sockets (it needs CONFIG_PACKET_DIAG)",
        )),
        listed => listed.map(|()| found),
    }
}

/// The link of a socket, and its drops.
fn drops_of(payload: &[u8]) -> Option<(u32, u64)> {
    let all = payload.get(HEADER..)?;
    let link = number32(attribute(all, PACKET_DIAG_INFO)?, 0)?;
    let drops = number32(attribute(all, PACKET_DIAG_MEMINFO)?, SK_MEMINFO_DROPS * 4)?;
    Some((link, u64::from(drops)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_cut_short_is_none() {
        let mut memory = [0; 36];
        memory[32..].copy_from_slice(&5_u32.to_ne_bytes());
        let mut request = Request::new(SOCK_DIAG_BY_FAMILY, 0, &[0; HEADER]);
        request.attribute(PACKET_DIAG_INFO, &21_u32.to_ne_bytes()).attribute(PACKET_DIAG_MEMINFO, &memory);
        let payload = request.payload();
        assert_eq!(drops_of(payload), Some((21, 5)));
        for length in 0..payload.len() {
            assert_eq!(drops_of(&payload[..length]), None, "{length}");
        }
    }
}
