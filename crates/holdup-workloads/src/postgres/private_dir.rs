//! Folders that belong to one process and go away with it, or at the next start after a crash.

use super::user::RunAs;
use holdup_host::Host;
use holdup_model::Problem;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder of mode 0700, named `PREFIX-PID-STARTTIME-RANDOM` after its owner. Removed when dropped.
///
/// Its owner also holds a lock on it (flock(2)): pids say little across containers that share a folder,
/// the lock is the kernel's, and it ends with the process.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    _lock: File,
    removed: bool,
}

/// The time at which a process started, in clock ticks since boot: field 22 of /proc/PID/stat, proc(5).
pub(crate) fn start_time(host: &Host, pid: u32) -> Option<u64> {
    let stat = host.read_text(&format!("/proc/{pid}/stat")).ok()?;
    // The command stands in brackets and may hold anything, brackets as well.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

impl PrivateDir {
    /// Makes one in `parent`, owned by `user` where one is given.
    ///
    /// # Errors
    /// When it cannot be made, or `user` could not reach it.
    pub fn create(host: &Host, parent: &Path, prefix: &str, user: Option<&RunAs>) -> Result<Self, Problem> {
        let failed = |path: &Path, e: std::io::Error| {
            Problem::host(format!("private folder {}", path.display()), e.to_string())
                .hint("let TMPDIR or the working directory be a folder that can be written to")
        };
        let parent = std::fs::canonicalize(parent).map_err(|e| failed(parent, e))?;
        if let Some(user) = user {
            user.may_enter(&parent)?;
        }
        let pid = std::process::id();
        let started = start_time(host, pid).unwrap_or(0);
        // The hasher's keys are random: good enough for a name that must only be free.
        let random = std::hash::RandomState::new().build_hasher().finish() & 0xff_ffff;
        let path = parent.join(format!("{prefix}-{pid}-{started}-{random:06x}"));
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| failed(&path, e))?;
        let locked = File::open(&path).and_then(|folder| {
            flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
            if let Some(user) = user {
                std::os::unix::fs::chown(&path, Some(user.uid), Some(user.gid))?;
            }
            Ok(folder)
        });
        match locked {
            Ok(lock) => Ok(PrivateDir { path, _lock: lock, removed: false }),
            Err(e) => {
                let _removed = std::fs::remove_dir(&path);
                Err(failed(&path, e))
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with all that is in it.
    ///
    /// # Errors
    /// When something is left.
    pub fn remove(mut self) -> Result<(), Problem> {
        self.removed = true;
        remove_all(&self.path)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.removed {
            // There is nobody left to tell; the next start tries again.
            let _left = remove_all(&self.path);
        }
    }
}

fn remove_all(path: &Path) -> Result<(), Problem> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Problem::host(format!("private folder {}", path.display()), format!("it cannot be removed: {e}")))
        }
        _ => Ok(()),
    }
}

/// Removes the folders `PREFIX-…` in `parent` whose owner is gone. `before` ends what still runs in one
/// and says no when it must be kept. Folders of others, and those that cannot be removed, stay.
/// Returns what was removed.
pub fn sweep(host: &Host, parent: &Path, prefix: &str, before: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut removed: Vec<PathBuf> = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        let Some((pid, started)) = entry.file_name().to_str().and_then(|name| owner(name, prefix)) else { continue };
        // The pid covers the moment between making the folder and locking it.
        if !is_folder || start_time(host, pid).is_some_and(|alive| alive == started) {
            continue;
        }
        let Ok(folder) = File::open(&path) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && before(&path)
            && remove_all(&path).is_ok()
        {
            removed.push(path);
        }
    }
    removed.sort();
    removed
}

fn owner(name: &str, prefix: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let (pid, started, random) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = parts.next().is_none() && random.len() == 6 && random.bytes().all(|b| b.is_ascii_hexdigit());
    if ours { Some((pid.parse().ok()?, started.parse().ok()?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_folders_of_dead_owners_are_swept() {
        let top = tempfile::tempdir().unwrap();
        let host = Host::real();
        let alive = PrivateDir::create(&host, top.path(), "holdup-pg", None).unwrap();
        let mode = std::fs::metadata(alive.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        // Pid 1 lives, but did not start at that time; no pid is as high as the next one.
        let dead = ["holdup-pg-1-1-abcdef", "holdup-pg-4294967295-5-012345"];
        let foreign = ["holdup-pg-x-5-012345", "holdup-pg-1-1", "holdup-pgx-1-1-abcdef", "holdup-pg-1-1-abcdef-1"];
        for name in dead.iter().chain(&foreign) {
            std::fs::create_dir_all(top.path().join(name).join("data")).unwrap();
        }
        let locked = top.path().join("holdup-pg-1-2-abcdef");
        std::fs::create_dir(&locked).unwrap();
        let held = File::open(&locked).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(sweep(&host, top.path(), "holdup-pg", &|_| false).is_empty());
        let removed = sweep(&host, top.path(), "holdup-pg", &|_| true);
        assert_eq!(removed, dead.map(|name| top.path().join(name)));
        assert!(alive.path().is_dir() && locked.is_dir());
        assert!(foreign.iter().all(|name| top.path().join(name).is_dir()));
        let path = alive.path().to_owned();
        alive.remove().unwrap();
        assert!(!path.exists());
    }
}
