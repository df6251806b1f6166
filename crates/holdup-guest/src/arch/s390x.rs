//! s390x: QEMU's `s390-ccw-virtio`. Its second console (`sclplmconsole`) passes lines of text and not every byte, so frames go
//! over a virtio port, which Debian's kernels have built in (6.1 to 7.2).

use super::{Architecture, QemuPackages, VirtioBus};
use crate::image::elf::Machine;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    id: "s390x",
    machine: "s390x",
    elf: Machine(22),
    triplet: "s390x-linux-gnu",
    board: "s390-ccw-virtio",
    emulated_cpu: "max",
    // But for a load after a store to another place, as on x86-64 (TCG_GUEST_DEFAULT_MO in QEMU's target/s390x/cpu.h).
    is_strongly_ordered: true,
    // The full-screen console of the service processor, whose device is ttysclp0 (drivers/s390/char/sclp_vt220.c).
    kernel_words: &["console=ttyS1"],
    serial: None,
    virtio: VirtioBus::Ccw,
    has_numa: false,
    packages: QemuPackages {
        debian: "qemu-system-misc",
        fedora: "qemu-system-s390x-core",
        alpine: "qemu-system-s390x",
    },
};
