//! The first process of a guest: it mounts file systems, loads modules, starts the agent, reaps orphans, and resets the
//! machine.
//!
//! The first process only waits; the agent is its child. So reaping an orphan cannot take an exit status that the agent waits
//! for, and the death of the agent is reported on the console.

use holdup_host::network::{Wired, mac_of};
use holdup_model::guest::{ADDRESS_WORD, PEER_WORD, ROLE_WORD, SERVER_ROLE};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, WaitOptions};
use rustix::system::RebootCommand;
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The modules of an image, named in the order of loading.
const MODULES: &str = "/lib/modules/holdup";

/// Printed on the console when the agent dies; the host searches for it.
pub const AGENT_DIED: &str = "holdup: the agent died";

struct Mount {
    source: &'static str,
    target: &'static str,
    kind: &'static str,
    options: &'static str,
    /// A kernel without it needs no note.
    optional: bool,
}

const fn plain(source: &'static str, target: &'static str, kind: &'static str) -> Mount {
    Mount { source, target, kind, options: "", optional: false }
}

const MOUNTS: &[Mount] = &[
    plain("proc", "/proc", "proc"),
    plain("sysfs", "/sys", "sysfs"),
    plain("devtmpfs", "/dev", "devtmpfs"),
    Mount { optional: true, ..plain("devpts", "/dev/pts", "devpts") },
    // The default size is half of the memory; parallel queries may need more.
    Mount { options: "mode=1777,size=75%", ..plain("shm", "/dev/shm", "tmpfs") },
    Mount { options: "mode=1777,size=90%", ..plain("tmp", "/tmp", "tmpfs") },
    Mount { options: "mode=0755", ..plain("run", "/run", "tmpfs") },
    Mount { optional: true, ..plain("debugfs", "/sys/kernel/debug", "debugfs") },
    Mount { optional: true, ..plain("tracefs", "/sys/kernel/tracing", "tracefs") },
    Mount { optional: true, ..plain("cgroup2", "/sys/fs/cgroup", "cgroup2") },
];

/// The file system that a guest mounts over this path, so that a file of its image is not seen there.
pub fn covers(path: &Path) -> Option<&'static str> {
    MOUNTS.iter().map(|mount| mount.target).find(|target| path.starts_with(target))
}

/// True if this is the first process of a guest.
pub fn is_first_process() -> bool {
    // A container can have any pid 1, but the kernel names a guest's `/init`.
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// What a guest does once it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs trials.
    Agent,
    /// Runs the second endpoint of another guest's workloads, at this address.
    Peer(Ipv4Addr),
}

/// The link to another guest, as the kernel's command line describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Linked {
    address: Ipv4Addr,
    prefix: u8,
    other: Ipv4Addr,
    is_peer: bool,
}

impl Linked {
    fn parse(line: &str) -> Result<Option<Self>, String> {
        let word = |begin: &str| line.split_whitespace().filter_map(|word| word.strip_prefix(begin)).next_back();
        let Some(written) = word(ADDRESS_WORD) else { return Ok(None) };
        let wrong = |word: &str, value: &str| format!("{word}{value} on the kernel's command line is no address");
        let own = || {
            let (address, prefix) = written.split_once('/')?;
            Some((address.parse().ok()?, prefix.parse().ok().filter(|prefix| *prefix <= 32)?))
        };
        let (address, prefix) = own().ok_or_else(|| wrong(ADDRESS_WORD, written))?;
        let other = word(PEER_WORD).unwrap_or_default();
        let other = other.parse().map_err(|_| wrong(PEER_WORD, other))?;
        Ok(Some(Linked { address, prefix, other, is_peer: word(ROLE_WORD) == Some(SERVER_ROLE) }))
    }
}

/// Brings up the link to another guest, if the kernel's command line describes one, and returns the role of this guest.
///
/// # Errors
/// When the command line is malformed, or the network card cannot be brought up.
pub fn role() -> Result<Role, String> {
    let line = std::fs::read_to_string("/proc/cmdline").map_err(|e| format!("/proc/cmdline: {e}"))?;
    let Some(linked) = Linked::parse(&line)? else { return Ok(Role::Agent) };
    let Linked { address, prefix, other, is_peer } = linked;
    let wired = Wired { mac: mac_of(address), address, prefix, other, other_mac: mac_of(other) };
    holdup_host::network::wire(&wired).map_err(|problem| problem.to_string())?;
    Ok(if is_peer { Role::Peer(address) } else { Role::Agent })
}

/// Mounts file systems, loads modules, brings up the loopback device. Returns what failed.
pub fn set_up() -> Vec<String> {
    let mut notes = Vec::new();
    for m in MOUNTS {
        let _there = std::fs::create_dir_all(m.target);
        let options = CString::new(m.options).unwrap_or_default();
        let result = mount(m.source, m.target, m.kind, MountFlags::empty(), options.as_c_str());
        match result {
            // The kernel may have mounted devtmpfs (CONFIG_DEVTMPFS_MOUNT).
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(_) if m.optional => {}
            Err(e) => notes.push(format!("{} cannot be mounted: {e}", m.target)),
        }
    }
    notes.extend(load_modules(Path::new(MODULES)));
    if let Err(e) = loopback_up() {
        notes.push(format!("the loopback device is not up: {e}"));
    }
    let _named = rustix::system::sethostname(b"holdup-guest");
    notes
}

fn load_modules(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    files.iter().filter_map(|file| load_module(file).err().map(|e| format!("{}: {e}", file.display()))).collect()
}

fn load_module(file: &Path) -> std::io::Result<()> {
    let module = rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::system::finit_module(&module, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// `ifconfig lo up`: netdevice(7), SIOCSIFFLAGS.
fn loopback_up() -> std::io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero ifreq is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the request is an ifreq with a name that ends in zero, and lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &raw const request) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Opens the channel to the host, which the kernel's command line names ([`crate::machine::channel`]).
///
/// # Errors
/// When the command line does not name it, or it cannot be opened.
pub fn open_line() -> Result<File, String> {
    let line = std::fs::read_to_string("/proc/cmdline").map_err(|e| format!("/proc/cmdline: {e}"))?;
    let named = line.split_whitespace().filter_map(|word| word.strip_prefix("holdup.channel=")).next_back();
    let named = named.ok_or("the kernel's command line has no holdup.channel=")?;
    let path = match named.strip_prefix("port:") {
        Some(port) => virtio_port(port).ok_or_else(|| format!("there is no virtio port `{port}`"))?,
        None => Path::new("/dev").join(named),
    };
    let failed = |e: std::io::Error| format!("the channel to the host, {}: {e}", path.display());
    let file = File::options().read(true).write(true).open(&path).map_err(failed)?;
    make_raw(&file).map_err(failed)?;
    Ok(file)
}

fn virtio_port(name: &str) -> Option<PathBuf> {
    // The name appears some milliseconds after the module was loaded.
    for _ in 0..200 {
        let entries = std::fs::read_dir("/sys/class/virtio-ports").ok();
        let named = entries
            .into_iter()
            .flatten()
            .flatten()
            .find(|port| std::fs::read_to_string(port.path().join("name")).is_ok_and(|n| n.trim() == name));
        if let Some(port) = named {
            return Some(Path::new("/dev").join(port.file_name()));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    None
}

/// A serial line must pass every byte; a virtio port is no terminal.
fn make_raw(file: &File) -> std::io::Result<()> {
    match rustix::termios::tcgetattr(file) {
        Err(rustix::io::Errno::NOTTY | rustix::io::Errno::INVAL) => Ok(()),
        Err(e) => Err(e.into()),
        Ok(mut settings) => {
            settings.make_raw();
            settings.set_speed(115_200)?;
            Ok(rustix::termios::tcsetattr(file, rustix::termios::OptionalActions::Now, &settings)?)
        }
    }
}

/// Starts `agent` as a child, reaps orphans until it ends, and switches the machine off. Returns only when the child cannot be
/// started.
pub fn run(agent: impl FnOnce() -> i32) -> std::io::Error {
    // SAFETY: this is the first process of a guest, which has one thread here; the child may do anything.
    match unsafe { libc::fork() } {
        -1 => std::io::Error::last_os_error(),
        0 => {
            let code = agent();
            // SAFETY: ends this process, which shares nothing with its parent.
            unsafe { libc::_exit(code) }
        }
        child => {
            wait_for(child);
            off()
        }
    }
}

fn wait_for(child: i32) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == Pid::from_raw(child) => {
                if status.exit_status() != Some(0) {
                    let how = match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => format!("exit code {code}"),
                        (None, Some(signal)) => format!("signal {signal}"),
                        (None, None) => "in an unknown way".to_owned(),
                    };
                    let _console_is_gone = writeln!(std::io::stderr(), "{AGENT_DIED}: {how}");
                    // The reset would drop what the serial port has not sent.
                    let _no_terminal = rustix::termios::tcdrain(std::io::stderr());
                }
                return;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// A reset ends a QEMU with `-no-reboot`.
fn off() -> ! {
    rustix::fs::sync();
    loop {
        let _refused = rustix::system::reboot(RebootCommand::Restart);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_read_from_the_command_line() {
        let address = Ipv4Addr::new(10, 77, 0, 1);
        let other = Ipv4Addr::new(10, 77, 0, 2);
        let own = Linked::parse("quiet holdup.address=10.77.0.1/24 holdup.peer=10.77.0.2 x\n");
        assert_eq!(own, Ok(Some(Linked { address, prefix: 24, other, is_peer: false })));
        let peer = Linked::parse("holdup.address=10.77.0.2/24 holdup.peer=10.77.0.1 holdup.role=server");
        assert_eq!(peer, Ok(Some(Linked { address: other, prefix: 24, other: address, is_peer: true })));
        assert_eq!(Linked::parse("quiet holdup.channel=ttyS1"), Ok(None));
    }

    #[test]
    fn a_malformed_link_is_reported_with_its_word() {
        for (line, what) in [
            ("holdup.address=10.77.0.1 holdup.peer=10.77.0.2", "holdup.address=10.77.0.1 on"),
            ("holdup.address=10.77.0.1/33 holdup.peer=10.77.0.2", "holdup.address=10.77.0.1/33 on"),
            ("holdup.address=::1/24 holdup.peer=10.77.0.2", "holdup.address=::1/24 on"),
            ("holdup.address=10.77.0.1/24", "holdup.peer= on"),
            ("holdup.address=10.77.0.1/24 holdup.peer=server", "holdup.peer=server on"),
        ] {
            assert!(Linked::parse(line).is_err_and(|why| why.starts_with(what)), "{line}");
        }
    }
}
