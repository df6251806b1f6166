//! One postmaster process: started, watched, stopped.

use super::child::{ChildOptions, Guarded, clean_command, last_lines, signal, spawn};
use super::find::Binaries;
use super::user::RunAs;
use crate::Cancel;
use holdup_model::Problem;
use postgres::{Config, NoTls};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(60);
/// How long a fast shutdown may take before an immediate one follows.
const FAST: Duration = Duration::from_secs(30);
/// How long an immediate shutdown may take before the kernel ends it.
const IMMEDIATE: Duration = Duration::from_secs(5);

/// What a server is started from.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) bin: Binaries,
    /// The private folder; the socket is in it.
    pub(crate) folder: PathBuf,
    pub(crate) user: Option<RunAs>,
}

impl Place {
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    pub(crate) fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.folder).user("holdup").dbname(database).application_name("holdup");
        config
    }

    /// The last lines that the server wrote into its log, from `from` on.
    pub(crate) fn log_end(&self, from: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.log())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(from.max(length.saturating_sub(16_384))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match read() {
            Ok(text) => last_lines(&text, 4),
            Err(e) => format!("its log cannot be read: {e}"),
        }
    }
}

/// A postmaster that runs. Dropping it ends it at once.
#[derive(Debug)]
pub(crate) struct Server {
    child: Guarded,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(crate) fn start(place: &Place, cancel: Option<&Cancel>) -> Result<Self, Problem> {
        let what = "PostgreSQL server";
        let failed = |e: std::io::Error| Problem::host(what, e.to_string());
        let log = File::options().create(true).append(true).open(place.log()).map_err(failed)?;
        let log_from = log.metadata().map_err(failed)?.len();
        let mut command = clean_command(&place.bin.program("postgres"));
        // On the command line, because these two must win over any file: no port is opened.
        let socket = place.folder.display().to_string().replace('"', "\"\"");
        command
            .arg("-D")
            .arg(place.data())
            .args(["-c", "listen_addresses="])
            .arg("-c")
            .arg(format!("unix_socket_directories=\"{socket}\""))
            .current_dir(&place.folder)
            .stdout(Stdio::null())
            .stderr(log);
        // SIGQUIT is an immediate shutdown: the postmaster takes its children and shared memory with it.
        let options = ChildOptions { user: place.user.clone(), death_signal: libc::SIGQUIT, many_files: true };
        let child = spawn(command, &options).map_err(failed)?;
        let mut server = Server { child: Guarded(child) };
        match server.wait_until_it_answers(place, log_from, cancel) {
            Ok(()) => Ok(server),
            Err(problem) => {
                server.stop(false);
                Err(problem)
            }
        }
    }

    fn wait_until_it_answers(&mut self, place: &Place, log_from: u64, cancel: Option<&Cancel>) -> Result<(), Problem> {
        let what = "PostgreSQL server";
        let socket = place.folder.join(".s.PGSQL.5432");
        let config = place.config("postgres");
        let begun = Instant::now();
        let mut last = String::from("its socket never came");
        loop {
            if !self.is_alive() {
                let said = place.log_end(log_from);
                return Err(Problem::host(what, format!("it ended while it started; its log says: {said}")));
            }
            if socket.exists() {
                match config.connect(NoTls) {
                    Ok(_answers) => return Ok(()),
                    Err(e) => last = super::sql::said(&e),
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
    }
}

/// Ends the postmaster of a data folder whose owner is gone, if it still runs there. Whether nothing
/// runs there any more.
pub(crate) fn end_orphan(host: &holdup_host::Host, data: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(data.join("postmaster.pid")) else { return true };
    let Some(pid) = text.lines().next().and_then(|line| line.trim().parse::<i32>().ok()) else { return true };
    let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|pid| pid.as_raw_nonzero().get() > 1) else {
        return true;
    };
    let number = pid.as_raw_nonzero().get().unsigned_abs();
    let Ok(data) = std::fs::canonicalize(data) else { return false };
    // The pid may be another's by now: a postmaster works in its data folder, and is called postgres.
    let works_there = || {
        let comm = host.read_value(&format!("/proc/{number}/comm")).unwrap_or_default();
        comm.starts_with("postgres") && std::fs::read_link(format!("/proc/{number}/cwd")).is_ok_and(|cwd| cwd == data)
    };
    for how in [Signal::QUIT, Signal::KILL] {
        if !works_there() {
            return true;
        }
        let _sent = rustix::process::kill_process(pid, how);
        let begun = Instant::now();
        while works_there() && begun.elapsed() < IMMEDIATE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    !works_there()
}
