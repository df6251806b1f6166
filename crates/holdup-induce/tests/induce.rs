//! Causes made on purpose: each does what it says, as the kernel reports it, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

use holdup_induce::{PerCpuWork, Processes};
use holdup_model::Problem;
use holdup_testkit::ignore;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything here takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !seen() {
        assert!(begin.elapsed() < PATIENCE, "never seen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A field of /proc/…/stat, counted as proc(5) does.
fn stat(task: &str, field: usize) -> String {
    let text = std::fs::read_to_string(format!("/proc/{task}/stat")).expect("it runs");
    let behind_name = text.rsplit_once(')').expect("a name").1;
    behind_name.split_whitespace().nth(field - 3).expect("a field").to_owned()
}

fn ticks(task: &str, field: usize) -> u64 {
    stat(task, field).parse().expect("a number")
}

const STATE: usize = 3;
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const POLICY: usize = 41;

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it runs").trim().to_owned()
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The groups that a process of this id has made and not removed.
fn groups_of(pid: u32) -> Vec<String> {
    let begin = format!("holdup-induced-{pid}-");
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/blkio"];
    let names = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    let names = names.map(|entry| entry.path().to_str().expect("UTF-8").to_owned());
    names.filter(|path| path.contains(&begin)).collect()
}

/// What was induced, or why it cannot be here.
fn here<T>(induced: Result<T, Problem>) -> T {
    match induced {
        Ok(induced) => induced,
        Err(problem) => {
            assert!(!rustix::process::geteuid().is_root(), "root may do all of this: {problem}");
            ignore(format!("this needs root: {problem}"))
        }
    }
}

fn ends(processes: Processes) {
    let pids = processes.pids().to_vec();
    drop(processes);
    assert!(pids.iter().all(|pid| !is_there(*pid)), "{pids:?}");
}

fn busy_processes_use_the_cpu_and_end() {
    let busy = holdup_induce::oversubscription(3).expect("anyone may");
    assert_eq!(busy.pids().len(), 3);
    for pid in busy.pids() {
        assert_eq!(name(*pid), "hu-busy");
        until("CPU time", || ticks(&pid.to_string(), USER_TIME) > 2);
    }
    ends(busy);
    let idle = holdup_induce::nothing().expect("anyone may");
    until("sleep", || stat(&idle.pids()[0].to_string(), STATE) == "S");
    ends(idle);
}

fn a_throttled_process_is_throttled_and_its_group_is_removed() {
    let throttled = here(holdup_induce::throttling(Duration::from_millis(5), Duration::from_millis(50)));
    let group = groups_of(std::process::id()).into_iter().find(|g| {
        let pids = std::fs::read_to_string(format!("{g}/cgroup.procs")).unwrap_or_default();
        pids.trim() == throttled.pids()[0].to_string()
    });
    let group = group.expect("the process is in its own group");
    until("throttling", || {
        let text = std::fs::read_to_string(format!("{group}/cpu.stat")).expect("readable");
        text.lines().any(|l| l.strip_prefix("nr_throttled ").is_some_and(|n| n.parse::<u64>().expect("a number") > 2))
    });
    ends(throttled);
    assert!(!Path::new(&group).exists(), "{group}");
}

fn a_thief_runs_before_all_others_on_its_cpu() {
    let thief = here(holdup_induce::cpu_thief(0, Duration::from_millis(2), Duration::from_millis(20)));
    let pid = thief.pids()[0].to_string();
    assert_eq!(stat(&pid, POLICY), "1", "SCHED_FIFO");
    let allowed = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    assert!(allowed.contains("Cpus_allowed_list:\t0\n"), "{allowed}");
    until("CPU time", || ticks(&pid, USER_TIME) + ticks(&pid, SYSTEM_TIME) > 2);
    until("a pause", || stat(&pid, STATE) == "S");
    ends(thief);
}

fn a_slow_disk_lets_its_reader_wait_uninterruptibly() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut reader = match holdup_induce::slow_disk(folder, 1 << 20) {
        Err(problem) if problem.why.contains("not on one disk") => ignore(problem),
        other => here(other),
    };
    let pid = reader.pids()[0].to_string();
    let mut waits = 0;
    until("waiting for the disk", || {
        waits += u32::from(stat(&pid, STATE) == "D");
        waits >= 20
    });
    assert_eq!(reader.failed(), None);
    ends(reader);
}

fn the_kernel_s_workers_wait_behind_a_busy_thread_of_the_kernel() {
    let without = here(holdup_induce::per_cpu_work());
    let (busy, period) = (Duration::from_millis(40), Duration::from_millis(60));
    let hog = match holdup_induce::kernel_hog(0, busy, period, true) {
        Err(problem) if problem.what.contains("io_uring") => ignore(problem),
        other => other.expect("there is an io_uring"),
    };
    let task = format!("{}/task/{}", hog.process.pids()[0], hog.tid);
    assert!(hog.name.starts_with("iou-sqp-"), "{}", hog.name);
    assert_eq!((stat(&task, POLICY).as_str(), ticks(&task, USER_TIME)), ("1", 0));
    until("CPU time in the kernel", || ticks(&task, SYSTEM_TIME) > 5);
    let mut longest = Duration::ZERO;
    until("a worker that waits", || {
        longest = longest.max(holdup_induce::per_cpu_work().expect("it worked before"));
        longest > busy / 4
    });
    println!("per-CPU work took {without:?} without and up to {longest:?} behind {}", hog.name);
    let again = PerCpuWork::every(Duration::from_millis(1)).expect("it worked before");
    drop(again);
    ends(hog.process);
}

/// In its own process, which is killed: see below.
fn victim() {
    if std::env::var_os("HOLDUP_INDUCE_VICTIM").is_none() {
        return;
    }
    let throttled = holdup_induce::throttling(Duration::from_millis(5), Duration::from_millis(50)).expect("root");
    println!("\nvictim {} {}", std::process::id(), throttled.pids()[0]);
    std::thread::sleep(PATIENCE);
}

fn nothing_is_left_when_the_test_is_killed() {
    drop(here(holdup_induce::Group::new("cpu", "cpu")));
    let mut child = Command::new(std::env::current_exe().expect("this test's"))
        .args(["--include-ignored", "--exact", "induce::victim", "--nocapture"])
        .env("HOLDUP_INDUCE_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let victims = lines.map_while(Result::ok).find(|l| l.starts_with("victim ")).expect("it prints its processes");
    let pids: Vec<u32> = victims.split(' ').skip(1).map(|pid| pid.parse().expect("a pid")).collect();
    assert_eq!(groups_of(pids[0]).len(), 1);
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    until("the end of its process", || !is_there(pids[1]));
    until("the end of its group", || groups_of(pids[0]).is_empty());
}

holdup_testkit::tests!(
    truth:
    busy_processes_use_the_cpu_and_end,
    a_throttled_process_is_throttled_and_its_group_is_removed,
    a_thief_runs_before_all_others_on_its_cpu,
    a_slow_disk_lets_its_reader_wait_uninterruptibly,
    the_kernel_s_workers_wait_behind_a_busy_thread_of_the_kernel,
    nothing_is_left_when_the_test_is_killed;
    by_hand:
    victim
);
holdup_testkit::main!();
