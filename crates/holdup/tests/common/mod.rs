//! Runs the real binary in its own folder.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod cluster;
pub(crate) mod server;
pub(crate) mod ssh;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs what must be refused, and looks for words in what it says.
#[track_caller]
pub(crate) fn refused(place: &Sandbox, code: i32, args: &[&str], says: &[&str]) {
    let (_, err) = place.expect(code, args);
    for word in says {
        assert!(err.contains(word), "`{word}` is missing in:\n{err}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

/// The binary under test: the release where the environment names it, which is what users have, and which takes less time to copy to
/// hosts and to start than a build for tests.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("HOLDUP_RELEASE_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_holdup").into(), PathBuf::from)
}

/// How much the tests with the label `long` do: inputs, kills, seconds of a hostile agent, and the seed of all.
const LONG: [(&str, u64); 4] = [("inputs", 10_000), ("kills", 60), ("agent_s", 60), ("seed", 43)];

/// One of these numbers; `HOLDUP_LONG` names others, as `inputs=100000,seed=7`.
pub(crate) fn long(what: &str) -> u64 {
    let given = std::env::var("HOLDUP_LONG").unwrap_or_default();
    let asked = given.split(',').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == what);
    match asked {
        Some((_, number)) => number.parse().expect("HOLDUP_LONG: a number"),
        None => LONG.iter().find(|(name, _)| *name == what).expect("a number of a test").1,
    }
}

/// The most memory that a child has had so far, bytes; 0 of one that has ended.
pub(crate) fn peak_bytes(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    peak.unwrap_or(0) << 10
}

/// A fresh folder with its own state, removed at the end.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        // /tmp itself, because an unprivileged PostgreSQL must be able to reach what lies below it.
        Sandbox {
            folder: tempfile::Builder::new().prefix("holdup-test-").tempdir_in("/tmp").expect("a folder in /tmp"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.write_bytes(name, text.as_bytes())
    }

    pub(crate) fn write_bytes(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file in a fresh folder");
        path
    }

    /// The binary, with this folder as its working directory and its state kept here.
    pub(crate) fn holdup(&self, args: &[&str]) -> Command {
        self.command(&program(), args)
    }

    /// The same with a binary that is linked dynamically, for what is preloaded.
    pub(crate) fn dynamic(&self, args: &[&str]) -> Command {
        self.command(Path::new(env!("CARGO_BIN_EXE_holdup")), args)
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("HOLDUP_STATE_DIR", self.path("state"))
            .env("HOLDUP_CACHE", self.path("cache"))
            .env("HOLDUP_WAIT", "10m")
            .env_remove("HOLDUP_NO_PROGRESS")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.holdup(args).output().expect("the binary starts")
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.holdup(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }

    /// Runs and expects an exit code; gives stdout and stderr.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.output(args);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "holdup {args:?}\nstdout: {out}\nstderr: {err}");
        (out, err)
    }
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits until something holds, or fails with what was waited for.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "waited two minutes for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal to a child that this test started.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("the child is there");
}

pub(crate) fn is_root() -> bool {
    holdup_testkit::is_root()
}

/// The number of trials in a bundle, or `None` while it cannot be read.
pub(crate) fn trials_in(place: &Sandbox, bundle: &str) -> Option<usize> {
    let output = place.output(&["list", "trials", bundle, "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(document.get("members")?.as_array()?.len())
}

/// Processes whose command line mentions a path: what a run left behind.
pub(crate) fn processes_with(path: &Path) -> Vec<String> {
    let needle = path.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("a /proc").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|b| b.is_ascii_digit())
            && let Ok(line) = std::fs::read(entry.path().join("cmdline"))
        {
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&needle) {
                found.push(format!("{name}: {line}"));
            }
        }
    }
    found
}
