//! Chooses QEMU and its accelerator: the host's CPUs (KVM) or emulated ones (TCG).

use super::qmp::Qmp;
use super::spawn;
use crate::arch::{Architecture, QemuPackages};
use holdup_host::Host;
use holdup_model::guest::{Accelerator, Guest};
use holdup_model::{Problem, ProblemKind};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The state of KVM on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kvm {
    /// A machine could be created.
    Works,
    /// It is not usable, with the reason.
    Fails(String),
    /// Emulation was requested.
    NotTried,
}

/// The means to run guests on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// QEMU for the guest's architecture.
    pub program: PathBuf,
    /// `7.2.22`.
    pub qemu_version: String,
    pub kvm: Kvm,
    /// CPUs in the affinity mask of this process.
    pub host_cpus: u32,
}

/// The choice for a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// `kvm` or `tcg`.
    pub accel: &'static str,
    /// The reason against KVM; `None` under KVM, and when emulation was requested.
    pub why: Option<String>,
    /// QEMU for the guest's architecture.
    pub program: PathBuf,
    /// `7.2.22`.
    pub qemu_version: String,
    /// CPUs in the affinity mask of this process.
    pub host_cpus: u32,
}

impl Chosen {
    /// True if the guest's CPUs are emulated.
    pub fn is_emulated(&self) -> bool {
        self.accel == "tcg"
    }
}

/// Finds QEMU and, unless TCG is wanted, tries KVM: /dev/kvm, `KVM_CREATE_VM`, and QEMU with `-accel kvm`.
///
/// # Errors
/// When there is no QEMU for the architecture (with the package to install), or it does not start.
pub fn probe(arch: &Architecture, wanted: Accelerator) -> Result<Availability, Problem> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let program = find_program(arch, std::env::split_paths(&folders)).ok_or_else(|| missing(arch))?;
    let qemu_version = version_of(&program)?;
    let kvm = match wanted {
        Accelerator::Tcg => Kvm::NotTried,
        _ => {
            let start = |_: &Path| starts_with(&program, arch, "kvm");
            try_kvm(arch.machine, std::env::consts::ARCH, Path::new("/dev/kvm"), start)
        }
    };
    let host_cpus = holdup_host::machine(&Host::real()).cpus;
    Ok(Availability { program, qemu_version, kvm, host_cpus })
}

/// Chooses how to run a guest on this host.
pub fn choose(guest: &Guest, arch: &Architecture) -> Result<Chosen, Problem> {
    decide(guest.accel, probe(arch, guest.accel)?)
}

/// Chooses how to run a guest with what [`probe`] found.
///
/// # Errors
/// When KVM is required and does not work.
pub fn decide(wanted: Accelerator, there: Availability) -> Result<Chosen, Problem> {
    let Availability { program, qemu_version, kvm, host_cpus } = there;
    let (accel, why) = match (wanted, kvm) {
        (Accelerator::Tcg, _) => ("tcg", None),
        (_, Kvm::Works) => ("kvm", None),
        (Accelerator::Kvm, Kvm::Fails(why)) => {
            return Err(Problem::host("accel kvm", why).hint("use auto or tcg (emulation, without absolute times)"));
        }
        (Accelerator::Kvm, Kvm::NotTried) => return Err(Problem::internal("accel kvm", "KVM was not tried")),
        (Accelerator::Auto, Kvm::Fails(why)) => ("tcg", Some(why)),
        (Accelerator::Auto, Kvm::NotTried) => ("tcg", Some("KVM was not tried".to_owned())),
    };
    Ok(Chosen { accel, why, program, qemu_version, host_cpus })
}

fn find_program(arch: &Architecture, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let in_path = folders.map(|f| f.join(format!("qemu-system-{}", arch.machine)));
    // Red Hat's distributions have theirs, for the host's architecture, outside of PATH.
    let own = arch.is_hosts().then(|| PathBuf::from("/usr/libexec/qemu-kvm"));
    in_path.chain(own).find(|p| p.is_file())
}

fn missing(arch: &Architecture) -> Problem {
    let QemuPackages { debian, fedora, alpine } = arch.packages;
    let hint = format!(
        "install {debian} (Debian, Ubuntu), {fedora} (Fedora), qemu-kvm (RHEL, for its own architecture), {alpine} \
         (Alpine, Arch)"
    );
    Problem::host(format!("qemu-system-{}", arch.machine), "it is not in PATH").hint(hint)
}

fn version_of(program: &Path) -> Result<String, Problem> {
    let what = || program.display().to_string();
    let output = Command::new(program).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Problem::host(what(), e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    version(&text).ok_or_else(|| {
        let said = format!("{} {}", text.trim(), String::from_utf8_lossy(&output.stderr).trim());
        Problem::host(what(), format!("--version gives no version: `{}`", said.trim()))
    })
}

/// The version in `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)`.
fn version(text: &str) -> Option<String> {
    let word = text.strip_prefix("QEMU")?.split_once("version ")?.1.split_whitespace().next()?;
    word.starts_with(|c: char| c.is_ascii_digit()).then(|| word.trim_end_matches(',').to_owned())
}

/// `KVM_GET_API_VERSION` and `KVM_CREATE_VM` of include/uapi/linux/kvm.h: `_IO(0xAE, 0)` and `_IO(0xAE, 1)`.
const KVM_GET_API_VERSION: libc::Ioctl = 0xAE00;
const KVM_CREATE_VM: libc::Ioctl = 0xAE01;

fn try_kvm(arch: &str, host_arch: &str, device: &Path, start: impl FnOnce(&Path) -> Result<(), String>) -> Kvm {
    if arch != host_arch {
        return Kvm::Fails(format!("the guest is {arch} and the host {host_arch}"));
    }
    let name = device.display();
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(device) {
        Ok(file) => file,
        Err(e) => {
            let way = match e.kind() {
                std::io::ErrorKind::NotFound => " (no KVM in this kernel, or no virtualization in this CPU)",
                std::io::ErrorKind::PermissionDenied => " (it belongs to the group kvm)",
                _ => "",
            };
            return Kvm::Fails(format!("{name}: {}{way}", reason(&e)));
        }
    };
    // SAFETY: both take an integer and return an integer or a descriptor, which is closed below.
    let made = unsafe {
        let version = libc::ioctl(file.as_raw_fd(), KVM_GET_API_VERSION, 0);
        if version < 0 {
            return Kvm::Fails(format!("{name}: no KVM: {}", reason(&std::io::Error::last_os_error())));
        }
        let machine = libc::ioctl(file.as_raw_fd(), KVM_CREATE_VM, 0);
        let error = std::io::Error::last_os_error();
        if machine >= 0 {
            libc::close(machine);
        }
        (machine >= 0).then_some(()).ok_or(error)
    };
    drop(file);
    if let Err(e) = made {
        return Kvm::Fails(format!("{name} opens, but KVM_CREATE_VM fails: {}", reason(&e)));
    }
    match start(device) {
        Ok(()) => Kvm::Works,
        Err(why) => Kvm::Fails(format!("{name} opens, but QEMU does not start with it: {why}")),
    }
}

/// A system error without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Whether QEMU starts with an accelerator: a small machine, whose CPU stays paused, that `quit` ends. Without a CPU it would
/// also start where KVM rejects the CPU's state (a nested host that refuses a register).
fn starts_with(program: &Path, arch: &Architecture, accel: &'static str) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_secs(20);
    let (ours, theirs) = UnixStream::pair().map_err(|e| reason(&e))?;
    let monitor = format!("socket,id=monitor,fd={}", theirs.as_raw_fd());
    let words = ["-nodefaults", "-no-user-config", "-display", "none", "-accel", accel, "-M", arch.board];
    let small = ["-cpu", arch.cpu_model(accel), "-smp", "1", "-m", "64", "-S", "-chardev", monitor.as_str()];
    let words = words.into_iter().chain(small).chain(["-mon", "chardev=monitor,mode=control"]);
    let program = spawn::Program {
        file: program.to_owned(),
        arguments: words.map(Into::into).collect(),
        folder: "/".into(),
        inherited: vec![theirs.into()],
    };
    let mut child = spawn::Guarded::new(spawn::spawn(program).map_err(|e| reason(&e))?);
    let asked = Qmp::connect(ours, LIMIT).and_then(|mut qmp| qmp.execute("quit", LIMIT));
    let ended = child.wait(LIMIT).ok().flatten();
    // Ended in any case, so that its standard error can be read.
    let _status = child.kill();
    if asked.is_ok() && ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let mut said = Vec::new();
    if let Some(stderr) = child.take_stderr() {
        let _read = stderr.take(64 << 10).read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    Err(match (said.is_empty(), ended, asked) {
        (false, ..) => said.join("; "),
        (true, Some(status), _) => status.to_string(),
        (true, None, Err(e)) => reason(&e),
        (true, None, Ok(_)) => "it does not end after `quit`".to_owned(),
    })
}

/// QEMU's memory beside the guest's, with translated code (TCG reserves up to 1 GiB of address space for it, and a boot fills a
/// fraction).
const OVERHEAD_BYTES: u64 = 256 << 20;

/// Refuses a guest that does not fit into the host's memory, before the OOM killer decides.
///
/// # Errors
/// When MemAvailable of /proc/meminfo is less than the need of guest and QEMU; names both.
pub fn check_memory(host: &Host, guest: &Guest) -> Result<(), Problem> {
    let Some(available) = host.read_text("/proc/meminfo").ok().and_then(|text| available_bytes(&text)) else {
        // Kernels before 3.14 have no MemAvailable.
        return Ok(());
    };
    let each = guest.memory_bytes.saturating_add(OVERHEAD_BYTES);
    let needed = each.saturating_mul(u64::from(guest.machines()));
    if needed <= available {
        return Ok(());
    }
    let with = if guest.peer { ", with a peer of the same size" } else { "" };
    let what = format!("a guest with {} MiB of memory{with}", guest.memory_bytes >> 20);
    let why = format!("it needs {} MiB with QEMU, and the host has {} MiB available", needed >> 20, available >> 20);
    Err(Problem::new(ProblemKind::Host, what, why).hint("lessen [guest] memory, or end something else"))
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    fn amd64() -> &'static Architecture {
        crate::arch::find("amd64").unwrap()
    }

    fn there(kvm: Kvm) -> Availability {
        Availability { program: "/bin/qemu".into(), qemu_version: "7.2.22".into(), kvm, host_cpus: 2 }
    }

    #[test]
    fn kvm_if_it_works_else_emulation_with_the_reason() {
        let fails = || Kvm::Fails("/dev/kvm: permission denied".to_owned());
        let of = |wanted, kvm| decide(wanted, there(kvm)).map(|c| (c.accel, c.why));
        let why = Some("/dev/kvm: permission denied".to_owned());
        assert_eq!(of(Accelerator::Auto, Kvm::Works), Ok(("kvm", None)));
        assert_eq!(of(Accelerator::Auto, fails()), Ok(("tcg", why)));
        assert_eq!(of(Accelerator::Kvm, Kvm::Works), Ok(("kvm", None)));
        assert_eq!(of(Accelerator::Tcg, Kvm::Works), Ok(("tcg", None)));
        assert_eq!(of(Accelerator::Tcg, Kvm::NotTried), Ok(("tcg", None)));
        let error = of(Accelerator::Kvm, fails()).unwrap_err();
        assert_eq!((error.kind, error.why.as_str()), (ProblemKind::Host, "/dev/kvm: permission denied"));
        assert!(error.hint.is_some());
    }

    #[test]
    fn each_failure_of_kvm_is_named() {
        let never = |_: &Path| -> Result<(), String> { panic!("QEMU is not started before the device works") };
        let why = |kvm| match kvm {
            Kvm::Fails(why) => why,
            other => panic!("{other:?}"),
        };
        let other = why(try_kvm("aarch64", "x86_64", Path::new("/nowhere"), never));
        assert_eq!(other, "the guest is aarch64 and the host x86_64");
        let absent = why(try_kvm("x86_64", "x86_64", Path::new("/nowhere/kvm"), never));
        assert!(absent.starts_with("/nowhere/kvm: no such file or directory (no KVM in this kernel"), "{absent}");
        let wrong = why(try_kvm("x86_64", "x86_64", Path::new("/dev/null"), never));
        assert!(wrong.starts_with("/dev/null: no KVM: inappropriate ioctl for device"), "{wrong}");
    }

    #[test]
    fn versions_of_distributions_are_read() {
        let of = |text| version(text);
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright (c) 2003-2022\n";
        assert_eq!(of(debian).as_deref(), Some("7.2.22"));
        assert_eq!(of("QEMU emulator version 10.0.0 (qemu-kvm-10.0.0-14.el10)").as_deref(), Some("10.0.0"));
        assert_eq!(of("QEMU emulator version 0.9.1, Copyright (c)").as_deref(), Some("0.9.1"));
        assert_eq!(of("QEMU emulator version"), None);
        assert_eq!(of("QEMU: version mismatch"), None);
        assert_eq!(of("true (GNU coreutils) version 9.1"), None);
    }

    #[test]
    fn the_package_to_install_is_named() {
        assert_eq!(find_program(amd64(), ["/nowhere".into()].into_iter()).filter(|p| p.starts_with("/nowhere")), None);
        let problem = missing(crate::arch::find("arm64").unwrap());
        assert_eq!(problem.to_string().lines().next(), Some("qemu-system-aarch64: it is not in PATH"));
        assert!(problem.hint.unwrap().contains("qemu-system-arm (Debian"));
        assert!(missing(amd64()).hint.unwrap().contains("qemu-system-x86 (Debian"));
    }

    #[test]
    fn a_program_that_is_not_qemu_is_refused() {
        let error = version_of(Path::new("/bin/true")).unwrap_err();
        assert_eq!(error.what, "/bin/true");
        assert!(error.why.starts_with("--version gives no version"), "{error}");
        assert!(starts_with(Path::new("/bin/false"), amd64(), "tcg").is_err());
    }

    #[test]
    #[ignore = "needs QEMU"]
    fn qemu_is_tried_with_an_accelerator() {
        let program = probe(amd64(), Accelerator::Tcg).unwrap().program;
        assert_eq!(starts_with(&program, amd64(), "tcg"), Ok(()));
        let why = starts_with(&program, amd64(), "nothing").unwrap_err();
        assert!(why.contains("nothing"), "{why}");
    }

    #[test]
    fn too_little_memory_names_both_sizes() {
        let host = MemoryFs::of(&[("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    3145728 kB\n")]).host();
        let guest = |mib: u64| Guest { memory_bytes: mib << 20, ..Guest::default() };
        assert_eq!(check_memory(&host, &guest(3072 - 256)), Ok(()));
        let error = check_memory(&host, &guest(3072)).unwrap_err();
        assert_eq!(error.why, "it needs 3328 MiB with QEMU, and the host has 3072 MiB available");
        let peer = Guest { peer: true, ..guest(1536 - 255) };
        assert_eq!(check_memory(&host, &Guest { memory_bytes: (1536 - 256) << 20, ..peer.clone() }), Ok(()));
        let error = check_memory(&host, &peer).unwrap_err();
        assert!(error.what.ends_with("with a peer of the same size"), "{error}");
        assert_eq!(error.why, "it needs 3074 MiB with QEMU, and the host has 3072 MiB available");
        assert_eq!(check_memory(&MemoryFs::of(&[]).host(), &guest(u64::MAX >> 20)), Ok(()));
    }
}
