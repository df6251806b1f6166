//! What differs between the architectures of guests: a file for each.

mod amd64;
mod arm64;
mod s390x;

use crate::image::elf::Machine;
use holdup_model::Problem;
use holdup_model::guest::GuestArch;
use std::path::{Path, PathBuf};

/// An architecture that guests can have.
#[derive(Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its name in Debian's words, as a plan has it.
    pub id: &'static str,
    /// As `uname -m` prints it.
    pub machine: &'static str,
    /// In the header of an ELF file.
    pub elf: Machine,
    /// The GNU triplet, which names folders of libraries.
    pub triplet: &'static str,
    /// QEMU's machine type.
    pub board: &'static str,
    /// QEMU's CPU model where it emulates.
    pub emulated_cpu: &'static str,
    /// True if its CPUs see each other's stores in order, so that only a host of the same kind can emulate several at the same time.
    pub is_strongly_ordered: bool,
    /// What its machine needs on the kernel's command line.
    pub kernel_words: &'static [&'static str],
    /// The serial port for frames, where its machine has a second one.
    pub serial: Option<SerialPort>,
    /// What virtio devices sit on.
    pub virtio: VirtioBus,
    /// True if its machine can have NUMA nodes.
    pub has_numa: bool,
    /// QEMU's packages.
    pub packages: QemuPackages,
}

/// A serial port beside the console's.
#[derive(Debug, PartialEq, Eq)]
pub struct SerialPort {
    /// Its name below /dev.
    pub device: &'static str,
    /// How QEMU gets it.
    pub arguments: [&'static str; 2],
}

/// What virtio devices sit on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VirtioBus {
    Pci,
    /// The channel subsystem of s390x.
    Ccw,
}

impl VirtioBus {
    /// What the names of QEMU's devices on it end with.
    pub const fn suffix(self) -> &'static str {
        match self {
            VirtioBus::Pci => "pci",
            VirtioBus::Ccw => "ccw",
        }
    }

    /// The option of the kernel's configuration that drives it, and the module that this may be.
    pub const fn driver(self) -> (&'static str, &'static str) {
        match self {
            VirtioBus::Pci => ("CONFIG_VIRTIO_PCI", "virtio_pci"),
            // No module (drivers/s390/virtio/Makefile, 7.2).
            VirtioBus::Ccw => ("CONFIG_S390_GUEST", "virtio_ccw"),
        }
    }
}

/// The names of QEMU's package.
#[derive(Debug, PartialEq, Eq)]
pub struct QemuPackages {
    /// Debian and Ubuntu.
    pub debian: &'static str,
    pub fedora: &'static str,
    /// Alpine and Arch.
    pub alpine: &'static str,
}

pub static ALL: &[&Architecture] = &[&amd64::ARCHITECTURE, &arm64::ARCHITECTURE, &s390x::ARCHITECTURE];

/// The architecture with a name, Debian's or that of `uname -m`.
pub fn find(name: &str) -> Option<&'static Architecture> {
    ALL.iter().find(|known| known.id == name || known.machine == name).copied()
}

/// The architecture of the programs that an ELF file is for.
pub(crate) fn of_elf(machine: Machine) -> Option<&'static Architecture> {
    ALL.iter().find(|known| known.elf == machine).copied()
}

/// The architecture that a plan's guests have.
///
/// # Errors
/// When it is left to the host, and holdup boots no guests of the host's.
pub fn of(arch: GuestArch) -> Result<&'static Architecture, Problem> {
    let host = std::env::consts::ARCH;
    find(if arch.is_host() { host } else { arch.word() }).ok_or_else(|| {
        let ids: Vec<&str> = ALL.iter().map(|known| known.id).collect();
        let why = format!("guests are {}", ids.join(", "));
        Problem::usage(format!("guest.arch = host, {host}"), why).hint("guest.arch=arm64 emulates one")
    })
}

impl Architecture {
    /// True if this host has it too.
    pub fn is_hosts(&self) -> bool {
        self.machine == std::env::consts::ARCH
    }

    /// QEMU's CPU model: the host's under KVM.
    pub fn cpu_model(&self, accel: &str) -> &'static str {
        if accel == "kvm" { "host" } else { self.emulated_cpu }
    }

    /// True if an emulator on this host can have a thread for each CPU.
    pub(crate) fn has_parallel_emulation(&self) -> bool {
        !self.is_strongly_ordered || find(std::env::consts::ARCH).is_some_and(|host| host.is_strongly_ordered)
    }

    /// The agent's device for frames: the value of `holdup.channel` on the kernel's command line.
    ///
    /// `port:holdup.agent` is the virtio port of that name (found by `name` below /sys/class/virtio-ports); other values are
    /// serial ports below /dev, which the agent sets to raw.
    pub fn channel(&self, virtio_console: bool) -> &'static str {
        match &self.serial {
            Some(port) if !virtio_console => port.device,
            _ => "port:holdup.agent",
        }
    }

    /// holdup for this architecture: the named program, else the running one, else `holdup-ID` beside it.
    ///
    /// # Errors
    /// When there is no such program, or it is for another architecture.
    pub fn program(&self, named: &str) -> Result<PathBuf, Problem> {
        let own = || std::env::current_exe().map_err(|e| Problem::internal("the path of holdup itself", e.to_string()));
        let id = self.id;
        let path = match named {
            "" if self.is_hosts() => return own(),
            "" => own()?.with_file_name(format!("holdup-{id}")),
            named => PathBuf::from(named),
        };
        self.check_program(&path).map_err(|why| {
            let begin = format!("`script/build --arch {id}` builds it");
            let end = match named {
                "" => "; copy it there, or name it with guest.program=PATH",
                _ => "",
            };
            Problem::host(format!("holdup for guests of {id}, {}", path.display()), why).hint(format!("{begin}{end}"))
        })?;
        Ok(path)
    }

    fn check_program(&self, path: &Path) -> Result<(), String> {
        let elf = crate::image::elf::of_file(path)?;
        match elf.machine == self.elf {
            true => Ok(()),
            false => Err(format!("it is for {}, the guest is {}", elf.machine, self.elf)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_an_architecture_find_it() {
        for (debian, machine) in [("amd64", "x86_64"), ("arm64", "aarch64"), ("s390x", "s390x")] {
            assert_eq!(find(debian).map(|found| found.machine), Some(machine));
            assert_eq!(find(machine).map(|found| found.id), Some(debian));
        }
        assert_eq!(find("riscv64"), None);
        assert_eq!(of(GuestArch::Arm64).map(|found| found.id), Ok("arm64"));
        for known in ALL {
            assert_eq!(of_elf(known.elf), Some(*known));
        }
    }

    #[test]
    fn a_program_for_another_architecture_is_refused() {
        let foreign = ALL.iter().find(|known| !known.is_hosts()).expect("one that this host has not");
        let own = std::env::current_exe().expect("this test");
        let problem = foreign.program(&own.to_string_lossy()).unwrap_err();
        assert!(problem.why.contains("the guest is"), "{problem}");
        assert!(problem.hint.is_some_and(|hint| hint.contains(&format!("--arch {}", foreign.id))));
        let missing = foreign.program("").unwrap_err();
        assert!(missing.what.ends_with(&format!("holdup-{}", foreign.id)), "{missing}");
        assert!(missing.hint.is_some_and(|hint| hint.contains("guest.program=PATH")));
        let hosts = ALL.iter().find(|known| known.is_hosts());
        assert!(hosts.is_none_or(|host| host.program("") == Ok(own.clone()) && host.program("/nowhere").is_err()));
    }
}
