//! A kernel and a tiny initramfs for real boots under emulation.

use holdup_guest::machine::{Chosen, Machine, MachineRequest, choose};
use holdup_model::guest::{Accelerator, Guest};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What a boot needs.
pub(crate) struct Bench {
    kernel: PathBuf,
    folder: tempfile::TempDir,
    chosen: Chosen,
    init: Vec<u8>,
}

/// The bench, or why there is none.
pub(crate) fn bench() -> Result<Bench, String> {
    let kernel = kernel()?;
    let guest = Guest { accel: Accelerator::Tcg, ..Guest::default() };
    let chosen = choose(&guest, "x86_64").map_err(|e| e.to_string())?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let init = folder.path().join("init");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/init.c");
    let compiled = Command::new("cc").args(["-static", "-O1", "-o"]).arg(&init).arg(source).output();
    let output = compiled.map_err(|e| format!("cc: {e}"))?;
    if !output.status.success() {
        return Err(format!("cc -static: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let init = std::fs::read(init).map_err(|e| e.to_string())?;
    Ok(Bench { kernel, folder, chosen, init })
}

fn kernel() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("HOLDUP_TEST_KERNEL") {
        return Ok(path.into());
    }
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => return Err("neither HOLDUP_TEST_KERNEL nor HOME is set".to_owned()),
    };
    let mut found = Vec::new();
    find(&cache.join("holdup/kernels"), 6, &mut found);
    found.sort();
    let newest = found.pop().map(|(_, path)| path);
    newest.ok_or_else(|| "HOLDUP_TEST_KERNEL names no vmlinuz, and the cache of holdup has none".to_owned())
}

fn find(folder: &Path, depth: u32, found: &mut Vec<(std::time::SystemTime, PathBuf)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && depth > 0 {
            find(&path, depth - 1, found);
        } else if metadata.is_file() && name.to_string_lossy().starts_with("vmlinuz") {
            found.push((metadata.modified().unwrap(), path));
        }
    }
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
            arch: "x86_64",
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
            arch: "x86_64",
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
