//! Which network namespaces tasks use.

use super::namespace::Namespace;
use crate::Host;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// Sockets that are looked at in one process.
const MOST_SOCKETS: usize = 20_000;

/// Asks a socket for its network namespace (include/uapi/linux/sockios.h).
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// A network namespace that tasks use.
#[derive(Debug)]
pub struct TasksNamespace {
    namespace: Namespace,
    /// Its number, as `/proc/PID/ns/net` shows it.
    pub inode: u64,
}

impl TasksNamespace {
    pub(super) fn new(namespace: Namespace, inode: u64) -> Self {
        TasksNamespace { namespace, inode }
    }

    /// Runs something within it, in a new thread.
    pub(super) fn within<T: Send>(&self, job: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.namespace.within(job)
    }

    /// A file of `/proc/net` as it is there, such as `snmp`.
    ///
    /// # Errors
    /// When the namespace cannot be entered (CAP_SYS_ADMIN) or there is no such file.
    pub fn read_text(&self, name: &str) -> io::Result<String> {
        self.within(|| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")))?
    }
}

impl Host {
    /// The network namespaces that threads of these processes are in or that their sockets are of, each once, in the
    /// order of their numbers. A socket stays in the namespace that it was made in, wherever its task goes. Processes that
    /// ended meanwhile, and sockets of processes that may not be looked into, add nothing.
    pub fn network_namespaces(&self, processes: &[u32]) -> Vec<TasksNamespace> {
        if !self.is_live() {
            return Vec::new();
        }
        let mut found = BTreeMap::new();
        for process in processes {
            of_threads(*process, &mut found);
            of_sockets(*process, &mut found);
        }
        found.into_iter().map(|(inode, file)| TasksNamespace::new(Namespace::of(file), inode)).collect()
    }

    /// The numbers of the files of these processes that are sockets, as `/proc/PID/fd` shows them (`socket:[NUMBER]`).
    /// Processes that ended meanwhile, or may not be looked into, add nothing.
    pub fn socket_files(&self, processes: &[u32]) -> BTreeSet<u64> {
        let number = |file: std::fs::DirEntry| {
            let leads_to = std::fs::read_link(file.path()).ok()?;
            leads_to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        };
        let of = |process: &u32| std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        if self.is_live() { processes.iter().flat_map(of).filter_map(number).collect() } else { BTreeSet::new() }
    }
}

fn of_threads(process: u32, found: &mut BTreeMap<u64, File>) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    for thread in threads.flatten() {
        if let Ok(file) = File::open(thread.path().join("ns/net")) {
            note(file, found);
        }
    }
}

fn of_sockets(process: u32, found: &mut BTreeMap<u64, File>) {
    let folder = format!("/proc/{process}/fd");
    let Ok(files) = std::fs::read_dir(&folder) else { return };
    let is_socket = |file: &std::fs::DirEntry| {
        let leads_to = std::fs::read_link(file.path());
        leads_to.is_ok_and(|to| to.to_str().is_some_and(|name| name.starts_with("socket:")))
    };
    let numbers = files.flatten().filter(is_socket).take(MOST_SOCKETS);
    let numbers: Vec<i32> = numbers.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    for number in numbers {
        let Ok(socket) = pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) else { continue };
        if let Ok(file) = of_socket(&socket) {
            note(file, found);
        }
    }
}

/// The namespace of a socket.
fn of_socket(socket: &OwnedFd) -> io::Result<File> {
    // SAFETY: the call takes no argument beside the socket and gives a file descriptor or -1.
    let fd = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this process, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

fn note(file: File, found: &mut BTreeMap<u64, File>) {
    if let Ok(facts) = file.metadata() {
        found.entry(facts.ino()).or_insert(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    #[ignore = "takes root: a network namespace"]
    fn the_namespaces_of_threads_and_of_sockets_are_found() {
        let host = Host::real();
        let own = std::process::id();
        let before = host.network_namespaces(&[own]);
        let mine = std::fs::metadata("/proc/self/ns/net").expect("/proc").ino();
        assert!(before.iter().any(|n| n.inode == mine));
        assert!(host.network_namespaces(&[0, u32::MAX]).is_empty());
        let namespace = Namespace::make().expect("root");
        // The socket stays there; no thread does.
        let socket = namespace.within(|| UdpSocket::bind("0.0.0.0:0")).expect("a thread in it").expect("a socket");
        let is_new = |n: &&TasksNamespace| before.iter().all(|b| b.inode != n.inode);
        let after = host.network_namespaces(&[own]);
        let snmp = after.iter().find(is_new).map(|n| n.read_text("snmp"));
        drop(socket);
        let snmp = snmp.expect("the namespace of the socket").expect("its counters");
        assert!(snmp.contains("Tcp: "), "{snmp}");
    }
}
