//! Work that is done as another user: what root asks on behalf of a server is asked as that server's user, so that root
//! reads nothing for anybody that this user could not read.
//!
//! The work runs in a forked child that gives up root for good (credentials(7)), and gives its result back through a
//! pipe, of bounded size and within a deadline. Only the thread that forks goes on in the child. What it does there may
//! allocate, because glibc makes its allocator usable in a child (fork(3)); it must not print, log or take a lock that
//! another thread may have held: work that reads files and parses them does neither. The child is not dumpable after the
//! change of its user (prctl(2), PR_SET_DUMPABLE), so that this user cannot look into what it inherited.

use crate::Host;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long the work may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How large its result may be, bytes.
const MOST_BYTES: u64 = 32 << 20;
/// How much memory it may take, bytes.
const MOST_MEMORY: libc::rlim_t = 512 << 20;

/// A user, with the groups that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl User {
    /// The real user of a process, with its groups (proc_pid_status(5)).
    pub(crate) fn of_process(host: &Host, pid: u32) -> Option<User> {
        let status = host.read_text(&format!("/proc/{pid}/status")).ok()?;
        let numbers = |name: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
        };
        let (uid, gid) = (*numbers("Uid:")?.first()?, *numbers("Gid:")?.first()?);
        Some(User { uid, gid, groups: numbers("Groups:")? })
    }

    /// The owner of a folder, with its group alone.
    pub(crate) fn of_folder(path: &str) -> Option<User> {
        let found = rustix::fs::stat(path).ok()?;
        Some(User { uid: found.st_uid, gid: found.st_gid, groups: Vec::new() })
    }
}

/// Does `work` as `user`: in a child where this process is root and `user` is not, else here. `None` for a user that is
/// not known stands for nobody else: the work is not done.
///
/// # Errors
/// When there is no such child, or it does not answer as it should.
pub(crate) fn as_user<T: Serialize + DeserializeOwned>(
    host: &Host,
    user: Option<&User>,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    if !host.is_live() || !rustix::process::geteuid().is_root() {
        return Ok(work());
    }
    match user {
        None => Err(io::Error::other("whose it is, is not known")),
        Some(user) if user.uid == 0 => Ok(work()),
        Some(user) => in_child(user, LONGEST, work),
    }
}

fn in_child<T: Serialize + DeserializeOwned>(
    user: &User,
    longest: Duration,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let (from_child, to_parent) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let parent = rustix::process::getpid();
    // SAFETY: the child keeps to what the head of this file allows, and never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(from_child);
        child(user, parent, File::from(to_parent), work);
    }
    let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| pid > 0) else {
        return Err(io::Error::last_os_error());
    };
    drop(to_parent);
    let answer = answer_of(File::from(from_child), longest);
    // It has not been waited for, so the pid is still its own.
    let _ended_already = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    let _reaped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    let bytes = answer?;
    ciborium::from_reader(bytes.as_slice())
        .map_err(|_| io::Error::other("the child that reads as that user ended early"))
}

/// Everything that comes until the other end is closed.
fn answer_of(mut from: File, longest: Duration) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = longest.saturating_sub(begun.elapsed());
        let timeout = rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)], Some(&timeout));
        match ready {
            Ok(0) => return Err(io::Error::other(format!("reading it took more than {} s", longest.as_secs_f64()))),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        match from.read(&mut buffer)? {
            0 => return Ok(bytes),
            read => bytes.extend_from_slice(&buffer[..read]),
        }
        if bytes.len() as u64 > MOST_BYTES {
            return Err(io::Error::other("it is too large"));
        }
    }
}

fn child<T: Serialize>(user: &User, parent: rustix::process::Pid, mut to: File, work: impl FnOnce() -> T) -> ! {
    /// Ends the process when it is dropped, so that an unwinding panic cannot leave the child's part of the code.
    struct NeverReturn;
    impl Drop for NeverReturn {
        fn drop(&mut self) {
            // SAFETY: ends the process without running anything of the parent's.
            unsafe { libc::_exit(70) };
        }
    }
    let _end = NeverReturn;
    if become_user(user) && rustix::process::getppid() == Some(parent) {
        let mut bytes = Vec::new();
        if ciborium::into_writer(&work(), &mut bytes).is_ok() {
            // A parent that reads no more has given up.
            let _given_up = to.write_all(&bytes);
        }
    }
    drop(to);
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}

/// Whether this process is that user now and can never be root again.
fn become_user(user: &User) -> bool {
    let limit = |what, most: libc::rlim_t| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: a plain system call on a value of this frame.
        unsafe { libc::setrlimit(what, &raw const limit) == 0 }
    };
    // SAFETY: plain system calls; the groups are a slice of this frame.
    let changed = unsafe {
        libc::setgroups(user.groups.len(), user.groups.as_ptr()) == 0
            && libc::setresgid(user.gid, user.gid, user.gid) == 0
            && libc::setresuid(user.uid, user.uid, user.uid) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            // After the change of the user, which clears it.
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) == 0
    };
    let is_bounded = limit(libc::RLIMIT_DATA, MOST_MEMORY)
        && limit(libc::RLIMIT_CPU, LONGEST.as_secs())
        && limit(libc::RLIMIT_CORE, 0)
        && limit(libc::RLIMIT_FSIZE, 0);
    // SAFETY: as above; the attempt must fail.
    let is_root_again = unsafe { libc::setresuid(0, 0, 0) == 0 };
    changed && is_bounded && !is_root_again && rustix::process::geteuid().as_raw() == user.uid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger() -> User {
        User { uid: 54_321, gid: 54_321, groups: vec![54_322] }
    }

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("ignored, because only root can become another user");
        }
        is_root
    }

    #[test]
    fn root_is_given_up_for_good() {
        if !is_root() {
            return;
        }
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "secret").unwrap();
        let found: (bool, Vec<u32>, u32) = in_child(&stranger(), LONGEST, || {
            let groups = rustix::process::getgroups().unwrap_or_default();
            let groups = groups.iter().map(|group| group.as_raw()).collect();
            (std::fs::read(secret.path()).is_ok(), groups, rustix::process::getuid().as_raw())
        })
        .unwrap();
        assert_eq!(found, (false, vec![54_322], 54_321));
        // SAFETY: a plain system call, in the child.
        let again: i32 = in_child(&stranger(), LONGEST, || unsafe { libc::setuid(0) }).unwrap();
        assert_eq!(again, -1);
        let open = tempfile::NamedTempFile::new().unwrap();
        let mut file = open.reopen().unwrap();
        let wrote: io::Result<bool> = in_child(&stranger(), LONGEST, move || file.write_all(b"x").is_ok());
        assert!(wrote.is_err(), "it writes no files, and is ended where it tries");
        assert_eq!(std::fs::read(open.path()).unwrap(), b"");
    }

    #[test]
    fn work_that_hangs_or_ends_early_is_an_error() {
        if !is_root() {
            return;
        }
        let hangs = in_child(&stranger(), Duration::from_millis(50), || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let hangs: io::Result<()> = hangs;
        assert_eq!(hangs.unwrap_err().to_string(), "reading it took more than 0.05 s");
        // SAFETY: ends the child.
        let ends: io::Result<()> = in_child(&stranger(), LONGEST, || unsafe { libc::_exit(3) });
        assert!(ends.unwrap_err().to_string().contains("ended early"));
        let large: io::Result<String> = in_child(&stranger(), LONGEST, || "x".repeat(40 << 20));
        assert_eq!(large.unwrap_err().to_string(), "it is too large");
    }

    #[test]
    fn the_user_of_a_process_is_known() {
        let host = Host::real();
        let own = User::of_process(&host, std::process::id()).unwrap();
        assert_eq!(own.uid, rustix::process::getuid().as_raw());
        assert_eq!(User::of_process(&host, 0), None);
        assert_eq!(as_user(&Host::at("/nowhere"), None, || 5).unwrap(), 5, "a tree is nobody's");
    }
}
