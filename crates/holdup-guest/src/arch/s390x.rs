//! s390x: QEMU's `s390-ccw-virtio`. Its second console (`sclplmconsole`) passes lines of text and not every byte, so frames go
//! over a virtio port, which Debian's kernels drive by a module (6.1) or have built in (7.2).

use super::{Architecture, QemuPackages, VirtioBus};
use crate::image::elf::Machine;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    id: "s390x",
    machine: "s390x",
    elf: Machine(22),
    triplet: "s390x-linux-gnu",
    board: "s390-ccw-virtio",
    // Without vector instructions: with those of QEMU 7.2 the kernel computes wrong checksums (csum_partial of arch/s390/lib, which
    // takes them since 6.9), and nothing arrives over the link to a peer. Debian's kernels are for the z10, which has none.
    emulated_cpu: "max,vx=off,vxeh=off,vxeh2=off",
    // But for a load after a store to another place, as on x86-64 (TCG_GUEST_DEFAULT_MO in QEMU's target/s390x/cpu.h).
    is_strongly_ordered: true,
    // The full-screen console of the service processor, whose device is ttysclp0 (drivers/s390/char/sclp_vt220.c).
    kernel_words: &["console=ttyS1"],
    serial: None,
    virtio: VirtioBus::Ccw,
    has_numa: false,
    packages: QemuPackages {
        debian: "qemu-system-s390x or, up to Debian 12, qemu-system-misc",
        fedora: "qemu-system-s390x-core",
        alpine: "qemu-system-s390x",
    },
};
