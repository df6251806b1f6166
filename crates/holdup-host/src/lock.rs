//! One run at a time on one host.
//!
//! The lock is flock(2) on a file that only its user can open: `/run/holdup/lock` for root, for an ordinary user one in
//! the runtime folder of that user. It ends with the process that holds it, however that ends. Beside it stands its holder,
//! the pid and when that process began, for people and for the runs of others: an ordinary user's run sees root's and
//! does not begin beside it. Nothing that an ordinary user does stops a run of root's, so root does not see theirs, and
//! ordinary users do not see each other's.

use crate::environment::{self, Variable};
use crate::{Host, process, state};
use holdup_files::{Folder, Owner, check_ancestors, is_private, private_folder};
use holdup_model::Problem;
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Root's folder, in which every user may read the holder.
const OF_ROOT: &str = "/run/holdup";
/// The file that is locked, mode 0600, so that no other user can lock it.
const LOCK: &str = "lock";
/// The holder, mode 0644: pid and start time.
const HOLDER: &str = "holder";

/// Held while a run is under way.
#[derive(Debug)]
pub struct HostLock {
    folder: Folder,
    file: File,
    pid: u32,
}

impl HostLock {
    /// Takes the lock, waiting at most `wait` for another run to end.
    ///
    /// # Errors
    /// When another run has it; the error names its pid. When `cancelled` says so while waiting. When the folder of the
    /// lock cannot be made or is another user's.
    pub fn take(wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<Self, Problem> {
        let root = Path::new(OF_ROOT);
        if rustix::process::geteuid().is_root() {
            return Self::take_in(|| open_to_all(root), None, wait, cancelled);
        }
        let us = rustix::process::geteuid().as_raw();
        Self::take_in(|| own_folder(us, &Variable::get), Some(root), wait, cancelled)
    }

    /// Takes the lock in this folder; `above` is that of a user whose runs come first.
    fn take_in(
        folder: impl FnOnce() -> io::Result<Folder>,
        above: Option<&Path>,
        wait: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, Problem> {
        let folder = folder().map_err(|e| failed(&e))?;
        let file = folder.open_or_create(LOCK, 0o600).map_err(|e| failed(&in_folder(folder.path(), &e)))?;
        let begun = Instant::now();
        loop {
            let holder = match above.and_then(holder_above) {
                Some(pid) => Some(pid),
                None => match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => break,
                    Err(Errno::WOULDBLOCK | Errno::INTR) => holder(&folder),
                    Err(e) => return Err(failed(&e.into())),
                },
            };
            if cancelled() {
                return Err(Problem::interrupted("waiting for another run on this host"));
            }
            if begun.elapsed() >= wait {
                return Err(taken(holder));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let lock = HostLock { folder, file, pid: std::process::id() };
        let start_time = process::start_time(&Host::real(), lock.pid)?;
        let text = format!("{} {start_time}\n", lock.pid);
        lock.folder.sweep(|left| left == HOLDER);
        let written = lock.folder.replace_synced(HOLDER, text.as_bytes(), 0o644);
        written.map_err(|e| failed(&e))?;
        Ok(lock)
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // A process forked from this one shares the lock: it must not end it, nor keep it.
        if self.pid == std::process::id() {
            // What is left names a process that has ended; the lock ends with the last descriptor.
            let _left = self.folder.remove(HOLDER);
            let _held = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// A folder of this user that all may see into and no other user can change.
fn open_to_all(path: &Path) -> io::Result<Folder> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::Error::other("the path has no folder above it"));
    };
    DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    let above = above.canonicalize()?;
    check_ancestors(&above)?;
    let parent = Folder::open(&above)?;
    let folder = match parent.create_folder(name, 0o755) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => parent.folder(name)?,
        made => made?,
    };
    folder.owner()?.must_be_ours().map_err(|e| in_folder(path, &e))?;
    Ok(folder)
}

/// The folder of an ordinary user's lock. It does not follow HOLDUP_STATE_DIR: one host has one lock.
fn own_folder(us: u32, get: &dyn Fn(&Variable) -> Option<String>) -> io::Result<Folder> {
    let named = get(&environment::XDG_RUNTIME_DIR).map(PathBuf::from);
    for runtime in named.into_iter().chain([PathBuf::from(format!("/run/user/{us}"))]) {
        if runtime.is_absolute() && Folder::open(&runtime).is_ok_and(|folder| is_private(&folder)) {
            return private_folder(&runtime.join("holdup"));
        }
    }
    let without_state_dir = |variable: &Variable| get(variable).filter(|_| *variable != environment::STATE_DIR);
    private_folder(Path::new(&state::dir_for(us, &without_state_dir)))
}

/// The process that holds the lock in a folder, if it says so and runs.
fn holder(folder: &Folder) -> Option<u32> {
    let file = folder.open_file(HOLDER).ok()?;
    let (ours, its) = (folder.owner().ok()?, Owner::of(&fstat(&file).ok()?));
    if its.uid != ours.uid || its.others_may_write() {
        return None;
    }
    let mut text = String::new();
    file.take(64).read_to_string(&mut text).ok()?;
    let (pid, start_time) = text.trim_end().split_once(' ')?;
    let (pid, start_time): (u32, u64) = (pid.parse().ok()?, start_time.parse().ok()?);
    match process::start_time(&Host::real(), pid) {
        Ok(now) => (now == start_time && process::alive(&Host::real(), pid, start_time)).then_some(pid),
        // /proc may hide other users' processes (hidepid); a signal is refused then, but not as to one that is not there.
        Err(_) => {
            let raw = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
            (rustix::process::test_kill_process(raw) == Err(Errno::PERM)).then_some(pid)
        }
    }
}

/// The run of root that is under way, as its folder says.
fn holder_above(path: &Path) -> Option<u32> {
    let folder = Folder::open(path).ok()?;
    let owner = folder.owner().ok().filter(|owner| !owner.others_may_write())?;
    if path == Path::new(OF_ROOT) && owner.uid != 0 {
        return None;
    }
    holder(&folder)
}

fn in_folder(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

fn taken(pid: Option<u32>) -> Problem {
    let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
    Problem::host("this host", format!("another holdup run is under way ({by})")).hint(
        "wait for it to end, or give --wait to queue behind it: two runs at the same time would measure each other",
    )
}

fn failed(e: &io::Error) -> Problem {
    let words = e.to_string();
    let words = words.split(" (os error").next().unwrap_or_default().to_owned();
    Problem::host("the lock of this host", words).hint(
        "root's is /run/holdup/lock; an ordinary user's is in $XDG_RUNTIME_DIR/holdup, which must belong to that user",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::{Command, Stdio};

    fn take(folder: &Path) -> Result<HostLock, Problem> {
        HostLock::take_in(|| open_to_all(folder), None, Duration::ZERO, &|| false)
    }

    fn top() -> (tempfile::TempDir, PathBuf) {
        let top = tempfile::tempdir().expect("a folder");
        let folder = top.path().join("holdup");
        (top, folder)
    }

    #[test]
    fn the_second_run_is_refused_with_the_pid_of_the_first() {
        let (_top, folder) = top();
        DirBuilder::new().mode(0o755).create(&folder).expect("writable");
        let left = folder.join(".holder.abcdefghabcdefgh");
        fs::write(&left, "").expect("writable");
        let first = take(&folder).expect("free");
        assert!(!left.exists(), "a run that was killed left it");
        let refused = take(&folder).expect_err("taken");
        assert!(refused.why.contains(&format!("pid {}", std::process::id())), "{refused}");
        let wait = Duration::from_secs(60);
        let cancelled = HostLock::take_in(|| open_to_all(&folder), None, wait, &|| true).expect_err("cancelled");
        assert_eq!(cancelled.kind, holdup_model::ProblemKind::Interrupted);
        let mode = |name: &str| fs::metadata(folder.join(name)).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode("."), mode(LOCK), mode(HOLDER)), (0o755, 0o600, 0o644));
        drop(first);
        assert!(!folder.join(HOLDER).exists());
        take(&folder).expect("free again");
    }

    #[test]
    fn an_ordinary_users_run_waits_for_roots_and_not_the_other_way_round() {
        let (top, roots) = top();
        let own = || private_folder(&top.path().join("own"));
        let take_own = || HostLock::take_in(own, Some(&roots), Duration::ZERO, &|| false);
        let theirs = take_own().expect("root runs nothing");
        let running = take(&roots).expect("no other user stops root");
        drop(theirs);
        let refused = take_own().expect_err("root's run is under way");
        assert!(refused.why.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(running);
        take_own().expect("free again");
    }

    #[test]
    fn a_holder_that_has_ended_is_not_believed() {
        let (top, roots) = top();
        drop(take(&roots).expect("free"));
        let start_time = process::start_time(&Host::real(), std::process::id()).expect("it runs");
        let me = std::process::id();
        let own = || private_folder(&top.path().join("own"));
        for (text, runs) in [
            (format!("{me} {start_time}\n"), true),
            (format!("{me} {}\n", start_time + 1), false),
            (format!("{} 1\n", u32::MAX), false),
            (format!("4194304 {start_time}\n"), false),
            ("garbage".to_owned(), false),
            (format!("{me} {start_time}{}", " ".repeat(100)), true),
        ] {
            fs::write(roots.join(HOLDER), &text).expect("ours");
            let took = HostLock::take_in(own, Some(&roots), Duration::ZERO, &|| false);
            assert_eq!(took.is_err(), runs, "{text:?}");
        }
        fs::set_permissions(roots.join(HOLDER), fs::Permissions::from_mode(0o666)).expect("ours");
        HostLock::take_in(own, Some(&roots), Duration::ZERO, &|| false).expect("others may have written it");
    }

    #[test]
    fn another_process_holds_it_until_it_ends() {
        let (_top, folder) = top();
        drop(take(&folder).expect("free"));
        let script = "exec 9>>\"$0\"; flock 9; echo held; read wait";
        let mut other = Command::new("sh")
            .args(["-c", script])
            .arg(folder.join(LOCK))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh is there");
        let mut line = [0; 5];
        other.stdout.take().expect("piped").read_exact(&mut line).expect("flock of util-linux");
        assert_eq!(&line, b"held\n");
        assert!(take(&folder).expect_err("taken").why.contains("another process"));
        drop(other.stdin.take());
        other.wait().expect("it ends");
        take(&folder).expect("free again");
    }

    #[test]
    fn nothing_that_others_plant_holds_it() {
        // The lock was this socket once, which any user could bind.
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        let _bound = bind(&socket, &SocketAddrUnix::new_abstract_name(b"holdup-run").expect("a name"));
        let (top, folder) = top();
        take(&folder).expect("a socket is no lock");
        let lock = folder.join(LOCK);
        let refused = |expect: &str| {
            let problem = take(&folder).expect_err(expect).to_string();
            assert!(problem.contains(expect), "{problem}");
        };
        fs::remove_file(&lock).expect("ours");
        let secret = top.path().join("secret");
        fs::write(&secret, "secret").expect("writable");
        symlink(&secret, &lock).expect("ours");
        refused("the lock of this host");
        fs::remove_file(&lock).expect("ours");
        mknodat(CWD, &lock, FileType::Fifo, 0o600.into(), 0).expect("ours");
        refused("it is a FIFO");
        fs::remove_file(&lock).expect("ours");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
        refused("other users may write it");
        assert_eq!(fs::read_to_string(&secret).expect("ours"), "secret");
    }

    #[test]
    #[ignore = "takes root, which alone can give files away"]
    fn a_lock_of_another_user_is_refused() {
        let (_top, folder) = top();
        take(&folder).expect("ours");
        let lock = folder.join(LOCK);
        let refused = |expect: &str| {
            let problem = take(&folder).expect_err(expect).to_string();
            assert!(problem.contains(expect), "{problem}");
        };
        chown(&lock, Some(54_321), None).expect("root");
        refused("54321");
        chown(&folder, Some(54_321), None).expect("root");
        refused("54321");
    }

    #[test]
    fn the_folder_is_of_the_runtime_folder_of_the_user() {
        let (top, _) = top();
        let runtime = top.path().join("runtime");
        DirBuilder::new().mode(0o700).create(&runtime).expect("writable");
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let get = |variable: &Variable| match variable.name {
            "XDG_RUNTIME_DIR" => text(&runtime),
            "HOME" => text(top.path()),
            "HOLDUP_STATE_DIR" => Some("/nowhere".to_owned()),
            _ => None,
        };
        // A user without a folder of /run/user.
        let found = || own_folder(54_321, &get).expect("private").path().to_owned();
        assert_eq!(found(), runtime.canonicalize().expect("there").join("holdup"));
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("ours");
        let state = top.path().join(".local/state/holdup");
        assert_eq!(found(), state.canonicalize().expect("made"), "others can see into the runtime folder");
    }
}
