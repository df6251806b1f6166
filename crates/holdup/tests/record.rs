//! A live system that is watched and explained, as a user meets it.

use crate::common;
use common::{Sandbox, refused, signal, texts, trials_in, wait_for};
use holdup_testkit::{ignore, ignore_part};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Collectors that work without root and on every kernel that the tests run on.
const COLLECT: &str = "cpu,run-queue";

/// A program that this test started; ended when it goes.
struct Running(Child);

impl Running {
    fn script(script: &str) -> Self {
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn();
        Running(child.expect("a shell is there"))
    }

    fn busy() -> Self {
        Self::script("while :; do :; done")
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn watch<'a>(target: &[&'a str], duration: &'a str, out: &'a str) -> Vec<&'a str> {
    let mut args = vec!["record", "--collect", COLLECT, "-d", duration, "--out", out];
    args.extend(target);
    args
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).expect("one JSON document")
}

fn a_process_is_watched_and_explained() {
    let (place, busy) = (Sandbox::new(), Running::busy());
    let (out, err) = place.expect(0, &watch(&["--pid", &busy.pid()], "3s", "r.holdup"));
    let answers = [
        "No cause of delay found",
        "No known cause",
        "CPU",
        "Real-time tasks",
        "One thread",
        "I/O wait:",
        "Delayed kworkers:",
    ];
    let first = out.lines().next().unwrap_or_default();
    assert!(answers.iter().any(|a| first.starts_with(a)), "the answer comes first: {out}");
    let head: Vec<&str> = out.lines().take(12).collect();
    assert!(head.iter().any(|l| l.contains("Overhead: ")), "the overhead is near the top: {out}");
    assert!(out.lines().count() <= 24 && out.contains("--details"), "{out}");
    let details = texts(&place.output(&["explain", "r.holdup", "--details"])).0;
    assert!(details.contains("--collect critical-sections"), "what is missing says how to get it: {details}");
    assert!(err.contains("nothing is changed") && err.contains("r.holdup (3 windows)"), "{err}");
    place.expect(0, &["verify", "r.holdup"]);
    assert_eq!(trials_in(&place, "r.holdup"), Some(3));

    let output = place.output(&["explain", "r.holdup", "--json"]);
    let explained = document(&texts(&output).0);
    let code = match explained["verdict"].as_str() {
        Some("supported") => 1,
        Some("refuted") => 0,
        _ => 3,
    };
    assert_eq!(output.status.code(), Some(code), "{explained:#}");
    let schema = document(&place.expect(0, &["list", "schemas", "holdup.explain/1"]).0);
    for key in schema["required"].as_array().expect("required keys") {
        assert!(explained.get(key.as_str().expect("a name")).is_some(), "{key}");
    }
    // The answer that was printed is that of the bundle.
    assert_eq!(texts(&place.output(&["explain", "r.holdup"])).0, out);
    let page = place.expect(0, &["report", "r.holdup", "--html", "-"]).0;
    assert!(
        page.contains("Causes of delay") && !page.contains("Nothing was compared") && !page.contains("id=\"order\"")
    );
}

fn processes_of_a_name_and_of_a_group_are_watched() {
    let (place, busy) = (Sandbox::new(), Running::busy());
    let own = place.path("held-up-by-me");
    std::fs::copy("/bin/sleep", &own).expect("sleep is there");
    let _asleep = Running(Command::new(&own).arg("600").spawn().expect("it starts"));
    let (_, err) = place.expect(0, &watch(&["--comm", "held-up-by-me"], "1s", "c.holdup"));
    assert!(err.contains("all processes named held-up-by-me"), "{err}");
    let group = std::fs::read_to_string(format!("/proc/{}/cgroup", busy.pid())).expect("control groups");
    let path = group.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("none").to_owned();
    if !std::path::Path::new(&format!("/sys/fs/cgroup{path}/cgroup.procs")).exists() {
        ignore_part("the control group of this test cannot be seen");
        return;
    }
    place.expect(0, &watch(&["--cgroup", &path], "1s", "g.holdup"));
}

fn a_process_that_ends_leaves_a_bundle_that_says_so() {
    let place = Sandbox::new();
    let short = Running::busy();
    let pid = short.pid();
    let child = place.start(&watch(&["--pid", &pid, "--windows", "1000"], "1000s", "e.holdup"));
    wait_for("a window", || trials_in(&place, "e.holdup").is_some_and(|n| n >= 1));
    drop(short);
    let output = child.wait_with_output().expect("it ends");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("the process ended after"), "{err}");
    let (out, _) = place.expect(0, &["verify", "e.holdup"]);
    assert!(out.contains("ending: complete (the process ended after"), "{out}");
    let output = place.output(&["explain", "e.holdup"]);
    assert!(texts(&output).0.contains("the process ended after"), "{:?}", texts(&output));
}

fn a_process_that_ends_before_a_window_is_over_is_an_error() {
    let place = Sandbox::new();
    let short = Running::busy();
    let pid = short.pid();
    let child = place.start(&watch(&["--pid", &pid, "--windows", "1"], "600s", "s.holdup"));
    wait_for("the bundle", || trials_in(&place, "s.holdup").is_some());
    drop(short);
    let output = child.wait_with_output().expect("it ends");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("the process ended after") && err.contains("hint: shorter windows"), "{err}");
    let (out, _) = place.expect(0, &["verify", "s.holdup"]);
    assert!(out.contains("ending: failed (the process ended after"), "{out}");
}

fn an_interrupted_record_keeps_what_was_seen_and_keeps_others_out_until_then() {
    let (place, busy) = (Sandbox::new(), Running::busy());
    let pid = busy.pid();
    let child = place.start(&watch(&["--pid", &pid, "--windows", "500"], "500s", "i.holdup"));
    wait_for("two windows", || trials_in(&place, "i.holdup").is_some_and(|n| n >= 2));
    let second = ["record", "--pid", &pid, "-d", "1s", "--out", "n.holdup"];
    let refused = place.holdup(&second).env_remove("HOLDUP_WAIT").output().expect("the binary starts");
    let (_, err) = texts(&refused);
    assert_eq!(refused.status.code(), Some(3), "{err}");
    assert!(err.contains("under way") && err.contains("hint:"), "{err}");
    assert!(!place.path("n.holdup").exists(), "nothing was written");
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(out.contains("it was interrupted") && err.contains("holds what was recorded"), "{out}{err}");
    assert!(trials_in(&place, "i.holdup").is_some_and(|n| n >= 2));
    assert!(!place.path("i.holdup-journal").exists(), "one file only");
}

fn what_cannot_be_watched_is_refused() {
    let (place, busy) = (Sandbox::new(), Running::busy());
    let pid = busy.pid();
    place.write("old.holdup", "precious");
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["--pid", "--cgroup"]),
        (&["--pid", &pid, "--comm", "sh"], &["cannot be used with"]),
        (&["--pid", "0"], &["--pid"]),
        (&["--pid", "4194305"], &["there is no such process", "hint:"]),
        (&["--comm", "no-such-name"], &["no such process runs", "hint:"]),
        (&["--cgroup", "/no/such/group"], &["no such control group", "hint:"]),
        (&["--pg", "nonsense"], &["--pg"]),
        (&["--pid", &pid, "-d", "10ms"], &["a second at least"]),
        (&["--pid", &pid, "-d", "soon"], &["not a duration"]),
        (&["--pid", &pid, "-d", "2s", "--windows", "5"], &["--windows 2"]),
        (&["--pid", &pid, "--collect", "magic"], &["there is no such collector", "run-queue"]),
        (&["--pid", &pid, "--collect", ","], &["without collectors"]),
        (&["--pid", &pid, "--frequency", "100000"], &["--frequency"]),
        (&["--pid", &pid, "-d", "1s", "--out", "old.holdup"], &["old.holdup"]),
    ];
    for (args, says) in cases {
        let all: Vec<&str> = std::iter::once("record").chain(args.iter().copied()).collect();
        refused(&place, 2, &all, says);
    }
    assert_eq!(std::fs::read_to_string(place.path("old.holdup")).expect("still there"), "precious");
}

fn arms_of_a_run_are_explained_and_chosen() {
    let place = Sandbox::new();
    let run = [
        "run",
        "lock-contention",
        "--threads",
        "2",
        "--algorithm",
        "tas,ticket",
        "--duration",
        "200ms",
        "--warmup",
        "0s",
        "--blocks",
        "3",
        "--out",
        "l.holdup",
        "--quiet",
    ];
    place.expect(0, &run);
    let explain = |args: &[&str]| {
        let output = place.output(args);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{:?}", texts(&output));
        document(&texts(&output).0)
    };
    let all = explain(&["explain", "l.holdup", "--json"]);
    assert_eq!(all["arms"].as_array().map(Vec::len), Some(2), "{all:#}");
    let one = explain(&["explain", "l.holdup", "--json", "--arm", "lock-contention algorithm=ticket"]);
    assert_eq!(one["arms"].as_array().map(Vec::len), Some(1), "{one:#}");
    refused(&place, 2, &["explain", "l.holdup", "--arm", "mcs"], &["no arm has this name", "hint:"]);
    refused(&place, 2, &["explain", "l.holdup", "--arm", "t"], &["arms match"]);
    refused(&place, 2, &["explain", "none.holdup"], &["none.holdup"]);
}

const COMPUTES: &str = "while :; do :; done";

/// A shell on a CPU, under the name of its file.
fn named(place: &Sandbox, name: &str, on: &[&str], script: &str) -> Running {
    let program = place.path(name);
    if !program.exists() {
        std::fs::copy("/bin/sh", &program).unwrap();
    }
    let mut command = Command::new("taskset");
    command.args(["-c"]).args(on).arg(program).args(["-c", script]).stdin(Stdio::null());
    Running(command.spawn().unwrap())
}

/// Two seconds of the scheduler by perf, and what `explain` says of `victim` in them.
fn traced(place: &Sandbox, name: &str) -> String {
    let tracefs = "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
    let events = "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new,sched:sched_migrate_task";
    let mut perf = Command::new("unshare");
    perf.args(["-m", "sh", "-c", tracefs, "sh", "perf", "record", "-q", "-a", "-e", events, "-o"]);
    let recorded = perf.arg(place.path(name)).args(["--", "sleep", "2"]).output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let out = format!("{name}.holdup");
    place.expect(0, &["import", "trace", name, "--comm", "victim", "--out", &out]);
    let output = place.output(&["explain", &out, "--details"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{:?}", texts(&output));
    texts(&output).0
}

/// The causes are made, and taken away, while another tool records.
fn a_trace_of_perf_names_what_was_induced_and_not_what_was_withheld() {
    let has_perf = Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    let cpus = rustix::thread::sched_getaffinity(None).unwrap().count();
    if !holdup_testkit::is_root() || !has_perf || cpus < 2 {
        ignore("it takes root, perf and two CPUs");
    }
    let place = Sandbox::new();
    let _victim = named(&place, "victim", &["1"], COMPUTES);
    let hogs = [(); 3].map(|()| named(&place, "hog", &["1"], COMPUTES));
    let said = traced(&place, "crowd.data");
    // Which it is depends on what others do on the first CPU meanwhile.
    let is_named = said.starts_with("CPU-bound: ") || said.starts_with("CPU saturation: tasks wait for a CPU ");
    assert!(is_named && said.contains("wait behind: ") && said.contains("hog "), "{said}");
    drop(hogs);
    // The same programs on the other CPU take nothing from it.
    let hogs = [(); 3].map(|()| named(&place, "hog", &["0"], COMPUTES));
    let said = traced(&place, "apart.data");
    assert!(!said.contains("hog ") && !said.starts_with("Real-time tasks: "), "{said}");
    drop(hogs);
    // It computes for some milliseconds, then sleeps.
    let bursts = "while :; do i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done; sleep 0.005; done";
    let bursts = named(&place, "burst", &["1", "chrt", "--fifo", "10"], bursts);
    let said = traced(&place, "class.data");
    assert!(said.starts_with("Real-time tasks: ") && said.contains("burst "), "{said}");
    drop(bursts);
}

holdup_testkit::tests!(
    what_cannot_be_watched_is_refused;
    alone:
    a_process_is_watched_and_explained,
    processes_of_a_name_and_of_a_group_are_watched,
    a_process_that_ends_leaves_a_bundle_that_says_so,
    a_process_that_ends_before_a_window_is_over_is_an_error,
    an_interrupted_record_keeps_what_was_seen_and_keeps_others_out_until_then,
    arms_of_a_run_are_explained_and_chosen;
    truth:
    a_trace_of_perf_names_what_was_induced_and_not_what_was_withheld
);
