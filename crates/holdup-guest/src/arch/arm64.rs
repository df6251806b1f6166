//! arm64: QEMU's `virt`. It has one built-in port, the PL011 of the console; the second is a PCI device of the 8250 driver,
//! which Debian's kernels have built in (6.1 to 7.3).

use super::{Architecture, QemuPackages, SerialPort, VirtioBus};
use crate::image::elf::Machine;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    id: "arm64",
    machine: "aarch64",
    elf: Machine(183),
    triplet: "aarch64-linux-gnu",
    // GICv3 where it is emulated; under KVM what the host has. The default is GICv2, which ends at eight CPUs.
    board: "virt,gic-version=max",
    // QEMU's own pointer authentication replaces the architecture's algorithm, which dominates emulation.
    emulated_cpu: "max,pauth-impdef=on",
    is_strongly_ordered: false,
    kernel_words: &["console=ttyAMA0"],
    serial: Some(SerialPort { device: "ttyS0", arguments: ["-device", "pci-serial,chardev=channel"] }),
    virtio: VirtioBus::Pci,
    has_numa: true,
    packages: QemuPackages {
        debian: "qemu-system-arm",
        fedora: "qemu-system-aarch64-core",
        alpine: "qemu-system-aarch64",
    },
};
