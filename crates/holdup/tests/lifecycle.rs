//! Runs as a user meets them: to the end, interrupted, killed, refused, on a full disk.

use crate::common;
use common::{Sandbox, is_root, processes_with, refused, signal, texts, trials_in, wait_for};
use holdup_testkit::{ignore, ignore_part};
use rustix::process::Signal;

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// A run of many short trials; every test that runs waits for its turn on the host.
const LOCKS: &[&str] = &[
    "run",
    "lock-contention",
    "--threads",
    "1",
    "--algorithm",
    "tas,ticket",
    "--duration",
    "100ms",
    "--warmup",
    "0s",
    "--wait",
    "10m",
];

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    base.iter().chain(more).copied().collect()
}

fn a_run_ends_with_a_verdict_a_whole_bundle_and_every_rendering() {
    let place = Sandbox::new();
    let (out, err) = place.expect(0, &with(LOCKS, &["--blocks", "4", "--out", "l.holdup"]));
    assert!(out.contains("ticket"), "{out}");
    assert!(err.contains("l.holdup"), "{err}");
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "no colour and no bar into a pipe: {err}");
    place.expect(0, &["verify", "l.holdup"]);
    place.expect(0, &["report", "l.holdup", "--html", "l.html", "--markdown", "l.md"]);
    let page = std::fs::read_to_string(place.path("l.html")).expect("the page");
    assert!(page.contains("<html") && page.contains("ticket"));
    for format in ["json", "csv", "benchstat", "plan"] {
        let (text, _) = place.expect(0, &["export", "l.holdup", "--format", format]);
        assert!(!text.trim().is_empty(), "{format}");
    }
    let (json, _) = place.expect(0, &["report", "l.holdup", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    assert!(document["schema"].as_str().is_some_and(|s| s.starts_with("holdup.report/")));
    // Every document that is printed has a schema that can be printed.
    for args in [
        vec!["report", "l.holdup", "--json"],
        vec!["verify", "l.holdup", "--json"],
        vec!["list", "trials", "l.holdup", "--json"],
    ] {
        let document: serde_json::Value = serde_json::from_str(&place.expect(0, &args).0).expect("one JSON document");
        let id = document["schema"].as_str().expect("a schema").to_owned();
        let schema: serde_json::Value =
            serde_json::from_str(&place.expect(0, &["list", "schemas", &id]).0).expect("a JSON Schema");
        for key in schema["required"].as_array().expect("required keys") {
            assert!(document.get(key.as_str().expect("a name")).is_some(), "{id} has no {key}");
        }
    }
    let compared = place.output(&["compare", "l.holdup", "--json"]);
    assert!(matches!(compared.status.code(), Some(0 | 1 | 3)), "{:?}", texts(&compared));
    // The saved plan says the same as the command line.
    std::fs::write(place.path("again.toml"), place.expect(0, &["export", "l.holdup", "--format", "plan"]).0)
        .expect("written");
    let (dry, _) = place.expect(0, &["run", "again.toml", "--dry-run"]);
    assert!(dry.contains("ticket"), "{dry}");
}

fn command_lines_are_compared_with_the_first() {
    let place = Sandbox::new();
    let (out, err) =
        place.expect(0, &["run", "command", "sleep 0.005", "sleep 0.02; true", "--blocks", "3", "--out", "c.holdup"]);
    assert!(out.contains("`sleep 0.02; true` against `sleep 0.005`"), "{out}");
    assert_eq!(err.matches("left out").count(), 1, "{err}");
    let (arms, _) = place.expect(0, &["list", "arms", "c.holdup"]);
    assert!(arms.contains("`sleep 0.005`") && arms.contains("`sleep 0.02; true`"), "{arms}");
    // One program without a shell, and not both.
    let (one, _) = place.expect(0, &["run", "command", "--blocks", "1", "--out", "d.holdup", "--", "echo", "a  b"]);
    assert!(one.contains("`echo 'a  b'`: how fast, how stable?"), "{one}");
    refused(&place, 2, &["run", "command", "true", "--", "true"], &["cannot be used with"]);
}

fn an_existing_bundle_is_never_overwritten() {
    let place = Sandbox::new();
    place.write("l.holdup", "precious");
    let (_, err) = place.expect(2, &with(LOCKS, &["--blocks", "1", "--out", "l.holdup"]));
    assert!(err.contains("hint:"), "{err}");
    assert_eq!(std::fs::read_to_string(place.path("l.holdup")).expect("still there"), "precious");
}

fn an_interrupted_run_keeps_what_was_measured_and_restores_the_host() {
    for asked in [Signal::INT, Signal::TERM] {
        let place = Sandbox::new();
        let before = std::fs::read_to_string(AUTOGROUP).ok();
        let vary: &[&str] = if is_root() && before.is_some() {
            &["--vary", "autogroup=on,off"]
        } else {
            ignore_part("setting autogroup needs root and CONFIG_SCHED_AUTOGROUP");
            &[]
        };
        let args = with(&with(LOCKS, vary), &["--blocks", "500", "--out", "l.holdup"]);
        let child = place.start(&args);
        wait_for("three trials", || trials_in(&place, "l.holdup").is_some_and(|n| n >= 3));
        signal(&child, asked);
        let output = child.wait_with_output().expect("it ends");
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(4), "{err}");
        assert!(trials_in(&place, "l.holdup").is_some_and(|n| n >= 3));
        place.expect(0, &["report", "l.holdup"]);
        // A run of root's may set it meanwhile.
        assert!(vary.is_empty() || std::fs::read_to_string(AUTOGROUP).ok() == before);
        assert!(!place.path("l.holdup-journal").exists(), "one file only");
    }
}

fn after_kill_9_the_bundle_is_readable_and_restore_puts_the_knob_back() {
    let place = Sandbox::new();
    let Ok(before) = std::fs::read_to_string(AUTOGROUP) else {
        ignore("this kernel has no autogroup");
    };
    if !is_root() {
        ignore("setting autogroup needs root");
    }
    let (on, off) = if before.trim() == "1" { ("on", "off") } else { ("off", "on") };
    // Only the changed level, so that the knob is changed for as long as the run lives.
    let set = format!("autogroup={off}");
    let args = with(LOCKS, &["--set", &set, "--blocks", "500", "--out", "l.holdup"]);
    let mut child = place.start(&args);
    wait_for("three trials", || trials_in(&place, "l.holdup").is_some_and(|n| n >= 3));
    assert_ne!(std::fs::read_to_string(AUTOGROUP).expect("readable"), before, "{on} → {off}");
    child.kill().expect("kill -9");
    child.wait().expect("it is gone");
    wait_for("the lock", || place.output(&["restore"]).status.code() == Some(0));
    assert_eq!(std::fs::read_to_string(AUTOGROUP).expect("readable"), before);
    assert!(trials_in(&place, "l.holdup").is_some_and(|n| n >= 3));
    place.expect(0, &["report", "l.holdup"]);
    let verified = place.expect(1, &["verify", "l.holdup"]).0;
    assert!(verified.contains("not whole"), "{verified}");
}

fn a_second_run_is_refused_with_the_pid_of_the_first() {
    let place = Sandbox::new();
    let child = place.start(&with(LOCKS, &["--blocks", "500", "--out", "first.holdup"]));
    wait_for("a trial", || trials_in(&place, "first.holdup").is_some_and(|n| n >= 1));
    let second =
        ["run", "lock-contention", "--threads", "1", "--duration", "100ms", "--blocks", "1", "--out", "second.holdup"];
    let output = place.holdup(&second).env_remove("HOLDUP_WAIT").output().expect("the binary starts");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains(&format!("pid {}", child.id())), "{err}");
    assert!(!place.path("second.holdup").exists());
    signal(&child, Signal::TERM);
    child.wait_with_output().expect("it ends");
}

fn a_full_disk_ends_in_a_clear_error_and_loses_nothing() {
    if !is_root() || std::process::Command::new("unshare").args(["-m", "true"]).status().map_or(true, |s| !s.success())
    {
        ignore("a small file system needs root and mount namespaces");
    }
    let place = Sandbox::new();
    std::fs::create_dir(place.path("small")).expect("a folder");
    let line = format!(
        "mount -t tmpfs -o size=400k tmpfs small && {} {} --blocks 2000 --out small/l.holdup; echo code $?; \
         {} verify small/l.holdup; {} list trials small/l.holdup --details | wc -l",
        env!("CARGO_BIN_EXE_holdup"),
        LOCKS.join(" "),
        env!("CARGO_BIN_EXE_holdup"),
        env!("CARGO_BIN_EXE_holdup"),
    );
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", &line])
        .current_dir(place.path("."))
        .env("HOLDUP_STATE_DIR", place.path("state"))
        .output()
        .expect("unshare");
    let (out, err) = texts(&output);
    assert!(out.contains("code 3"), "{out}\n{err}");
    assert!(err.contains("hint:") && (err.contains("space") || err.contains("full")), "{err}");
    let trials: usize = out.lines().last().and_then(|l| l.trim().parse().ok()).unwrap_or(0);
    assert!(trials > 0, "what was measured is readable: {out}\n{err}");
}

fn a_missing_sys_is_said_and_does_not_stop_a_run() {
    if !is_root() || std::process::Command::new("unshare").args(["-m", "true"]).status().map_or(true, |s| !s.success())
    {
        ignore("hiding /sys needs root and mount namespaces");
    }
    for hide in ["mount -t tmpfs tmpfs /sys", "mount -o bind,ro /sys /sys"] {
        let place = Sandbox::new();
        let line = format!("{hide} && {} {} --blocks 1 --out l.holdup", env!("CARGO_BIN_EXE_holdup"), LOCKS.join(" "));
        let output = std::process::Command::new("unshare")
            .args(["-m", "sh", "-c", &line])
            .current_dir(place.path("."))
            .env("HOLDUP_STATE_DIR", place.path("state"))
            .output()
            .expect("unshare");
        assert_eq!(output.status.code(), Some(0), "{hide}: {:?}", texts(&output));
        place.expect(0, &["verify", "l.holdup"]);
    }
}

fn pgbench_runs_from_one_line_and_leaves_nothing_behind() {
    let place = Sandbox::new();
    if !has_postgres(&place) {
        ignore("PostgreSQL is not installed");
    }
    std::fs::create_dir(place.path("work")).expect("a folder");
    make_reachable(&place.path("."));
    let work = place.path("work").display().to_string();
    let (out, _) = place.expect(
        0,
        &[
            "run",
            "pgbench",
            "--script",
            "select-only",
            "--scale",
            "1",
            "--clients",
            "2,4",
            "--vary",
            "postgres.huge_pages=off,try",
            "--blocks",
            "1",
            "--duration",
            "1s",
            "--warmup",
            "0s",
            "--wait",
            "10m",
            "--workdir",
            &work,
            "--out",
            "a.holdup",
        ],
    );
    assert!(out.contains("tps"), "{out}");
    place.expect(0, &["verify", "a.holdup"]);
    let (csv, _) = place.expect(0, &["export", "a.holdup", "--format", "csv"]);
    assert!(csv.contains("latency_p99_us"), "{csv}");
    assert_eq!(std::fs::read_dir(place.path("work")).expect("the folder").count(), 0, "no cluster is left");
    assert_eq!(processes_with(&place.path("work")), Vec::<String>::new());
}

fn a_killed_run_takes_its_server_along_and_the_next_run_removes_the_cluster() {
    let place = Sandbox::new();
    if !has_postgres(&place) {
        ignore("PostgreSQL is not installed");
    }
    std::fs::create_dir(place.path("work")).expect("a folder");
    make_reachable(&place.path("."));
    let work = place.path("work").display().to_string();
    let base = [
        "run",
        "pgbench",
        "--scale",
        "1",
        "--clients",
        "2",
        "--duration",
        "1s",
        "--warmup",
        "0s",
        "--wait",
        "10m",
        "--workdir",
        &work,
    ];
    let mut child = place.start(&with(&base, &["--blocks", "100", "--out", "a.holdup"]));
    wait_for("a trial", || trials_in(&place, "a.holdup").is_some_and(|n| n >= 1));
    child.kill().expect("kill -9");
    child.wait().expect("it is gone");
    wait_for("the server to end", || processes_with(&place.path("work")).is_empty());
    place.expect(0, &with(&base, &["--blocks", "1", "--out", "b.holdup"]));
    assert_eq!(std::fs::read_dir(place.path("work")).expect("the folder").count(), 0, "both clusters are gone");
}

/// An unprivileged server must be able to pass through the test's folder.
fn make_reachable(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    for path in [folder.to_path_buf(), folder.join("work")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("own folder");
    }
}

fn has_postgres(place: &Sandbox) -> bool {
    holdup_testkit::needs_a_user_for_postgres();
    let (out, _) = place.expect(0, &["list", "workloads"]);
    !out.lines().any(|l| l.starts_with("pgbench") && l.contains("[not here"))
}

holdup_testkit::tests!(
    alone:
    command_lines_are_compared_with_the_first,
    a_run_ends_with_a_verdict_a_whole_bundle_and_every_rendering,
    an_existing_bundle_is_never_overwritten,
    an_interrupted_run_keeps_what_was_measured_and_restores_the_host,
    after_kill_9_the_bundle_is_readable_and_restore_puts_the_knob_back,
    a_second_run_is_refused_with_the_pid_of_the_first,
    a_full_disk_ends_in_a_clear_error_and_loses_nothing,
    a_missing_sys_is_said_and_does_not_stop_a_run,
    pgbench_runs_from_one_line_and_leaves_nothing_behind,
    a_killed_run_takes_its_server_along_and_the_next_run_removes_the_cluster
);
