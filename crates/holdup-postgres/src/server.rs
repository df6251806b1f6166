//! One postmaster process: started, watched, stopped.

use super::child::{ChildOptions, Guarded, clean_command, last_lines, signal, spawn};
use super::find::Binaries;
use super::network::Network;
use super::user::RunAs;
use holdup_files::Folder;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::Problem;
use holdup_sql::{Client, Config};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(60);
/// How long a fast shutdown may take before an immediate one follows.
const FAST: Duration = Duration::from_secs(30);
/// How long an immediate shutdown may take before the kernel ends it.
/// The postmaster itself gives its children 5 s (`SIGKILL_CHILDREN_AFTER_SECS` in postmaster.c, 15.18).
const IMMEDIATE: Duration = Duration::from_secs(10);

/// What a server is started from.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) bin: Binaries,
    /// The user that the server runs as; `None` for ours.
    pub(crate) user: Option<RunAs>,
    /// The data folder, which is the server's.
    pub(crate) data: Folder,
    /// The folder of its socket, which only the server's user can enter: its connections need no password.
    pub(crate) sockets: Folder,
    /// What it writes, in a file of ours.
    pub(crate) log: File,
    /// The way in from another host.
    pub(crate) network: Option<Network>,
}

impl Layout {
    pub(crate) fn socket(&self) -> PathBuf {
        self.sockets.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// The port, which names the socket too.
    pub(crate) fn port(&self) -> u16 {
        self.network.as_ref().map_or(5432, |network| network.at.port())
    }

    pub(crate) fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.sockets.path())
            .port(self.port())
            .user("holdup")
            .dbname(database)
            .application_name("holdup");
        config
    }

    /// The last lines that the server wrote into its log, from `from` on.
    pub(crate) fn log_end(&self, from: u64) -> String {
        match end_of(&self.log, from) {
            Ok(text) => last_lines(&text, 4),
            Err(e) => format!("its log cannot be read: {e}"),
        }
    }
}

/// The last 16 KiB of a file, from `from` on.
pub(crate) fn end_of(file: &File, from: u64) -> io::Result<String> {
    const MOST: u64 = 16_384;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; MOST as usize];
    let read = file.read_at(&mut bytes, from.max(length.saturating_sub(MOST)))?;
    Ok(String::from_utf8_lossy(&bytes[..read]).into_owned())
}

/// A postmaster that runs. Dropping it ends it immediately.
#[derive(Debug)]
pub(crate) struct Server {
    child: Guarded,
    host: Host,
    processes: ServerProcesses,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(crate) fn start(
        host: &Host,
        layout: &Layout,
        programs: &Path,
        cancel: Option<&Cancel>,
    ) -> Result<Self, Problem> {
        let what = "PostgreSQL server";
        let failed = |e: std::io::Error| Problem::host(what, e.to_string());
        let processes = ServerProcesses::of(&layout.data).map_err(failed)?;
        let log_from = layout.log.metadata().map_err(failed)?.len();
        let mut command = clean_command(&programs.join("postgres"));
        // On the command line, because these must win over any file: no port is opened but for client hosts.
        let listen = layout.network.as_ref().map(|network| network.at.ip().to_string()).unwrap_or_default();
        let socket = layout.sockets.path().display().to_string().replace('"', "\"\"");
        command
            .arg("-D")
            .arg(layout.data.path())
            .arg("-c")
            .arg(format!("listen_addresses={listen}"))
            .arg("-c")
            .arg(format!("port={}", layout.port()))
            .arg("-c")
            .arg(format!("unix_socket_directories=\"{socket}\""))
            .current_dir(layout.data.path())
            .stdout(Stdio::null())
            .stderr(layout.log.try_clone().map_err(failed)?);
        // SIGQUIT is an immediate shutdown: the postmaster takes its children and shared memory with it.
        let options = ChildOptions { user: layout.user.clone(), death_signal: libc::SIGQUIT, many_files: true };
        let child = spawn(command, &options).map_err(failed)?;
        let mut server = Server { child: Guarded(child), host: host.clone(), processes };
        match server.wait_until_it_answers(layout, log_from, cancel) {
            Ok(()) => Ok(server),
            Err(problem) => {
                server.stop(false);
                Err(problem)
            }
        }
    }

    fn wait_until_it_answers(
        &mut self,
        layout: &Layout,
        log_from: u64,
        cancel: Option<&Cancel>,
    ) -> Result<(), Problem> {
        let what = "PostgreSQL server";
        let socket = layout.socket();
        let config = layout.config("postgres");
        let begun = Instant::now();
        let mut last = String::from("its socket never came");
        loop {
            if !self.is_alive() {
                let said = layout.log_end(log_from);
                return Err(Problem::host(what, format!("it ended while it started; its log says: {said}")));
            }
            if socket.exists() {
                match Client::connect(&config) {
                    Ok(_answers) => return Ok(()),
                    Err(e) => last = e.to_string(),
                }
            }
            if cancel.is_some_and(Cancel::is_cancelled) {
                return Err(Problem::interrupted("starting PostgreSQL"));
            }
            if begun.elapsed() > START {
                return Err(Problem::host(what, format!("no answer after {} s: {last}", START.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.0.try_wait(), Ok(None))
    }

    /// Ends it: by a fast shutdown when its data are wanted again, else by an immediate one.
    pub(crate) fn stop(&mut self, keep_data: bool) {
        let steps: &[(Signal, Duration)] = &[(Signal::INT, FAST), (Signal::QUIT, IMMEDIATE)];
        for (how, limit) in &steps[usize::from(!keep_data)..] {
            if !self.is_alive() {
                return;
            }
            signal(&self.child.0, *how);
            // One that was stopped acts on no signal but this one and SIGKILL (signal(7)).
            signal(&self.child.0, Signal::CONT);
            // Not to be cancelled: on Ctrl-C the server must end all the more.
            if matches!(self.child.wait("stopping PostgreSQL", *limit, None), Ok(Some(_))) {
                return;
            }
        }
        // What is left is killed and reaped by the guard.
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(false);
        // The guard's part, and then those that a postmaster that had to be killed has left.
        let _gone_already = self.child.0.kill();
        let _reaped = self.child.0.wait();
        self.processes.end(&self.host);
    }
}

/// Ends the processes of a server that work in a data folder, if they still run. Whether none runs there any more.
///
/// The folder belongs to the server's user, who may write any number into postmaster.pid: so processes are found by
/// where they work, and one is ended only if it belongs to the same user as the folder, and not to root.
pub(crate) fn end_orphans(host: &Host, data: &Folder) -> bool {
    // Data that still are root's had no server yet: PostgreSQL refuses to run as root.
    data.owner().is_ok_and(|owner| owner.uid == 0)
        || ServerProcesses::of(data).is_ok_and(|processes| processes.end(host))
}

/// What distinguishes a process of a server in its data folder from any other one.
#[derive(Debug)]
struct ServerProcesses {
    device: u64,
    inode: u64,
    uid: u32,
}

impl ServerProcesses {
    fn of(data: &Folder) -> io::Result<Self> {
        let found = rustix::fs::fstat(data.fd())?;
        if found.st_uid == 0 {
            return Err(io::Error::other("no server of root's works anywhere: PostgreSQL refuses to run as root"));
        }
        Ok(ServerProcesses { device: found.st_dev, inode: found.st_ino, uid: found.st_uid })
    }

    /// Ends them. Whether none runs any more.
    fn end(&self, host: &Host) -> bool {
        for how in [Signal::QUIT, Signal::KILL] {
            let begun = Instant::now();
            // A postmaster takes its children with it on SIGQUIT; each of them gets it where there is none any more.
            for process in self.processes(host) {
                let _gone_already = pidfd_send_signal(&process, how);
                let _gone_already = pidfd_send_signal(&process, Signal::CONT);
            }
            while !self.processes(host).is_empty() && begun.elapsed() < IMMEDIATE {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.processes(host).is_empty()
    }

    /// Those that run, held by descriptors, so that a pid that is used again is never signalled (pidfd_open(2)).
    fn processes(&self, host: &Host) -> Vec<OwnedFd> {
        let names = host.list("/proc").unwrap_or_default();
        let pids = names.iter().filter_map(|name| name.parse::<i32>().ok()).filter_map(Pid::from_raw);
        pids.filter_map(|pid| {
            // Opened before it is checked, so that the check is about the process that the descriptor holds.
            self.is_of(host, pid).then_some(())?;
            let held = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            self.is_of(host, pid).then_some(held)
        })
        .collect()
    }

    fn is_of(&self, host: &Host, pid: Pid) -> bool {
        let number = pid.as_raw_nonzero().get();
        let works_there = rustix::fs::stat(format!("/proc/{number}/cwd"))
            .is_ok_and(|cwd| (cwd.st_dev, cwd.st_ino) == (self.device, self.inode));
        let status = || host.read_text(&format!("/proc/{number}/status")).unwrap_or_default();
        works_there && is_server_of(&status(), self.uid)
    }
}

/// True if /proc/PID/status (proc_pid_status(5)) is that of a running program `postgres` with this real user id.
fn is_server_of(status: &str, uid: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let real = field("Uid:").and_then(|ids| ids.split_ascii_whitespace().next()?.parse().ok());
    let is_dead = field("State:").is_none_or(|state| state.starts_with(['Z', 'X']));
    field("Name:").is_some_and(|name| name.starts_with("postgres")) && real == Some(uid) && !is_dead
}
