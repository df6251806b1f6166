//! One run at a time on one host.
//!
//! The lock is flock(2) on a file that only this user can open: it lives as long as the process that holds it. A file
//! beside it says who that is. Root's are in `/run/holdup`, where every user can read who holds it and nobody can take it;
//! a user's are in that user's runtime folder. So a user's run waits for root's and for that user's own, and no other
//! user can keep root from working. Two runs of two ordinary users do not see each other.

use crate::environment::{self, Variable};
use crate::{Host, process, state};
use holdup_files::{Folder, check_ancestors, private_folder};
use holdup_model::Problem;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where root's lock is.
const ROOTS: &str = "/run/holdup";
const LOCK: &str = "lock";
/// Who holds it: pid and start time.
const HOLDER: &str = "holder";

/// Held while a run is under way.
#[derive(Debug)]
pub struct HostLock {
    folder: Folder,
    _file: File,
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // Before the lock goes; one that is left names a process that has ended.
        let _left = self.folder.remove(HOLDER);
    }
}

impl HostLock {
    /// Takes the lock, waiting at most `wait` for another run to end.
    ///
    /// # Errors
    /// When another run has it; the error names its pid. When `cancelled` says so while waiting.
    pub fn take(wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<Self, Problem> {
        let uid = rustix::process::geteuid().as_raw();
        let folder = folder_of(uid).map_err(|e| {
            failed(&e).hint("let XDG_RUNTIME_DIR or HOME be a folder of this user's own that can be written to")
        })?;
        let above = if uid == 0 { None } else { Some(Path::new(ROOTS)) };
        Self::take_in(folder, above, wait, cancelled)
    }

    /// The same in a folder; `above` is that of a user whose runs are waited for as well.
    fn take_in(
        folder: Folder,
        above: Option<&Path>,
        wait: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, Problem> {
        let host = Host::real();
        let begun = Instant::now();
        loop {
            let busy = match above.and_then(|above| holder(&host, &Folder::open(above).ok()?, 0)) {
                Some(pid) => Some(pid),
                None => {
                    let file = folder.open_or_create(LOCK, 0o600).map_err(|e| failed(&e))?;
                    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                        Ok(()) => return Self::held(&host, folder, file),
                        Err(rustix::io::Errno::WOULDBLOCK) => {}
                        Err(e) => return Err(failed(&e.into())),
                    }
                    holder(&host, &folder, rustix::process::geteuid().as_raw())
                }
            };
            if cancelled() {
                return Err(Problem::interrupted("waiting for another run on this host"));
            }
            if begun.elapsed() >= wait {
                return Err(taken(busy));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn held(host: &Host, folder: Folder, file: File) -> Result<Self, Problem> {
        let pid = std::process::id();
        let started = process::start_time(host, pid).unwrap_or(0);
        // Read by other users, of root's only.
        folder.replace_synced(HOLDER, format!("{pid} {started}\n").as_bytes(), 0o644).map_err(|e| failed(&e))?;
        Ok(HostLock { folder, _file: file })
    }
}

/// The process that a folder of `uid` names as the holder, if it still runs.
fn holder(host: &Host, folder: &Folder, uid: u32) -> Option<u32> {
    let owner = folder.owner().ok()?;
    if owner.uid != uid || owner.others_may_write() {
        return None;
    }
    let text = String::from_utf8(folder.read(HOLDER, 64).ok()?).ok()?;
    let (pid, started) = text.trim().split_once(' ')?;
    let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
    process::alive(host, pid, started).then_some(pid)
}

/// The folder of a user's lock. It does not depend on where state is kept: there is one for a host.
fn folder_of(uid: u32) -> io::Result<Folder> {
    if uid == 0 {
        return roots_folder(Path::new(ROOTS)).or_else(|e| match e.kind() {
            // A guest that holdup boots has no /run.
            io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem => {
                private_folder(Path::new(&state::dir_for(uid, &Variable::get)))
            }
            _ => Err(e),
        });
    }
    let named = environment::XDG_RUNTIME_DIR.get().filter(|path| path.starts_with('/')).map(PathBuf::from);
    for runtime in named.into_iter().chain([PathBuf::from(format!("/run/user/{uid}"))]) {
        if Folder::open(&runtime).is_ok_and(|folder| holdup_files::is_private(&folder)) {
            return private_folder(&runtime.join("holdup"));
        }
    }
    let without_override =
        |variable: &Variable| variable.get().filter(|_| variable.name != environment::STATE_DIR.name);
    private_folder(Path::new(&state::dir_for(uid, &without_override)))
}

/// Root's, which every user may look into.
fn roots_folder(path: &Path) -> io::Result<Folder> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::other("the path has no folder above it"));
    };
    check_ancestors(&above.canonicalize()?)?;
    let above = Folder::open(above)?;
    let folder = match above.create_folder(name, 0o755) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => above.folder(name)?,
        made => made?,
    };
    folder.owner()?.must_be_ours()?;
    Ok(folder)
}

fn taken(pid: Option<u32>) -> Problem {
    let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
    Problem::host("this host", format!("another holdup run is under way ({by})"))
        .hint("wait for it to end, or give --wait to queue behind it: two runs at once would measure each other")
}

fn failed(e: &io::Error) -> Problem {
    Problem::host("the lock of this host", e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn take(folder: &Path, above: Option<&Path>) -> Result<HostLock, Problem> {
        HostLock::take_in(Folder::open(folder).expect("there"), above, Duration::ZERO, &|| false)
    }

    #[test]
    fn the_second_run_is_refused_with_the_pid_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = take(folder.path(), None).expect("free");
        let refused = take(folder.path(), None).expect_err("taken");
        assert!(refused.why.contains(&format!("pid {}", std::process::id())), "{refused}");
        let open = Folder::open(folder.path()).expect("there");
        let cancelled = HostLock::take_in(open, None, Duration::from_secs(60), &|| true).expect_err("cancelled");
        assert_eq!(cancelled.kind, holdup_model::ProblemKind::Interrupted);
        drop(first);
        take(folder.path(), None).expect("free again");
    }

    #[test]
    fn what_another_user_plants_neither_blocks_nor_is_followed() {
        let (folder, precious) =
            (tempfile::tempdir().expect("a folder"), tempfile::NamedTempFile::new().expect("a file"));
        // The abstract socket that older versions took for the lock.
        let name =
            <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name("holdup-run")
                .expect("a name");
        let _squatted: Result<_, io::Error> = std::os::unix::net::UnixListener::bind_addr(&name);
        take(folder.path(), None).expect("free");
        symlink(precious.path(), folder.path().join("holder")).expect("planted");
        take(folder.path(), None).expect("free");
        assert_eq!(std::fs::read(precious.path()).expect("there"), b"", "the link was replaced");
        std::fs::remove_file(folder.path().join(LOCK)).expect("there");
        symlink(precious.path(), folder.path().join(LOCK)).expect("planted");
        take(folder.path(), None).expect_err("a link is no lock");
    }

    #[test]
    fn a_user_waits_for_root_unless_root_has_ended() {
        let (roots, users) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let is_root = rustix::process::geteuid().is_root();
        let held = take(roots.path(), None).expect("free");
        // Only a folder of root's counts.
        assert_eq!(take(users.path(), Some(roots.path())).is_err(), is_root);
        drop(held);
        take(users.path(), Some(roots.path())).expect("free");
        // A process that has ended, and another one of its number.
        for stale in ["4194303 1\n", &format!("{} 1\n", std::process::id()), "x", ""] {
            std::fs::write(roots.path().join(HOLDER), stale).expect("written");
            take(users.path(), Some(roots.path())).expect("free");
        }
        let made = roots_folder(&users.path().join("run"));
        if is_root {
            let mode = std::fs::metadata(made.expect("made").path()).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o755);
        }
    }
}
