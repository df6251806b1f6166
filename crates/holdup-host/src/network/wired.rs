//! The network card of a machine that has one for holdup alone: a guest's end of a link.

use super::link::{self, Mac};
use super::netlink::{self, Netlink};
use holdup_model::Problem;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// How long a card may take to be there after its driver was loaded: an emulated PCI bus on a busy host.
const CARD_LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked for.
const GLANCE: Duration = Duration::from_millis(20);

/// The bits that name the network of the link between a guest and its peer.
pub const LINK_PREFIX: u8 = 24;

/// One end of the link between a guest and its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// The guest that trials run in.
    Client,
    /// Its peer.
    Server,
}

impl LinkEnd {
    /// The end at the other side.
    #[must_use]
    pub const fn other(self) -> LinkEnd {
        match self {
            LinkEnd::Client => LinkEnd::Server,
            LinkEnd::Server => LinkEnd::Client,
        }
    }

    /// Its address. No other link is on its wire, so every session may use the same.
    pub const fn address(self) -> Ipv4Addr {
        match self {
            LinkEnd::Client => Ipv4Addr::new(10, 77, 0, 1),
            LinkEnd::Server => Ipv4Addr::new(10, 77, 0, 2),
        }
    }
}

/// The Ethernet address of the card with an address: QEMU's prefix, then the end of the IPv4 address.
pub const fn mac_of(address: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = address.octets();
    [0x52, 0x54, 0, b, c, d]
}

/// What a card is to be given. Nothing else may use it: it gets no other address, and IPv6 stays silent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wired {
    /// The Ethernet address by which the card is found.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// The bits of the address that name the network, 0 to 32.
    pub prefix: u8,
    /// The machine at the other end.
    pub other: Ipv4Addr,
    /// Its Ethernet address, a permanent neighbour: no ARP is sent, so none is counted with the packets of a trial.
    pub other_mac: [u8; 6],
}

/// Brings a card up; gives the name of its link, such as `eth0`.
///
/// # Errors
/// When no card with this Ethernet address appears within ten seconds, or the kernel refuses, for lack of rights or
/// because the card has the address already.
pub fn wire(wired: &Wired) -> Result<String, Problem> {
    let what = || format!("the network card {}", written(&wired.mac));
    let failed = |e: io::Error| Problem::host(what(), e.to_string());
    let mut netlink = Netlink::open().map_err(failed)?;
    let begun = Instant::now();
    let (index, name) = loop {
        let links = link::links(&mut netlink).map_err(failed)?;
        if let Some(found) = links.iter().find(|link| link.mac == Some(wired.mac)) {
            break (found.index, found.name.clone());
        }
        if begun.elapsed() >= CARD_LIMIT {
            let there: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            let why = format!("there is none within {} s; links: {}", CARD_LIMIT.as_secs(), there.join(", "));
            return Err(Problem::host(what(), why).hint("the kernel needs a driver for it"));
        }
        std::thread::sleep(GLANCE);
    };
    bring_up(&mut netlink, index, wired).map_err(failed)?;
    Ok(name)
}

fn bring_up(netlink: &mut Netlink, index: u32, wired: &Wired) -> io::Result<()> {
    link::be_silent(netlink, index)?;
    link::add_address(netlink, index, wired.address, wired.prefix)?;
    link::set_up(netlink, index)?;
    match link::add_neighbour(netlink, index, wired.other, wired.other_mac) {
        // The other end has spoken first, and ARP has learnt it.
        Err(e) if netlink::errno(&e) == Some(libc::EEXIST) => Ok(()),
        added => added,
    }
}

fn written(mac: &Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ethernet_address_is_written_as_by_ip() {
        assert_eq!(written(&mac_of(LinkEnd::Client.address())), "52:54:00:4d:00:01");
    }
}
