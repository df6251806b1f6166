//! Work that root does as another user: in a child that gives up root for good, is bounded and is ended when it is late.
//!
//! The child is forked and executes nothing, so it has to do with what fork(2) leaves of a process with threads. Memory
//! can be allocated there, because glibc holds its locks over the fork. Other locks may be held by threads that the child
//! does not have: what is done there opens files and computes, and touches neither the streams of the standard library nor
//! the environment. If it waits for a lock all the same, the deadline ends it.
//!
//! The child has a copy of root's memory. It is not dumpable, so that its user cannot look into it or stop it with
//! ptrace(2); credentials are set by system calls, which the one thread of the child needs alone. Its user may send it
//! signals, and then nothing is known.

use crate::{Host, HostError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getppid, kill_process, setrlimit, waitpid,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long a child may take.
const DEADLINE: Duration = Duration::from_secs(2);
/// What it may answer at most, bytes.
const MOST_BYTES: usize = 32 << 20;
/// What it may allocate beside what it was forked with, bytes.
const MOST_MEMORY: u64 = 256 << 20;
/// Time on a CPU after which the kernel ends it, seconds.
const MOST_CPU_S: u64 = 3;

/// As whom something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its id.
    pub uid: u32,
    /// The id of its group.
    pub gid: u32,
    /// The ids of its supplementary groups.
    pub groups: Vec<u32>,
}

impl User {
    /// The real user of a process (proc_pid_status(5)): the user who started it, also where the program is set-user-ID.
    ///
    /// # Errors
    /// When there is no such process, or its status cannot be understood.
    pub fn of_process(host: &Host, pid: u32) -> Result<Self, HostError> {
        // 65,536 groups is the most that a process can have.
        const LONGEST: usize = 1 << 20;
        let path = format!("/proc/{pid}/status");
        let status = host.read_bounded(&path, LONGEST)?;
        let status = String::from_utf8_lossy(&status);
        let ids = |name: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().map(|id| id.parse().ok()).collect()
        };
        let first = |name: &str| ids(name)?.first().copied();
        let user = || Some(User { uid: first("Uid:")?, gid: first("Gid:")?, groups: ids("Groups:")? });
        let why = std::io::Error::other("it has no user, group and groups");
        user().ok_or_else(|| HostError::new("read", &path, &why))
    }

    /// A user of whom only the number is known: with no rights of any group.
    pub fn alone(uid: u32) -> Self {
        const NOGROUP: u32 = 65_534;
        User { uid, gid: NOGROUP, groups: Vec::new() }
    }
}

/// Does something as another user, which is not root, and gives the result.
///
/// # Errors
/// Why that is not known: this process may not become the user, or the work took too long, needed too much memory or
/// was ended.
pub fn run<T: Serialize + DeserializeOwned>(user: &User, work: impl FnOnce() -> T) -> Result<T, String> {
    run_within(user, DEADLINE, work)
}

fn run_within<T: Serialize + DeserializeOwned>(
    user: &User,
    deadline: Duration,
    work: impl FnOnce() -> T,
) -> Result<T, String> {
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| cannot("make a pipe", e))?;
    let begun = Instant::now();
    let parent = rustix::process::getpid();
    // SAFETY: the child keeps to what the head of this file says, and ends in `child` without returning here.
    let pid = match unsafe { libc::fork() } {
        0 => child(user, parent, &write_end, work),
        pid => pid,
    };
    drop(write_end);
    let pid = Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 0);
    let Some(pid) = pid else { return Err(cannot("start a process", std::io::Error::last_os_error())) };
    let answer = answer(read_end, begun + deadline);
    // It has ended, or is not waited for: it is ours and not yet reaped, so the pid is that of no other process.
    let _ended = kill_process(pid, Signal::KILL);
    let status = reap(pid);
    match answer {
        Err(Late) => Err(format!("it took more than {} s", deadline.as_secs_f64())),
        Ok(bytes) if bytes.len() > MOST_BYTES => Err(format!("its result has more than {MOST_BYTES} bytes")),
        Ok(bytes) => match ciborium::from_reader::<Result<T, String>, _>(bytes.as_slice()) {
            Ok(done) => done,
            Err(_) => match status.and_then(WaitStatus::terminating_signal) {
                Some(libc::SIGABRT) => Err(format!("it needs more than {} MiB of memory", MOST_MEMORY >> 20)),
                Some(signal) if !bytes.is_empty() || signal != libc::SIGKILL => {
                    Err(format!("the process that does it was ended by signal {signal}"))
                }
                _ => Err("the process that does it was ended".to_owned()),
            },
        },
    }
}

fn cannot(what: &str, e: impl Into<std::io::Error>) -> String {
    let e = HostError::new("read", "", &e.into());
    format!("holdup cannot {what}: {}", e.message)
}

/// The answer did not end in time.
struct Late;

fn answer(read_end: OwnedFd, until: Instant) -> Result<Vec<u8>, Late> {
    let mut file = File::from(read_end);
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    while bytes.len() <= MOST_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Late);
        }
        let timeout =
            rustix::event::Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => break,
        }
        match file.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    }
    Ok(bytes)
}

/// Waits for the end of a child that was killed, but not for one that hangs in the kernel.
fn reap(pid: Pid) -> Option<WaitStatus> {
    for _ in 0..100 {
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return Some(status),
            Ok(None) | Err(Errno::INTR) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => return None,
        }
    }
    None
}

fn child<T: Serialize>(user: &User, parent: Pid, write_end: &OwnedFd, work: impl FnOnce() -> T) -> ! {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let done = give_up_root(user, parent, write_end).map(|()| work());
        let mut bytes = Vec::new();
        ciborium::into_writer(&done, &mut bytes).ok()?;
        // Without a reader it is of no use.
        let mut pipe = File::from(write_end.try_clone().ok()?);
        pipe.write_all(&bytes).ok()
    }));
    // SAFETY: ends the process without running what the parent registered for its own end.
    unsafe { libc::_exit(i32::from(!matches!(done, Ok(Some(()))))) }
}

/// Becomes the user, and makes sure that there is no way back.
fn give_up_root(user: &User, parent: Pid, write_end: &OwnedFd) -> Result<(), String> {
    if user.uid == 0 {
        return Err("root is no user to read as".to_owned());
    }
    close_all_but(write_end).map_err(|e| cannot("open /dev/null", e))?;
    limit().map_err(|e| cannot("bound a process", e))?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let become_it = || -> rustix::io::Result<()> {
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    };
    become_it().map_err(|e| cannot(&format!("become the user with id {}", user.uid), e))?;
    let root = Uid::ROOT;
    let is_back = rustix::thread::set_thread_res_uid(root, root, root).is_ok();
    let left = rustix::thread::capabilities(None).map_err(|e| cannot("see its capabilities", e))?;
    if is_back || !left.effective.is_empty() || !left.permitted.is_empty() {
        return Err("holdup cannot give up root".to_owned());
    }
    // After the credentials: the kernel takes both back when they change (kernel/cred.c:commit_creds, v6.18).
    let confine = || -> rustix::io::Result<()> {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
    };
    confine().map_err(|e| cannot("confine a process", e))?;
    if getppid() == Some(parent) { Ok(()) } else { Err("the parent has ended".to_owned()) }
}

/// Closes what root had open. The standard streams lead nowhere: what the standard library says of a failure is not for
/// the terminal.
fn close_all_but(kept: &OwnedFd) -> rustix::io::Result<()> {
    let nowhere = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for stream in 0..3 {
        // SAFETY: it replaces a descriptor that no value owns.
        unsafe { libc::dup2(nowhere.as_raw_fd(), stream) };
    }
    let kept = kept.as_fd().as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: nothing in this process uses a descriptor afterwards that is not opened afterwards. A kernel before
            // 5.9 does not know the call; then they stay open, and nothing here uses them either.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
    // It is closed by now.
    std::mem::forget(nowhere);
    Ok(())
}

fn limit() -> rustix::io::Result<()> {
    let statm = Host::real().read_text("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let memory = pages * rustix::param::page_size() as u64 + MOST_MEMORY;
    for (resource, most) in
        [(Resource::Core, 0), (Resource::Fsize, 0), (Resource::Cpu, MOST_CPU_S), (Resource::As, memory)]
    {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn stranger() -> User {
        User { uid: 54_321, gid: 54_322, groups: vec![54_323, 54_324] }
    }

    #[test]
    #[ignore = "takes root, which alone can become another user"]
    fn the_child_is_the_user_and_cannot_become_root_again() {
        let status = run(&stranger(), || {
            // SAFETY: plain calls, which are to fail.
            let regained = unsafe {
                let hard = libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY };
                [
                    libc::setuid(0),
                    libc::seteuid(0),
                    libc::setgid(0),
                    libc::setgroups(0, std::ptr::null()),
                    libc::setrlimit(libc::RLIMIT_CORE, &raw const hard),
                ]
            };
            (regained, fs::read_to_string("/proc/self/status").unwrap_or_default())
        });
        let (regained, status) = status.expect("it becomes the user");
        assert_eq!(regained, [-1; 5]);
        for line in [
            "Uid:\t54321\t54321\t54321\t54321",
            "Gid:\t54322\t54322\t54322\t54322",
            "Groups:\t54323 54324 ",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Threads:\t1",
        ] {
            assert!(status.lines().any(|found| found == line), "{line}: {status}");
        }
    }

    #[test]
    #[ignore = "takes root, which alone can become another user"]
    fn what_only_root_can_read_is_not_read_nor_written() {
        let top = tempfile::tempdir().expect("a folder");
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let (secret, open) = (top.path().join("secret"), top.path().join("open"));
        for (path, mode) in [(&secret, 0o600), (&open, 0o666)] {
            fs::write(path, "text").expect("writable");
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        }
        let held = fs::File::open(&secret).expect("root");
        let number = held.as_raw_fd();
        let found = run(&stranger(), || {
            let words = |e: std::io::Error| e.kind().to_string();
            (
                fs::read_to_string(&secret).map_err(words),
                fs::read_to_string(&open).map_err(words),
                fs::OpenOptions::new().write(true).open(&secret).is_ok(),
                fs::read_link(format!("/proc/self/fd/{number}")).is_ok(),
            )
        });
        let denied = std::io::ErrorKind::PermissionDenied.to_string();
        assert_eq!(found, Ok((Err(denied), Ok("text".to_owned()), false, false)));
        let written = run(&stranger(), || fs::write(&open, "changed").is_ok());
        assert_eq!(written, Err(format!("the process that does it was ended by signal {}", libc::SIGXFSZ)));
    }

    #[test]
    #[ignore = "takes root, which alone can become another user"]
    fn a_child_that_is_late_or_too_large_is_ended_and_nothing_is_known() {
        let late = run_within(&stranger(), Duration::from_millis(50), || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        assert_eq!(late, Err::<(), _>("it took more than 0.05 s".to_owned()));
        let large = run::<u64>(&stranger(), || {
            let pages: Vec<Vec<u8>> = (0..1024).map(|n| vec![n as u8; 1 << 20]).collect();
            pages.iter().map(|page| u64::from(page[page.len() - 1])).sum::<u64>()
        });
        // Late where the standard library writes a backtrace of it (RUST_BACKTRACE).
        let why = large.expect_err("four times of what it may have");
        assert!(why == "it needs more than 256 MiB of memory" || why == "it took more than 2 s", "{why}");
        let much = run(&stranger(), || "a".repeat(MOST_BYTES + 1));
        assert_eq!(much, Err(format!("its result has more than {MOST_BYTES} bytes")));
        let ended = run::<()>(&stranger(), || {
            // SAFETY: it ends the child.
            unsafe { libc::_exit(0) }
        });
        assert_eq!(ended, Err("the process that does it was ended".to_owned()));
        assert_eq!(run(&User::alone(0), || 1), Err("root is no user to read as".to_owned()));
        assert_eq!(run(&User::alone(54_321), || 1), Ok(1));
    }

    #[test]
    fn without_root_no_other_user_can_be_become() {
        let refuse = || run(&stranger(), || 1).err();
        let refused = match holdup_testkit::is_root() {
            true => run(&User::alone(54_322), refuse).expect("root may"),
            false => refuse(),
        };
        let why = "holdup cannot become the user with id 54321: operation not permitted";
        assert_eq!(refused.as_deref(), Some(why));
    }

    #[test]
    fn the_real_user_of_a_process_is_read_of_its_status() {
        let me = std::process::id();
        let user = User::of_process(&Host::real(), me).expect("it runs");
        assert_eq!(user.uid, rustix::process::getuid().as_raw());
        let fs = crate::fake::MemoryFs::of(&[
            ("/proc/7/status", "Name:\tx\nUid:\t7\t0\t0\t0\nGid:\t8\t0\t0\t0\nGroups:\t \n"),
            ("/proc/8/status", "Uid:\tx\n"),
        ]);
        let user = User::of_process(&fs.host(), 7).expect("a status");
        assert_eq!(user, User { uid: 7, gid: 8, groups: Vec::new() });
        User::of_process(&fs.host(), 8).expect_err("no status");
    }
}
