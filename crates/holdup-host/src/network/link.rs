//! Links, addresses and neighbours, by rtnetlink.

use super::netlink::{self, CREATE_NEW, Netlink, Request, attribute, number32, number64};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWNEIGH: u16 = 28;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_AGEING_TIME: u16 = 4;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;
const OPER_UP: u8 = 6;
const LINK_HEADER: usize = 16;

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

/// `struct ifinfomsg`; the index 0 is no link yet.
fn link_header(index: u32, flags: u32, changed: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&changed.to_ne_bytes());
    header
}

/// One end of a veth pair that is to be made.
pub(super) struct VethEnd<'a> {
    pub(super) name: &'a str,
    pub(super) index: u32,
    pub(super) mac: Mac,
}

/// Makes a veth pair, down: `one` in the namespace of the socket, `other` in that of `namespace`.
///
/// Their indexes should differ. The kernel takes a link with the same index as its peer for one without a peer, and
/// puts its queue in force up to a second after it came up (`net/core/link_watch.c:linkwatch_urgent_event`, v6.18).
pub(super) fn make_veth(
    netlink: &mut Netlink,
    one: &VethEnd<'_>,
    other: &VethEnd<'_>,
    namespace: BorrowedFd<'_>,
    mtu: u32,
) -> io::Result<()> {
    let describe = |request: &mut Request, end: &VethEnd<'_>| {
        request.text(IFLA_IFNAME, end.name).attribute(IFLA_ADDRESS, &end.mac).attribute(IFLA_MTU, &mtu.to_ne_bytes());
    };
    let mut request = Request::new(RTM_NEWLINK, CREATE_NEW, &link_header(one.index, 0, 0));
    describe(&mut request, one);
    request.nest(IFLA_LINKINFO, |info| {
        info.text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |data| {
            data.nest(VETH_INFO_PEER, |peer| {
                describe(peer.raw(&link_header(other.index, 0, 0)), other);
                peer.attribute(IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    netlink.ask(&mut request)
}

/// For how long a bridge knows where an Ethernet address is: a day, in hundredths of a second. The default of 300 s
/// would end within a trial.
const AGEING_TIME: u32 = 24 * 3600 * 100;

/// Makes a bridge, down. Multicast snooping is off: it would send queries, which would be
/// counted with the packets of a trial.
pub(super) fn make_bridge(netlink: &mut Netlink, name: &str, index: u32) -> io::Result<()> {
    let mut request = Request::new(RTM_NEWLINK, CREATE_NEW, &link_header(index, 0, 0));
    request.text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, |info| {
        info.text(IFLA_INFO_KIND, "bridge").nest(IFLA_INFO_DATA, |data| {
            data.attribute(IFLA_BR_AGEING_TIME, &AGEING_TIME.to_ne_bytes()).attribute(IFLA_BR_MCAST_SNOOPING, &[0]);
        });
    });
    match netlink.ask(&mut request) {
        // A kernel without multicast snooping (CONFIG_BRIDGE_IGMP_SNOOPING) does not know the attribute.
        Err(e) if netlink::errno(&e) == Some(libc::EINVAL) => {
            let mut plain = Request::new(RTM_NEWLINK, CREATE_NEW, &link_header(index, 0, 0));
            plain.text(IFLA_IFNAME, name).nest(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "bridge").nest(IFLA_INFO_DATA, |data| {
                    data.attribute(IFLA_BR_AGEING_TIME, &AGEING_TIME.to_ne_bytes());
                });
            });
            netlink.ask(&mut plain)
        }
        made => made,
    }
}

/// Makes a link a port of a bridge.
pub(super) fn join(netlink: &mut Netlink, port: u32, bridge: u32) -> io::Result<()> {
    let mut request = Request::new(RTM_NEWLINK, 0, &link_header(port, 0, 0));
    netlink.ask(request.attribute(IFLA_MASTER, &bridge.to_ne_bytes()))
}

/// Sets the MTU of a link.
pub(super) fn set_mtu(netlink: &mut Netlink, index: u32, mtu: u32) -> io::Result<()> {
    let mut request = Request::new(RTM_NEWLINK, 0, &link_header(index, 0, 0));
    netlink.ask(request.attribute(IFLA_MTU, &mtu.to_ne_bytes()))
}

/// Keeps IPv6 from giving a link an address by itself: with one come router solicitations, duplicate address
/// detection and multicast reports, which would be counted with the packets of a trial.
pub(super) fn be_silent(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    let mut request = Request::new(RTM_NEWLINK, 0, &link_header(index, 0, 0));
    request.nest(IFLA_AF_SPEC, |spec| {
        spec.nest(libc::AF_INET6 as u16, |inet6| {
            inet6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
        });
    });
    match netlink.ask(&mut request) {
        // A kernel without IPv6, or a link that is too small for it.
        Err(e) if matches!(netlink::errno(&e), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => Ok(()),
        asked => asked,
    }
}

/// Sets a link up.
pub(super) fn set_up(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    let up = libc::IFF_UP as u32;
    netlink.ask(&mut Request::new(RTM_NEWLINK, 0, &link_header(index, up, up)))
}

/// Gives a link an IPv4 address with a prefix.
pub(super) fn add_address(netlink: &mut Netlink, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    // `struct ifaddrmsg`: family, prefix, flags, scope, index.
    let mut header = vec![libc::AF_INET as u8, prefix, 0, 0];
    header.extend_from_slice(&index.to_ne_bytes());
    let mut request = Request::new(RTM_NEWADDR, CREATE_NEW, &header);
    netlink.ask(request.attribute(IFA_LOCAL, &address.octets()).attribute(IFA_ADDRESS, &address.octets()))
}

/// Makes the Ethernet address of a neighbour permanent, so that no ARP is sent and no packet waits for its answer.
pub(super) fn add_neighbour(netlink: &mut Netlink, index: u32, address: Ipv4Addr, mac: Mac) -> io::Result<()> {
    // `struct ndmsg`: family and padding, index, state, flags, type.
    let mut header = vec![libc::AF_INET as u8, 0, 0, 0];
    header.extend_from_slice(&index.to_ne_bytes());
    header.extend_from_slice(&NUD_PERMANENT.to_ne_bytes());
    header.extend_from_slice(&[0, 0]);
    let mut request = Request::new(RTM_NEWNEIGH, CREATE_NEW, &header);
    netlink.ask(request.attribute(NDA_DST, &address.octets()).attribute(NDA_LLADDR, &mac))
}

/// What the kernel counts of a link since it was made.
///
/// Source: `struct rtnl_link_stats64` of `include/uapi/linux/if_link.h` (v6.18). What a drop is differs between
/// drivers; veth counts as dropped on sending what its peer had no room for or was not up to take
/// (`drivers/net/veth.c:veth_xmit`, v6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets received; with GRO and GSO one packet may be many of the size of the MTU.
    pub rx_packets: u64,
    /// Packets sent; the same.
    pub tx_packets: u64,
    /// Bytes received, with the Ethernet header.
    pub rx_bytes: u64,
    /// Bytes sent, with the Ethernet header.
    pub tx_bytes: u64,
    /// Packets that were bad on reception.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped on reception, for lack of room or of a receiver.
    pub rx_dropped: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
}

impl LinkCounters {
    fn parse(stats: &[u8]) -> Option<Self> {
        let at = |place: usize| number64(stats, place * 8);
        Some(LinkCounters {
            rx_packets: at(0)?,
            tx_packets: at(1)?,
            rx_bytes: at(2)?,
            tx_bytes: at(3)?,
            rx_errors: at(4)?,
            tx_errors: at(5)?,
            rx_dropped: at(6)?,
            tx_dropped: at(7)?,
        })
    }

    /// What was added since an earlier reading.
    pub fn minus(&self, earlier: &Self) -> Self {
        LinkCounters {
            rx_packets: self.rx_packets.wrapping_sub(earlier.rx_packets),
            tx_packets: self.tx_packets.wrapping_sub(earlier.tx_packets),
            rx_bytes: self.rx_bytes.wrapping_sub(earlier.rx_bytes),
            tx_bytes: self.tx_bytes.wrapping_sub(earlier.tx_bytes),
            rx_errors: self.rx_errors.wrapping_sub(earlier.rx_errors),
            tx_errors: self.tx_errors.wrapping_sub(earlier.tx_errors),
            rx_dropped: self.rx_dropped.wrapping_sub(earlier.rx_dropped),
            tx_dropped: self.tx_dropped.wrapping_sub(earlier.tx_dropped),
        }
    }
}

/// A link as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// Its Ethernet address; `None` where it has none, or one of another length.
    pub(super) mac: Option<Mac>,
    pub(super) mtu: Option<u32>,
    /// True if packets go through: up, with a carrier, and its queue in force.
    pub(super) is_running: bool,
    pub(super) counters: Option<LinkCounters>,
}

impl Link {
    fn parse(payload: &[u8]) -> Option<Self> {
        let index = number32(payload, 4)?;
        let all = payload.get(LINK_HEADER..)?;
        Some(Link {
            index,
            name: netlink::text(attribute(all, IFLA_IFNAME)?),
            mac: attribute(all, IFLA_ADDRESS).and_then(|v| v.try_into().ok()),
            mtu: attribute(all, IFLA_MTU).and_then(|v| number32(v, 0)),
            is_running: attribute(all, IFLA_OPERSTATE).is_some_and(|v| v.first() == Some(&OPER_UP)),
            counters: attribute(all, IFLA_STATS64).and_then(LinkCounters::parse),
        })
    }
}

/// The links of the socket's namespace, in the order of their indexes.
pub(super) fn links(netlink: &mut Netlink) -> io::Result<Vec<Link>> {
    let mut found = Vec::new();
    netlink.list(&mut Request::new(RTM_GETLINK, 0, &link_header(0, 0, 0)), &mut |kind, payload| {
        found.extend(Link::parse(payload).filter(|_| kind == RTM_NEWLINK));
    })?;
    found.sort_by_key(|link| link.index);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_cut_short_is_none_or_without_what_was_cut() {
        let mut stats = Vec::new();
        for n in 1..=8_u64 {
            stats.extend_from_slice(&n.to_ne_bytes());
        }
        let mut request = Request::new(RTM_NEWLINK, 0, &link_header(5, 0, 0));
        request.text(IFLA_IFNAME, "eth0").attribute(IFLA_MTU, &9000_u32.to_ne_bytes());
        request.attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 7]);
        request.attribute(IFLA_OPERSTATE, &[OPER_UP]).attribute(IFLA_STATS64, &stats);
        let payload = request.payload();
        let whole = Link::parse(payload).expect("whole");
        assert_eq!((whole.index, whole.name.as_str(), whole.mtu, whole.is_running), (5, "eth0", Some(9000), true));
        assert_eq!(whole.mac, Some([2, 0, 0, 0, 0, 7]));
        let counters = whole.counters.expect("whole");
        assert_eq!((counters.rx_packets, counters.tx_dropped), (1, 8));
        for length in 0..payload.len() {
            let cut = Link::parse(&payload[..length]);
            assert!(cut.is_none_or(|link| link.counters.is_none()), "{length}");
        }
    }
}
