//! The link between a guest and its peer, which is connected to nothing else.
//!
//! ```text
//!   QEMU of the guest ── socket pair ── QEMU of its peer
//! ```
//!
//! Ethernet frames with length prefixes (`-netdev stream`), from one emulator to the other. vhost, with which the host's kernel
//! would forward packets, needs a tap device and /dev/vhost-net.

use super::Chosen;
use crate::arch::VirtioBus;
use holdup_host::network::{LINK_PREFIX, LinkEnd, mac_of};
use holdup_model::Problem;
use holdup_model::guest::{ADDRESS_WORD, PEER_WORD, ROLE_WORD, SERVER_ROLE};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// `-netdev stream` (docs: qemu-options).
const STREAM_SINCE: (u32, u32) = (7, 2);

/// The network card at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nic {
    VirtioNet,
    /// An emulated Intel 82540EM.
    E1000,
}

impl Nic {
    /// QEMU's device name.
    pub fn device(self, virtio: VirtioBus) -> String {
        match self {
            Nic::VirtioNet => format!("virtio-net-{}", virtio.suffix()),
            Nic::E1000 => "e1000".to_owned(),
        }
    }

    /// Its kernel module.
    pub const fn module(self) -> &'static str {
        match self {
            Nic::VirtioNet => "virtio_net",
            Nic::E1000 => "e1000",
        }
    }

    /// The kernel configuration option of the module.
    pub const fn option(self) -> &'static str {
        match self {
            Nic::VirtioNet => "CONFIG_VIRTIO_NET",
            Nic::E1000 => "CONFIG_E1000",
        }
    }
}

/// A machine's end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub end: LinkEnd,
    /// Its card.
    pub nic: Nic,
}

impl Link {
    /// The kernel command line words for the first process: its address, the other end's, and its role if it is the peer.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![
            format!("{ADDRESS_WORD}{}/{LINK_PREFIX}", self.end.address()),
            format!("{PEER_WORD}{}", self.end.other().address()),
        ];
        if self.end == LinkEnd::Server {
            words.push(format!("{ROLE_WORD}{SERVER_ROLE}"));
        }
        words
    }

    /// An empty `romfile` disables booting from the network, which only cards on PCI do.
    pub(super) fn arguments(&self, descriptor: i32, options: &str, virtio: VirtioBus) -> [[String; 2]; 2] {
        let mac = mac_of(self.end.address()).map(|byte| format!("{byte:02x}")).join(":");
        let options = if options.is_empty() { String::new() } else { format!(",{options}") };
        let device = self.nic.device(virtio);
        let rom = if virtio == VirtioBus::Pci { ",romfile=" } else { "" };
        [
            ["-netdev".to_owned(), format!("stream,id=link,addr.type=fd,addr.str={descriptor}")],
            ["-device".to_owned(), format!("{device},netdev=link,mac={mac}{rom}{options}")],
        ]
    }
}

/// Creates the link: its two ends.
///
/// # Errors
/// When QEMU is too old, or no descriptor is left.
pub fn link(chosen: &Chosen) -> Result<(OwnedFd, OwnedFd), Problem> {
    check_link(chosen)?;
    let pair = UnixStream::pair().map_err(|e| Problem::host("the link between two guests", e.to_string()))?;
    Ok((pair.0.into(), pair.1.into()))
}

/// Refuses a QEMU that is too old for the link.
///
/// # Errors
/// When its version is below 7.2.
pub fn check_link(chosen: &Chosen) -> Result<(), Problem> {
    let mut numbers = chosen.qemu_version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= STREAM_SINCE {
        return Ok(());
    }
    let why = format!(
        "the link between two guests needs -netdev stream, which QEMU has since 7.2; this is {}",
        chosen.qemu_version
    );
    Err(Problem::host("[guest] peer", why).hint("put a newer QEMU first in PATH, or use a workload in one guest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qemu_that_is_too_old_for_the_link_is_refused() {
        let of = |version: &str| {
            check_link(&Chosen {
                accel: "tcg",
                why: None,
                program: "/bin/qemu".into(),
                qemu_version: version.to_owned(),
                host_cpus: 2,
            })
        };
        for good in ["7.2.22", "7.2", "8.0.0", "10.0.0-rc1"] {
            assert_eq!(of(good), Ok(()), "{good}");
        }
        for bad in ["7.1.0", "6.2.0", "x"] {
            assert!(of(bad).is_err_and(|p| p.why.ends_with(&format!("this is {bad}"))), "{bad}");
        }
    }
}
