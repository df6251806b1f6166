//! What goes wrong is said, and nothing is left of it.

use crate::common::{holds, metric, run, run_and};
use holdup_model::{Problem, Value};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The processes that this one has begun and not waited for.
fn children() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("lists").flatten();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flat_map(|task| of(task).split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Runs a test of this file in its own process, because what it does is done to the whole process.
fn alone(name: &str, prepare: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> String {
    let mut command = Command::new(std::env::current_exe().expect("is known"));
    command.args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"]);
    // SAFETY: what is done there are system calls.
    let out = unsafe { command.pre_exec(prepare) }.output().expect("starts");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{name}: {text}");
    text
}

pub(crate) fn a_peer_that_dies_makes_the_trial_void() {
    alone("stream::failures::kills_a_server_worker", || Ok(()));
}

pub(crate) fn kills_a_server_worker() {
    for (connections, workers) in [(2i64, 2i64), (4, 1)] {
        let changes: [(&str, Value); 3] =
            [("connections", connections.into()), ("workers", workers.into()), ("sharing", "processes".into())];
        let mut kill_last = || {
            let mut pids = children();
            pids.sort_unstable();
            assert_eq!(pids.len() as i64, 2 * workers, "both ends are processes");
            let server = Pid::from_raw(*pids.last().expect("there are some")).expect("a pid");
            kill_process(server, Signal::KILL).expect("it is there");
        };
        let problem = run_and(&changes, 5_000, &mut kill_last).expect_err("the trial is void");
        assert_eq!(problem.what, "a worker is gone");
        assert!(problem.why.contains("killed by signal 9"), "{}", problem.why);
        assert_eq!(children(), Vec::<i32>::new(), "nothing is left");
    }
}

fn refusal(result: Result<holdup_load::TrialResult, Problem>) -> String {
    let problem = result.expect_err("it is refused");
    format!("{}: {}", problem.what, problem.why)
}

pub(crate) fn too_low_a_limit_on_files_is_named() {
    alone("stream::failures::takes_more_files_than_allowed", || {
        let low = Rlimit { current: Some(64), maximum: Some(64) };
        setrlimit(Resource::Nofile, low)?;
        // Root may raise the limit again unless it is another user; the account `nobody` may not.
        if holdup_testkit::is_root() {
            // SAFETY: plain system calls in a child that is about to become another program.
            let gone = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            if gone != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    });
}

pub(crate) fn takes_more_files_than_allowed() {
    let got = refusal(run(&[("connections", 10_000.into())], 50));
    assert_eq!(
        got,
        "10000 connections: both ends of them take 20256 open files with what else is open, and 64 are allowed"
    );
}

pub(crate) fn without_root_a_network_is_refused() {
    if !holdup_testkit::is_root() {
        return without_root();
    }
    alone("stream::failures::without_root", || {
        // SAFETY: a plain system call in a child that is about to become another program.
        match unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    });
}

pub(crate) fn without_root() {
    let got = refusal(run(&[("network", "veth".into())], 50));
    assert_eq!(
        got,
        "network veth: making network namespaces is not permitted: it takes CAP_SYS_ADMIN and CAP_NET_ADMIN"
    );
    holds(&run(&[], 50).expect("the host's own network is for everybody"), "without root");
}

pub(crate) fn ten_thousand_connections_are_held_by_one_process_in_200_mb() {
    let text = alone("stream::failures::holds_ten_thousand", || Ok(()));
    eprintln!("{}", text.lines().find(|line| line.contains("resident")).unwrap_or_default());
}

fn peak_resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("reads");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

pub(crate) fn holds_ten_thousand() {
    let limit = getrlimit(Resource::Nofile);
    // Where fewer files are allowed, as many as they allow.
    let connections = limit.maximum.map_or(10_000, |limit| (limit.saturating_sub(256) / 2).min(10_000));
    let changes: [(&str, Value); 3] =
        [("connections", (connections as i64).into()), ("size", 4096.into()), ("rate", 2.into())];
    let result = run(&changes, 1_000).expect("runs");
    holds(&result, "10,000 connections");
    assert_eq!(metric(&result, "connections_held"), connections as f64);
    let peak = peak_resident_kb();
    eprintln!("{peak} kB resident at most, both ends of {connections} connections in one process");
    assert!(peak < 200_000, "{peak} kB");
    assert_eq!(getrlimit(Resource::Nofile), limit, "the limit is as before");
}

/// True if a process is there and no zombie.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

pub(crate) fn nothing_outlives_a_process_that_is_killed() {
    let mut command = Command::new(std::env::current_exe().expect("is known"));
    command.args(["--exact", "stream::failures::runs_until_it_is_killed", "--include-ignored", "--test-threads=1"]);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("starts");
    let own = child.id();
    let workers = || {
        let tasks = std::fs::read_dir(format!("/proc/{own}/task")).into_iter().flatten().flatten();
        let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        tasks.flat_map(|t| of(t).split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<i32>>()).collect()
    };
    let pids: Vec<i32> = loop {
        let pids: Vec<i32> = workers();
        if pids.len() == 4 {
            break pids;
        }
        assert!(child.try_wait().expect("is there").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    child.kill().expect("is there");
    child.wait().expect("was started");
    while pids.iter().any(|pid| lives(*pid)) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub(crate) fn runs_until_it_is_killed() {
    let network = if holdup_testkit::is_root() { "veth" } else { "host" };
    let changes: [(&str, Value); 3] =
        [("connections", 2.into()), ("sharing", "processes".into()), ("network", network.into())];
    run(&changes, 60_000).expect("is killed before that");
}
