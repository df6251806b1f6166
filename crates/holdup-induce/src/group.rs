//! A control group for a test, removed with it.

use holdup_host::Host;
use holdup_load::fork;
use holdup_model::Problem;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::process::{Pid, WaitOptions};
use std::ffi::CString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// The name of a group in a group.
const BELOW: &str = "below";
/// How often the guard tries to remove a group whose processes are still ending, and how long it waits between, µs.
const TRIES: u32 = 500;
const BETWEEN_US: u32 = 10_000;

/// What is limited of a disk.
#[derive(Debug, Clone, Copy)]
pub enum DiskLimit {
    BytesRead,
    /// Requests that write.
    Writes,
}

/// A control group.
#[derive(Debug)]
pub struct Group {
    folder: String,
    /// True if it is of version 2.
    pub is_v2: bool,
    guard: Option<(OwnedFd, Pid)>,
}

impl Group {
    /// Makes a group that a controller acts on; the names are those of version 1 and 2.
    ///
    /// # Errors
    /// When this host has no such controller, or no group may be made.
    pub fn new(v1: &str, v2: &str) -> Result<Self, Problem> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (above, is_v2) = hierarchy(&Host::real(), v1, v2)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("{above}/holdup-induced-{}-{number}", std::process::id());
        let refused = |e: io::Error| Problem::host(format!("control group {folder}"), format!("cannot be made: {e}"));
        let guard = guard(&folder).map_err(refused)?;
        let group = Group { folder: folder.clone(), is_v2, guard: Some(guard) };
        std::fs::create_dir(&folder).map_err(refused)?;
        Ok(group)
    }

    /// Makes a group with a CPU limit: `quota` of each `period`.
    ///
    /// # Errors
    /// When no such group can be made.
    pub fn with_cpu_limit(quota: Duration, period: Duration) -> Result<Self, Problem> {
        let group = Group::new("cpu", "cpu")?;
        if group.is_v2 {
            group.set("cpu.max", &format!("{} {}", quota.as_micros(), period.as_micros()))?;
        } else {
            group.set("cpu.cfs_period_us", &period.as_micros().to_string())?;
            group.set("cpu.cfs_quota_us", &quota.as_micros().to_string())?;
        }
        Ok(group)
    }

    /// Makes a group that gets so much a second of the disk of a folder.
    ///
    /// # Errors
    /// When the folder is on no disk, or no such group can be made.
    pub fn with_disk_limit(folder: &Path, limit: DiskLimit, per_s: u64) -> Result<Self, Problem> {
        let problem = |e: io::Error| Problem::host(format!("folder {}", folder.display()), e.to_string());
        let device = disk_of(&Host::real(), std::fs::metadata(folder).map_err(problem)?.dev())?;
        let (v1, v2) = match limit {
            DiskLimit::BytesRead => ("read_bps", "rbps"),
            DiskLimit::Writes => ("write_iops", "wiops"),
        };
        let group = Group::new("blkio", "io")?;
        match group.is_v2 {
            true => group.set("io.max", &format!("{device} {v2}={per_s}"))?,
            false => group.set(&format!("blkio.throttle.{v1}_device"), &format!("{device} {per_s}"))?,
        }
        Ok(group)
    }

    /// Makes a group that weighs ten times as much for the CPUs as others.
    ///
    /// # Errors
    /// When no such group can be made.
    pub fn with_more_weight() -> Result<Self, Problem> {
        let group = Group::new("cpu", "cpu")?;
        match group.is_v2 {
            true => group.set("cpu.weight", "1000")?,
            false => group.set("cpu.shares", "10240")?,
        }
        Ok(group)
    }

    /// Makes a group whose memory is limited.
    ///
    /// # Errors
    /// When no such group can be made.
    pub fn with_memory_limit(bytes: u64) -> Result<Self, Problem> {
        let group = Group::new("memory", "memory")?;
        group.set(if group.is_v2 { "memory.max" } else { "memory.limit_in_bytes" }, &bytes.to_string())?;
        Ok(group)
    }

    /// Makes a group in it, which is removed with it, and gives its folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn below(&self) -> Result<String, Problem> {
        let folder = format!("{}/{BELOW}", self.folder);
        let refused = |e: io::Error| Problem::host(format!("control group {folder}"), format!("cannot be made: {e}"));
        std::fs::create_dir(&folder).map_err(refused)?;
        Ok(folder)
    }

    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Writes one of its files.
    ///
    /// # Errors
    /// When the kernel refuses the value.
    pub fn set(&self, file: &str, value: &str) -> Result<(), Problem> {
        Ok(Host::real().write(&format!("{}/{file}", self.folder), value)?)
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// When there is no such process, or it may not be moved.
    pub fn take(&self, pid: u32) -> Result<(), Problem> {
        self.set("cgroup.procs", &pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some((pipe, pid)) = self.guard.take() {
            drop(pipe);
            let _ended = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// The folder above all groups that a controller acts on, and whether it is of version 2.
fn hierarchy(host: &Host, v1: &str, v2: &str) -> Result<(String, bool), Problem> {
    let old = format!("{MOUNT}/{v1}");
    if host.exists(&format!("{old}/cgroup.procs")) {
        return Ok((old, false));
    }
    let acts = |file: &str| {
        let list = host.read_text(&format!("{MOUNT}/{file}")).unwrap_or_default();
        list.split_whitespace().any(|controller| controller == v2)
    };
    match (acts("cgroup.controllers"), acts("cgroup.subtree_control")) {
        (true, true) => Ok((MOUNT.to_owned(), true)),
        (true, false) => Err(Problem::host(format!("controller {v2}"), "it does not act on groups below the root")
            .hint(format!("echo +{v2} > {MOUNT}/cgroup.subtree_control"))),
        (false, _) => Err(Problem::host(format!("controller {v2}"), format!("neither {old} nor {MOUNT} has it"))),
    }
}

/// The whole disk that a device is on, as control groups name it.
fn disk_of(host: &Host, device: u64) -> Result<String, Problem> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let name = format!("{major}:{minor}");
    if major == 0 {
        return Err(Problem::host(format!("device {name}"), "the folder's file system is not on one disk"));
    }
    let folder = format!("/sys/dev/block/{name}");
    if host.exists(&format!("{folder}/partition")) {
        return Ok(host.read_value(&format!("{folder}/../dev"))?);
    }
    Ok(name)
}

/// Starts the process that removes the folder when the pipe is closed, however this process ends.
fn guard(folder: &str) -> io::Result<(OwnedFd, Pid)> {
    let (path, below) = (CString::new(folder)?, CString::new(format!("{folder}/{BELOW}"))?);
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the child makes nothing but system calls on what was made before, and ends in exit.
    let pid = unsafe {
        fork::fork(|| {
            let keep = read.as_raw_fd().unsigned_abs();
            libc::setsid();
            libc::syscall(libc::SYS_close_range, 0, keep.saturating_sub(1), 0);
            libc::syscall(libc::SYS_close_range, keep + 1, u32::MAX, 0);
            let mut byte = 0u8;
            libc::read(read.as_raw_fd(), (&raw mut byte).cast(), 1);
            for _ in 0..TRIES {
                libc::rmdir(below.as_ptr());
                if libc::rmdir(path.as_ptr()) == 0 || *libc::__errno_location() == libc::ENOENT {
                    break;
                }
                libc::usleep(BETWEEN_US);
            }
            fork::exit(0)
        })
    }?;
    Ok((write, pid))
}
