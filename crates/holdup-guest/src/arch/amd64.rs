//! x86-64: QEMU's `q35`, whose two serial ports are ttyS0 and ttyS1.

use super::{Architecture, QemuPackages, SerialPort, VirtioBus};
use crate::image::elf::Machine;

pub(super) static ARCHITECTURE: Architecture = Architecture {
    id: "amd64",
    machine: "x86_64",
    elf: Machine(62),
    triplet: "x86_64-linux-gnu",
    board: "q35",
    emulated_cpu: "max",
    is_strongly_ordered: true,
    // - `reboot=t` restarts by a triple fault, without firmware.
    // - `no_timer_check`: an emulated timer is late on a busy host, and the check would panic (`check_timer` in
    //   arch/x86/kernel/apic/io_apic.c).
    // - `tsc=reliable`: on a busy host the clock watchdog would distrust the emulated TSC and switch to the HPET during a trial,
    //   where each read is a VM exit (`clocksource_watchdog` in kernel/time/clocksource.c).
    kernel_words: &["console=ttyS0", "reboot=t", "no_timer_check", "tsc=reliable"],
    serial: Some(SerialPort { device: "ttyS1", arguments: ["-serial", "chardev:channel"] }),
    virtio: VirtioBus::Pci,
    has_numa: true,
    packages: QemuPackages { debian: "qemu-system-x86", fedora: "qemu-system-x86-core", alpine: "qemu-system-x86_64" },
};
