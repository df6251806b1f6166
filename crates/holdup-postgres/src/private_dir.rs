//! Folders that belong to one process and go away with it, or at the next start after a crash.
//!
//! They lie where other users can write, such as /tmp. So a folder has a random name, is made and kept open by its
//! descriptor, and stays this user's own, also where a server of another user works in folders inside it; all that is
//! inside is reached through the descriptor (`holdup-files`). Only folders of this user are swept.

use super::user::RunAs;
use holdup_files::{Folder, check_ancestors, random_name};
use holdup_host::Host;
use holdup_model::Problem;
use rustix::fs::{FileType, FlockOperation, flock};
use std::io;
use std::path::{Path, PathBuf};

/// A folder with more entries is not swept.
const MOST_ENTRIES: usize = 200_000;

/// A folder named `PREFIX-PID-STARTTIME-RANDOM` after its owner. Removed when dropped.
///
/// Its owner also holds a lock on it (flock(2)): pids say little across containers that share a folder,
/// the lock is the kernel's, and it ends with the process.
#[derive(Debug)]
pub struct PrivateDir {
    parent: Folder,
    name: String,
    folder: Folder,
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
    /// Makes one in `parent`. It belongs to this user; where `user` is given, that user may enter it by name and not list
    /// it (mode 0711), else no other user may (0700).
    ///
    /// # Errors
    /// When it cannot be made, `user` could not reach it, or, for root, other users could replace it.
    pub fn create(host: &Host, parent: &Path, prefix: &str, user: Option<&RunAs>) -> Result<Self, Problem> {
        let failed = |path: &Path, e: io::Error| {
            Problem::host(format!("private folder {}", path.display()), e.to_string()).hint(
                "let TMPDIR or --workdir be a folder that can be written to and that others cannot change, as /tmp",
            )
        };
        let place = parent.canonicalize().map_err(|e| failed(parent, e))?;
        check_ancestors(&place).map_err(|e| failed(&place, e))?;
        if let Some(user) = user {
            user.may_enter(&place)?;
        }
        let pid = std::process::id();
        let started = start_time(host, pid).unwrap_or(0);
        let make = || {
            let parent = Folder::open(&place)?;
            let name = format!("{prefix}-{pid}-{started}-{}", random_name()?);
            let folder = parent.create_folder(&name, if user.is_some() { 0o711 } else { 0o700 })?;
            let made = PrivateDir { parent, name, folder, removed: false };
            flock(made.folder.fd(), FlockOperation::NonBlockingLockExclusive)?;
            Ok(made)
        };
        make().map_err(|e| failed(&place, e))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Makes a folder in it, mode 0700, that belongs to `user` where one is given.
    pub fn create_folder_for(&self, name: &str, user: Option<&RunAs>) -> io::Result<Folder> {
        let made = self.folder.create_folder(name, 0o700)?;
        user.map_or(Ok(()), |user| made.give_to(user.uid, user.gid))?;
        Ok(made)
    }

    /// Removes it with all that is in it.
    pub fn remove(mut self) -> Result<(), Problem> {
        self.removed = true;
        self.parent.remove_tree(&self.name).map_err(|e| {
            Problem::host(format!("private folder {}", self.path().display()), format!("it cannot be removed: {e}"))
        })
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.removed {
            // What is left is removed by the next start.
            let _left = self.parent.remove_tree(&self.name);
        }
    }
}

/// Removes the folders `PREFIX-…` in `parent` that belong to this user and whose owner is gone. `before` ends what still
/// runs in one and says no when it must be kept. Folders of other users, and those that cannot be removed, stay.
/// Returns what was removed.
pub fn sweep(host: &Host, parent: &Path, prefix: &str, before: &dyn Fn(&Folder) -> bool) -> Vec<PathBuf> {
    let Ok(parent) = Folder::open(parent) else { return Vec::new() };
    let mut removed: Vec<PathBuf> = Vec::new();
    for entry in parent.list(MOST_ENTRIES).unwrap_or_default() {
        let Some(name) = entry.name.to_str().filter(|_| entry.kind == FileType::Directory) else { continue };
        let Some((pid, started)) = owner(name, prefix) else { continue };
        // The pid covers the moment between making the folder and locking it.
        if start_time(host, pid).is_some_and(|alive| alive == started) {
            continue;
        }
        let Ok(folder) = parent.folder(name) else { continue };
        let is_ours = folder.owner().is_ok_and(|owner| owner.must_be_ours().is_ok());
        if is_ours
            && flock(folder.fd(), FlockOperation::NonBlockingLockExclusive).is_ok()
            && before(&folder)
            && parent.remove_tree(name).is_ok()
        {
            removed.push(folder.path().to_owned());
        }
    }
    removed
}

fn owner(name: &str, prefix: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let (pid, started, random) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = parts.next().is_none() && random.len() == 16 && random.bytes().all(|b| b.is_ascii_alphanumeric());
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
        let dead = ["holdup-pg-1-1-abcdefghabcdefgh", "holdup-pg-4294967295-5-2345672345672345"];
        let foreign = [
            "holdup-pg-x-5-abcdefghabcdefgh",
            "holdup-pg-1-1",
            "holdup-pg-1-1-abcdef",
            "holdup-pgx-1-1-abcdefghabcdefgh",
            "holdup-pg-1-1-abcdefghabcdefgh-1",
        ];
        for name in dead.iter().chain(&foreign) {
            std::fs::create_dir_all(top.path().join(name).join("data")).unwrap();
        }
        let locked = top.path().join("holdup-pg-1-2-abcdefghabcdefgh");
        std::fs::create_dir(&locked).unwrap();
        let held = std::fs::File::open(&locked).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        // One that leads to another user's, and one that another user made or can change.
        let precious = top.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::os::unix::fs::symlink(&precious, top.path().join("holdup-pg-1-3-abcdefghabcdefgh")).unwrap();
        let planted = top.path().join("holdup-pg-1-4-abcdefghabcdefgh");
        std::fs::create_dir(&planted).unwrap();
        if holdup_testkit::is_root() {
            std::os::unix::fs::chown(&planted, Some(54_321), None).unwrap();
        } else {
            std::fs::set_permissions(&planted, PermissionsExt::from_mode(0o777)).unwrap();
        }
        assert!(sweep(&host, top.path(), "holdup-pg", &|_| false).is_empty());
        let removed = sweep(&host, top.path(), "holdup-pg", &|_| true);
        assert_eq!(removed, dead.map(|name| top.path().join(name)));
        assert!(alive.path().is_dir() && locked.is_dir() && precious.is_dir() && planted.is_dir());
        assert!(foreign.iter().all(|name| top.path().join(name).is_dir()));
        let path = alive.path().to_owned();
        alive.remove().unwrap();
        assert!(!path.exists());
    }
}
