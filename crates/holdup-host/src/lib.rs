//! The only reader and writer of /proc, /sys, debugfs and cgroups, and the facts about a host.
//!
//! Everything goes through a [`Host`], which has a root: `/` for the real one, a captured tree for `--root DIR` and tests
//! ([`fake`] has one in memory that fails on purpose). Errors carry the path. [`facts()`] is the environment of a trial;
//! [`kernel`] has what facts and survey both need, the preemption model first; [`lock`] is the lock of a host;
//! [`network`] makes networks of namespaces; [`perf_samples`] and its neighbours are perf_event_open(2); [`confined`] does
//! root's reading as another user.
//!
//! Not here: what `holdup check` looks at (`holdup-survey`), changing settings (`holdup-knobs`), files of holdup's own in
//! places that others can write (`holdup-files`). Start with [`Host`] below, then `fs.rs`.

mod arch;
mod capture;
pub mod cgroup;
pub mod confined;
pub mod environment;
mod error;
mod facts;
pub mod fake;
mod fs;
pub mod guc;
pub mod heap;
pub mod kernel;
pub mod lock;
mod machine;
mod memory;
pub mod network;
mod own;
pub mod perf;
pub mod perf_breakpoints;
pub mod perf_samples;
pub mod postgres;
pub mod process;
pub mod stalls;
pub mod state;
mod system;
pub mod text;
mod topology;
mod tree;
mod within;

pub use error::HostError;
pub use facts::{facts, governor, moved};
pub use fs::{FileIdentity, HostFs, RealFs};
pub use machine::{cpu_list, cpu_ranges, machine, meminfo, online_cpus};
pub use own::OUT_OF_FILES;
pub use system::Scheduling;
pub use topology::{CpuTopology, cpu_topologies};
pub use tree::{TreeEntry, TreeFile};

use holdup_model::Problem;
use std::path::Path;
use std::sync::Arc;

/// A host: the real one, or a captured tree.
#[derive(Clone)]
pub struct Host {
    fs: Arc<dyn HostFs>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("is_live", &self.is_live()).finish_non_exhaustive()
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::real()
    }
}

impl Host {
    /// The host that holdup runs on.
    pub fn real() -> Self {
        Host { fs: Arc::new(RealFs::new("/")) }
    }

    /// A captured tree: `/proc/version` is read from `root/proc/version`.
    pub fn at(root: impl AsRef<Path>) -> Self {
        Host { fs: Arc::new(RealFs::new(root.as_ref())) }
    }

    /// A captured tree: a folder, or a file with one ([`TreeFile`]).
    ///
    /// # Errors
    /// When the file cannot be read or is no tree.
    pub fn captured(tree: &Path) -> Result<Self, Problem> {
        if tree.is_dir() { Ok(Self::at(tree)) } else { Ok(TreeFile::read(tree)?.file_system().host()) }
    }

    /// The running system, of which every file that is read is kept for `into`, a file that is made: a tree for
    /// [`Host::captured`]. Nothing can be written through it.
    ///
    /// # Errors
    /// When the file exists or cannot be made.
    pub fn capturing(into: &Path) -> Result<Self, HostError> {
        let fs =
            capture::CapturingFs::new(into).map_err(|e| HostError::new("make", &into.display().to_string(), &e))?;
        Ok(Host { fs: Arc::new(fs) })
    }

    /// Writes the file of [`Host::capturing`]; on another host it does nothing.
    ///
    /// # Errors
    /// When the file cannot be written, or is too long for [`Host::captured`].
    pub fn write_capture(&self) -> Result<(), HostError> {
        self.fs.write_capture().map_err(|e| HostError::new("write", "the capture", &e))
    }

    /// A host over any file system, for tests that make it fail.
    pub fn over(fs: Arc<dyn HostFs>) -> Self {
        Host { fs }
    }

    /// The whole of a file.
    ///
    /// # Errors
    /// When it cannot be read; the error has the path and the errno.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.fs.read(Path::new(path)).map_err(|e| HostError::new("read", path, &e))
    }

    /// The whole of a file as text; bytes that are not UTF-8 are replaced.
    pub fn read_text(&self, path: &str) -> Result<String, HostError> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one value, without the white space around it.
    pub fn read_value(&self, path: &str) -> Result<String, HostError> {
        self.read_text(path).map(|text| text.trim().to_owned())
    }

    /// Writes a file that exists, in one write call, as /proc and /sys want it.
    ///
    /// # Errors
    /// When it cannot be opened or the kernel refuses the value.
    pub fn write(&self, path: &str, text: &str) -> Result<(), HostError> {
        self.fs.write(Path::new(path), text.as_bytes()).map_err(|e| HostError::new("write", path, &e))
    }

    /// The names in a folder, sorted.
    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.fs.list(Path::new(path)).map_err(|e| HostError::new("list", path, &e))
    }

    /// What a symbolic link points to, as it stands in the link.
    pub fn read_link(&self, path: &str) -> Result<String, HostError> {
        let target = self.fs.read_link(Path::new(path)).map_err(|e| HostError::new("read the link", path, &e))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// True if something is there. `false` also when it may not be asked.
    pub fn exists(&self, path: &str) -> bool {
        self.fs.exists(Path::new(path))
    }

    /// The permission bits of a file.
    pub fn mode(&self, path: &str) -> Result<u32, HostError> {
        self.fs.mode(Path::new(path)).map_err(|e| HostError::new("read", path, &e))
    }

    /// Whether a write would be let through, asked without writing.
    ///
    /// # Errors
    /// The error that the write would give.
    pub fn may_write(&self, path: &str) -> Result<(), HostError> {
        self.fs.may_write(Path::new(path)).map_err(|e| HostError::new("write", path, &e))
    }

    /// Makes or replaces a file of holdup's own so that a crash leaves the old or the new one,
    /// synced with its folder before it returns. Missing folders are made.
    pub fn replace_synced(&self, path: &str, bytes: &[u8]) -> Result<(), HostError> {
        let written = self.fs.replace_synced(Path::new(path), bytes);
        written.map_err(|e| own::hinted(&e, HostError::new("write", path, &e)))
    }

    /// Removes a file of holdup's own and syncs its folder. A missing file is no error.
    pub fn remove_synced(&self, path: &str) -> Result<(), HostError> {
        let removed = self.fs.remove_synced(Path::new(path));
        removed.map_err(|e| own::hinted(&e, HostError::new("remove", path, &e)))
    }

    /// The whole of a file of holdup's own, such as the undo journal, of at most 16 MiB.
    ///
    /// # Errors
    /// When it cannot be read; when it or its folder belongs to another user or may be written by others, or it is no
    /// regular file: then it is not read.
    pub fn read_own(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let read = self.fs.read_own(Path::new(path));
        read.map_err(|e| own::hinted(&e, HostError::new("read", path, &e)))
    }

    /// The whole of a file that has at most `most` bytes.
    pub fn read_bounded(&self, path: &str, most: usize) -> Result<Vec<u8>, HostError> {
        self.read_bounded_io(path, most).map_err(|e| HostError::new("read", path, &e))
    }

    /// The same with the system's own error, for a caller that hands it on to another process.
    pub fn read_bounded_io(&self, path: &str, most: usize) -> std::io::Result<Vec<u8>> {
        self.fs.read_bounded(Path::new(path), most)
    }

    /// At most the first `longest` bytes of a file, and what file they are of, which is not known in a captured tree.
    ///
    /// # Errors
    /// When it cannot be read, is no regular file, or changed while it was read.
    pub fn read_identified(&self, path: &str, longest: usize) -> Result<(Vec<u8>, Option<FileIdentity>), HostError> {
        self.fs.read_identified(Path::new(path), longest).map_err(|e| HostError::new("read", path, &e))
    }

    /// The names in a folder of at most `most` entries, sorted.
    pub fn list_bounded(&self, path: &str, most: usize) -> Result<Vec<String>, HostError> {
        self.fs.list_bounded(Path::new(path), most).map_err(|e| HostError::new("list", path, &e))
    }

    /// True if what is read is also kept, as by [`Host::capturing`].
    pub fn is_capturing(&self) -> bool {
        self.fs.is_capturing()
    }

    /// Keeps what another process has read of this host.
    pub fn keep(&self, path: &str, read: &std::io::Result<Vec<u8>>) -> Result<(), HostError> {
        self.fs.keep(Path::new(path), read).map_err(|e| HostError::new("keep", path, &e))
    }

    /// At most the first `longest` bytes of a file, as text. For files of /proc that grow with the machine.
    pub fn read_head(&self, path: &str, longest: usize) -> Result<String, HostError> {
        self.read_head_bytes(path, longest).map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    /// The same as it stands.
    pub fn read_head_bytes(&self, path: &str, longest: usize) -> Result<Vec<u8>, HostError> {
        self.fs.read_head(Path::new(path), longest).map_err(|e| HostError::new("read", path, &e))
    }

    /// The identity of one version of a file.
    ///
    /// # Errors
    /// When there is no such file, or the host is a captured tree.
    pub fn identity(&self, path: &str) -> Result<FileIdentity, HostError> {
        self.fs.identity(Path::new(path)).map_err(|e| HostError::new("look at", path, &e))
    }

    /// True if this is the running system itself, not a captured tree: only then do pids and clocks mean anything.
    pub fn is_live(&self) -> bool {
        self.fs.is_live()
    }

    /// How a task (a thread) is scheduled.
    ///
    /// # Errors
    /// When there is no such task, or the host is a captured tree.
    pub fn scheduling(&self, tid: u32) -> Result<Scheduling, HostError> {
        self.fs.scheduling(tid).map_err(|e| HostError::new("read", &format!("the scheduling of task {tid}"), &e))
    }

    /// Sets how a task (a thread) is scheduled.
    ///
    /// # Errors
    /// When the kernel does not permit it, there is no such task, or the host is a captured tree.
    pub fn set_scheduling(&self, tid: u32, wanted: Scheduling) -> Result<(), HostError> {
        let what = || format!("the scheduling of task {tid}");
        self.fs.set_scheduling(tid, wanted).map_err(|e| HostError::new("set", &what(), &e))
    }

    /// Writes a device that keeps what is written for as long as it is open (`/dev/cpu_dma_latency`), and keeps it open
    /// in this process until [`Host::release`]. What this process held of it before is closed after that.
    ///
    /// # Errors
    /// When it cannot be opened or the kernel refuses the value.
    pub fn hold(&self, path: &str, bytes: &[u8]) -> Result<(), HostError> {
        self.fs.hold(Path::new(path), bytes).map_err(|e| HostError::new("hold", path, &e))
    }

    /// Closes what [`Host::hold`] keeps open. Nothing to close is no error.
    ///
    /// # Errors
    /// Never on a real host.
    pub fn release(&self, path: &str) -> Result<(), HostError> {
        self.fs.release(Path::new(path)).map_err(|e| HostError::new("release", path, &e))
    }

    /// True if this process holds a device open by [`Host::hold`].
    ///
    /// # Errors
    /// Never on a real host.
    pub fn holds(&self, path: &str) -> Result<bool, HostError> {
        self.fs.holds(Path::new(path)).map_err(|e| HostError::new("ask about", path, &e))
    }

    /// How long a task (a thread) runs before another one of its kind has its turn, in ns (`sched_attr.sched_runtime`).
    /// It is the task's own slice or the default one; the kernel does not say which. `None` where it reports none:
    /// before 6.12, and for real-time tasks.
    ///
    /// # Errors
    /// When there is no such task, or the host is a captured tree.
    pub fn slice(&self, tid: u32) -> Result<Option<u64>, HostError> {
        self.fs.slice(tid).map_err(|e| HostError::new("read", &format!("the slice of task {tid}"), &e))
    }

    /// Gives a task (a thread) under SCHED_OTHER or SCHED_BATCH its own slice in ns, 0.1 to 100 ms, or the
    /// default one with `None`. A kernel before 6.12 takes it and does nothing.
    ///
    /// # Errors
    /// When the task is under another policy, the kernel does not permit it, there is no such task, or the host is a
    /// captured tree.
    pub fn set_slice(&self, tid: u32, own_ns: Option<u64>) -> Result<(), HostError> {
        let what = || format!("the slice of task {tid}");
        self.fs.set_slice(tid, own_ns).map_err(|e| HostError::new("set", &what(), &e))
    }

    /// The CPUs that a task (a thread) may run on, sorted: its own mask within its cpuset, and of those online.
    ///
    /// # Errors
    /// When there is no such task, or the host is a captured tree.
    pub fn affinity(&self, tid: u32) -> Result<Vec<u32>, HostError> {
        self.fs.affinity(tid).map_err(|e| HostError::new("read", &format!("the affinity of task {tid}"), &e))
    }

    /// Sets the CPUs that a task (a thread) may run on (sched_setaffinity(2)). The kernel leaves out what the task's
    /// cpuset does not have.
    ///
    /// # Errors
    /// When none is left so, the kernel does not permit it, there is no such task, or the host is a captured tree.
    pub fn set_affinity(&self, tid: u32, cpus: &[u32]) -> Result<(), HostError> {
        let what = || format!("the affinity of task {tid}");
        self.fs.set_affinity(tid, cpus).map_err(|e| HostError::new("set", &what(), &e))
    }

    /// The kernel's log as far as its ring buffer reaches; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When it may not be read (`kernel.dmesg_restrict`), or a captured tree has no file `kernel-log` at its top.
    pub fn kernel_log(&self) -> Result<String, HostError> {
        let log = self.fs.kernel_log().map_err(|e| HostError::new("read", "the kernel's log", &e))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}
