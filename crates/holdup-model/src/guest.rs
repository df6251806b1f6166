//! Guests: virtual machines that trials run in, as a plan describes them.

use crate::environment::Machine;
use serde::{Deserialize, Serialize};

/// The factor that names the kernel of a guest: `debian:7.0`, `file:PATH`, `build:…`, `host`.
pub const KERNEL: &str = "kernel";
/// The factor that names the PostgreSQL of a guest: `host`, `deb:17`, a folder with programs.
pub const POSTGRES_SERVER: &str = "postgres-server";
/// The factor that names the host of a trial, where trials run on other hosts: `db1`, `user@db2`.
pub const HOST: &str = "host";
/// The level of `kernel` and of `postgres-server` that means what this host has.
pub const OF_HOST: &str = "host";
/// What stands before the version in a level of `postgres-server` that means Debian's packages.
pub const PACKAGED: &str = "deb:";
/// What the names of factors begin with that stand on the kernel's command line: `boot.preempt`.
pub const BOOT_PREFIX: &str = "boot.";
/// The level of a `boot.` factor that leaves it out of the command line.
pub const BOOT_DEFAULT: &str = "default";

/// On the kernel's command line: the address of the guest's card, as `10.77.0.1/24`.
pub const ADDRESS_WORD: &str = "holdup.address=";
/// On the kernel's command line: the address of the machine at the other end of the link.
pub const PEER_WORD: &str = "holdup.peer=";
/// On the kernel's command line: what a guest is, where it is not the one that trials run in.
pub const ROLE_WORD: &str = "holdup.role=";
/// The role of a peer.
pub const SERVER_ROLE: &str = "server";
/// The TCP port at which a peer takes orders.
pub const PEER_PORT: u16 = 7077;
/// True if a factor of this name is chosen when a session opens (a guest boots, a host is connected to), and not while
/// it runs.
pub fn is_chosen_at_boot(factor: &str) -> bool {
    factor == KERNEL || factor == POSTGRES_SERVER || factor == HOST || factor.starts_with(BOOT_PREFIX)
}

/// What a guest's CPUs are, in Debian's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestArch {
    /// What the host's are.
    #[default]
    Host,
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
    /// IBM Z.
    S390x,
}

impl GuestArch {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            GuestArch::Host => "host",
            GuestArch::Amd64 => "amd64",
            GuestArch::Arm64 => "arm64",
            GuestArch::S390x => "s390x",
        }
    }

    /// True if it is left to the host.
    pub fn is_host(&self) -> bool {
        *self == GuestArch::Host
    }
}

/// How the guest's CPUs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// KVM where it works, else emulation, with the reason.
    #[default]
    Auto,
    /// The host's CPUs, by KVM; an error where that does not work.
    Kvm,
    /// Emulation by QEMU (TCG).
    Tcg,
}

/// What the console, the channel and the disk are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// virtio where the kernel has it built in, else emulated.
    #[default]
    Auto,
    /// virtio; an error where the kernel has none.
    Virtio,
    /// Emulated hardware: serial ports.
    Emulated,
}

/// The machine that each boot of a run gets: `[guest]` of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guest {
    /// CPUs.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// NUMA nodes, which share CPUs and memory evenly; 1 for none.
    pub numa_nodes: u32,
    /// Pages of the default huge size reserved at boot (`hugepages=`); `None` leaves it to the kernel.
    pub hugepages: Option<u32>,
    /// What is added to the kernel's command line.
    pub append: String,
    /// What its CPUs are.
    #[serde(default, skip_serializing_if = "GuestArch::is_host")]
    pub arch: GuestArch,
    /// The path of holdup built for `arch`, which becomes the guest's first process; empty for the running one, or one beside it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// How its CPUs are made.
    pub accel: Accelerator,
    /// The host's CPUs that its CPUs are pinned to, in turn; empty for none.
    pub pin: Vec<u32>,
    /// virtio or emulated devices.
    pub devices: Devices,
    /// The longest that a boot may take until its first message, ns.
    pub boot_timeout_ns: u64,
    /// True if each boot starts a second machine of the same kernel, image and shape, linked with the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peer: bool,
    /// What is added to QEMU's `-device` argument of both ends of the link, as `NAME=VALUE,NAME=VALUE`; empty for
    /// nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nic_options: String,
}

impl Default for Guest {
    fn default() -> Self {
        Guest {
            cpus: 4,
            memory_bytes: 3 << 30,
            numa_nodes: 1,
            hugepages: None,
            append: String::new(),
            arch: GuestArch::Host,
            program: String::new(),
            accel: Accelerator::Auto,
            pin: Vec::new(),
            devices: Devices::Auto,
            boot_timeout_ns: 180_000_000_000,
            peer: false,
            nic_options: String::new(),
        }
    }
}

impl Guest {
    /// The machines that each boot starts.
    pub fn machines(&self) -> u32 {
        1 + u32::from(self.peer)
    }

    /// The machine beside it: the same, but that its CPUs take the host's in turn from where this one's end, and that it
    /// has no peer.
    pub fn beside(&self) -> Guest {
        let mut pin = self.pin.clone();
        if !pin.is_empty() {
            let taken = self.cpus as usize % pin.len();
            pin.rotate_left(taken);
        }
        Guest { pin, peer: false, ..self.clone() }
    }

    /// What relative sizes in a plan are relative to when its trials run in this guest.
    pub fn machine(&self) -> Machine {
        Machine { cpus: self.cpus, memory_bytes: self.memory_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_takes_the_next_cpus_of_the_host() {
        let pins = |cpus, pin: &[u32]| Guest { cpus, pin: pin.to_vec(), ..Guest::default() }.beside().pin;
        assert_eq!(pins(2, &[0, 1, 2, 3]), [2, 3, 0, 1]);
        assert_eq!(pins(2, &[0, 1]), [0, 1]);
        assert_eq!(pins(3, &[4, 5]), [5, 4]);
        assert!(pins(3, &[]).is_empty());
    }

    #[test]
    fn a_guest_of_defaults_is_written_as_before_there_were_others() {
        let text = serde_json::to_string(&Guest::default()).expect("JSON");
        assert!(!["peer", "nic_options", "arch", "program"].iter().any(|key| text.contains(key)), "{text}");
        assert_eq!(serde_json::from_str::<Guest>(&text).expect("a guest"), Guest::default());
    }
}
