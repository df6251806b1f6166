//! The only reader and writer of /proc, /sys, debugfs and cgroups, and the facts about a host.
//!
//! Everything goes through a [`Host`], which has a root: `/` for the real one,
//! a captured tree for `--root DIR` and tests. Errors carry the path.

pub mod cgroup;
pub mod environment;
mod error;
mod facts;
pub mod fake;
mod fs;
pub mod guc;
pub mod lock;
mod machine;
pub mod postgres;
pub mod process;
pub mod state;
pub mod survey;
mod system;

pub use error::HostError;
pub use facts::{Preempt, facts, moved, preempt};
pub use fs::{HostFs, RealFs};
pub use machine::{cpu_list, machine};
pub use system::Scheduling;

use std::path::Path;
use std::sync::Arc;

/// A host: the real one, or a captured tree.
#[derive(Clone)]
pub struct Host {
    fs: Arc<dyn HostFs>,
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
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_text(&self, path: &str) -> Result<String, HostError> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one value, without the white space around it.
    ///
    /// # Errors
    /// When it cannot be read.
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
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.fs.list(Path::new(path)).map_err(|e| HostError::new("list", path, &e))
    }

    /// What a symbolic link points to, as it stands in the link.
    ///
    /// # Errors
    /// When it is none or may not be read.
    pub fn read_link(&self, path: &str) -> Result<String, HostError> {
        let target = self.fs.read_link(Path::new(path)).map_err(|e| HostError::new("read the link", path, &e))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Whether something is there. `false` also when it may not be asked.
    pub fn exists(&self, path: &str) -> bool {
        self.fs.exists(Path::new(path))
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
    ///
    /// # Errors
    /// When any step fails.
    pub fn replace_synced(&self, path: &str, bytes: &[u8]) -> Result<(), HostError> {
        self.fs.replace_synced(Path::new(path), bytes).map_err(|e| HostError::new("write", path, &e))
    }

    /// Removes a file of holdup's own and syncs its folder. A missing file is no error.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_synced(&self, path: &str) -> Result<(), HostError> {
        self.fs.remove_synced(Path::new(path)).map_err(|e| HostError::new("remove", path, &e))
    }

    /// At most the first `longest` bytes of a file, as text. For files of /proc that grow with the machine.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_head(&self, path: &str, longest: usize) -> Result<String, HostError> {
        let head = self.fs.read_head(Path::new(path), longest).map_err(|e| HostError::new("read", path, &e))?;
        Ok(String::from_utf8_lossy(&head).into_owned())
    }

    /// Whether this is the running system itself, not a captured tree: only then do pids and clocks mean anything.
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

    /// The kernel's log as far as its ring buffer reaches; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When it may not be read (`kernel.dmesg_restrict`), or the host is a captured tree.
    pub fn kernel_log(&self) -> Result<String, HostError> {
        let log = self.fs.kernel_log().map_err(|e| HostError::new("read", "the kernel's log", &e))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }
}
