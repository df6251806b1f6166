//! A kernel and a tiny initramfs for real boots under emulation.

use holdup_guest::arch::Architecture;
use holdup_guest::machine::{Chosen, Machine, MachineRequest, choose};
use holdup_kernels::{Cache, Kernel};
use holdup_model::guest::{Accelerator, Guest};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What a boot needs.
pub(crate) struct Bench {
    arch: &'static Architecture,
    kernel: PathBuf,
    folder: tempfile::TempDir,
    chosen: Chosen,
    init: Vec<u8>,
}

/// The bench of an architecture, or why there is none.
pub(crate) fn bench(arch: &'static Architecture) -> Result<Bench, String> {
    let kernel = kernel(arch)?;
    let guest = Guest { accel: Accelerator::Tcg, ..Guest::default() };
    let chosen = choose(&guest, arch).map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let init = folder.path().join("init");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/init.c");
    let compiler = if arch.is_hosts() { "cc".to_owned() } else { format!("{}-gcc", arch.triplet) };
    let compiled = Command::new(&compiler).args(["-static", "-O1", "-o"]).arg(&init).arg(source).output();
    let output = compiled.map_err(|e| format!("{compiler}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{compiler} -static: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let init = std::fs::read(init).map_err(|e| e.to_string())?;
    Ok(Bench { arch, kernel, folder, chosen, init })
}

/// The kernel that was added last to the cache, of those that drive the port for frames without a module.
fn kernel(arch: &Architecture) -> Result<PathBuf, String> {
    let named = std::env::var_os("HOLDUP_TEST_KERNEL").filter(|_| arch.is_hosts());
    if let Some(path) = named {
        return Ok(path.into());
    }
    let all = Cache::open(&Cache::default_root()).and_then(|cache| cache.list()).map_err(|e| e.to_string())?;
    let config = |kernel: &Kernel| kernel.config.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let has_port = |kernel: &Kernel| {
        arch.serial.is_some() || config(kernel).is_some_and(|text| text.contains("CONFIG_VIRTIO_CONSOLE=y\n"))
    };
    let fits = |kernel: &Kernel| kernel.arch == arch.machine && has_port(kernel);
    let newest = all.into_iter().filter(|e| fits(&e.kernel)).max_by_key(|e| e.fetched_unix_ns);
    newest.map(|e| e.kernel.image).ok_or_else(|| format!("the cache of holdup has no kernel for {}", arch.machine))
}

/// How one guest of a test is made.
pub(crate) struct Boot<'a> {
    /// What its first process does.
    pub(crate) what: &'a str,
    /// What it writes to the channel before.
    pub(crate) hello: &'a [u8],
    /// The longest silence.
    pub(crate) silence: Duration,
    /// The longest boot.
    pub(crate) boot: Duration,
    /// The machine.
    pub(crate) guest: Guest,
}

impl Boot<'_> {
    /// Two CPUs, 256 MiB, and more patience than a busy machine needs.
    pub(crate) fn of<'a>(what: &'a str, hello: &'a [u8]) -> Boot<'a> {
        let guest = Guest { cpus: 2, memory_bytes: 256 << 20, accel: Accelerator::Tcg, ..Guest::default() };
        Boot { what, hello, silence: Duration::from_secs(120), boot: Duration::from_secs(300), guest }
    }
}

impl Bench {
    /// What becomes of a file that should be a kernel.
    pub(crate) fn try_start(&self, kernel: &str) -> Result<Machine, holdup_model::Problem> {
        let initramfs = self.folder.path().join("none.cpio");
        std::fs::write(&initramfs, archive(&[])).unwrap();
        let boot = Boot::of("none", b"");
        let request = MachineRequest {
            kernel: Path::new(kernel),
            initramfs: &initramfs,
            guest: &boot.guest,
            command_line: "",
            arch: self.arch,
            virtio_console: false,
            folder: self.folder.path(),
            silence: boot.silence,
            link: None,
        };
        Machine::start(&request, &self.chosen)
    }

    /// Starts a guest.
    pub(crate) fn start(&self, boot: &Boot<'_>) -> Machine {
        let initramfs = self.folder.path().join(format!("{}.cpio", boot.what));
        let files = [("hello", 0o100_644, boot.hello), ("init", 0o100_755, &self.init)];
        std::fs::write(&initramfs, archive(&files)).unwrap();
        let boot_timeout_ns = boot.boot.as_nanos().try_into().unwrap();
        let guest = Guest { boot_timeout_ns, ..boot.guest.clone() };
        let request = MachineRequest {
            kernel: &self.kernel,
            initramfs: &initramfs,
            guest: &guest,
            command_line: &format!("holdup.try={}", boot.what),
            arch: self.arch,
            virtio_console: false,
            folder: self.folder.path(),
            silence: boot.silence,
            link: None,
        };
        Machine::start(&request, &self.chosen).unwrap()
    }
}

/// A newc archive, as Documentation/driver-api/early-userspace/buffer-format.rst of the kernel describes it.
fn archive(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (inode, (name, mode, bytes)) in files.iter().chain([&("TRAILER!!!", 0, &b""[..])]).enumerate() {
        let numbers = [inode + 1, *mode as usize, 0, 0, 1, 0, bytes.len(), 0, 0, 0, 0, name.len() + 1, 0];
        all.extend_from_slice(b"070701");
        all.extend(numbers.iter().flat_map(|n| format!("{n:08x}").into_bytes()));
        all.extend_from_slice(name.as_bytes());
        all.push(0);
        all.resize(all.len().next_multiple_of(4), 0);
        all.extend_from_slice(bytes);
        all.resize(all.len().next_multiple_of(4), 0);
    }
    all
}
