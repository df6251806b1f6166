//! Runs as a user meets them: to the end, interrupted, killed, refused, on a full disk.

use crate::bisect::{noisy, repository};
use crate::common;
use crate::dice::Dice;
use common::{Sandbox, is_root, long, processes_with, refused, signal, texts, trials_in, wait_for};
use holdup_testkit::{ignore, ignore_part};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
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
    // SIGXFSZ comes from `ulimit -f`, which a file of holdup meets at any moment.
    for asked in [Signal::INT, Signal::TERM, Signal::QUIT, Signal::XFSZ, Signal::USR1, Signal::POWER] {
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
    let output = place.holdup(&["restore"]).env_remove("HOLDUP_WAIT").output().expect("the binary starts");
    let (_, err) = texts(&output);
    assert!(output.status.code() == Some(3) && err.contains("--wait"), "{err}");
    let waiting = place.start(&["restore", "--wait"]);
    signal(&child, Signal::TERM);
    child.wait_with_output().expect("it ends");
    let output = waiting.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
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

fn a_state_folder_that_cannot_be_written_ends_a_run_before_its_first_trial() {
    let place = Sandbox::new();
    // No user can make a folder there.
    let mut run = place.holdup(&with(LOCKS, &["--vary", "sched-policy=other,batch", "--out", "l.holdup"]));
    let output = run.env("HOLDUP_STATE_DIR", "/proc/holdup").output().expect("the binary starts");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(
        err.contains("cannot write /proc/holdup/journal.json") && err.contains("make its folder writable"),
        "{err}"
    );
    assert!(err.contains("l.holdup (0 trials)"), "{err}");
    // A run that changes nothing needs none.
    let mut run = place.holdup(&with(LOCKS, &["--blocks", "1", "--out", "m.holdup"]));
    let output = run.env("HOLDUP_STATE_DIR", "/proc/holdup").output().expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
}

fn too_few_open_files_are_said_to_be_that_and_not_an_untrusted_journal() {
    let place = Sandbox::new();
    std::fs::create_dir(place.path("state")).expect("a folder");
    std::fs::set_permissions(place.path("state"), PermissionsExt::from_mode(0o700)).expect("ours");
    place.write("state/journal.json", "{\"schema\": \"holdup.journal/1\", \"entries\": []}");
    let mut said = String::new();
    for files in 4..12 {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -n $1; shift; exec \"$@\"", "sh", &files.to_string()]);
        let run = place.holdup(&["restore"]);
        let envs = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let output = shell.arg(run.get_program()).arg("restore").envs(envs).output().expect("sh");
        let (_, err) = texts(&output);
        assert!(!err.contains("cannot be trusted") && output.status.code() != Some(5), "{files}: {err}");
        said.push_str(&err);
    }
    assert!(said.contains("hint: allow more open files"), "{said}");
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
    for path in [folder.to_path_buf(), folder.join("work")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("own folder");
    }
}

fn has_postgres(place: &Sandbox) -> bool {
    holdup_testkit::needs_a_user_for_postgres();
    let (out, _) = place.expect(0, &["list", "workloads"]);
    !out.lines().any(|l| l.starts_with("pgbench") && l.contains("[not here"))
}

/// Commands that are killed, and the latest moment of that, ms. `OUT` has another name each time, `PID` is this process.
const KILLED: &[(&str, u32)] = &[
    (
        "run lock-contention --threads 1 --algorithm tas,ticket --vary swappiness=11,12 --duration 20ms --warmup 0s --blocks 4 --out OUT",
        1500,
    ),
    ("record --pid PID --collect cpu,run-queue -d 3s --windows 3 --out OUT", 5000),
    ("import hackbench many.txt --quiet --out OUT", 400),
    ("store push --store kept 0.holdup 1.holdup 2.holdup 3.holdup", 200),
    (
        "tune lock-contention --threads 1 --try swappiness=11,12 --duration 20ms --warmup 0s --budget 40s --state OUT",
        4000,
    ),
    ("bisect command --git r --range good..main --build true --collect none --state OUT -- ./bench", 4000),
];

/// Starts a command and kills it after a time; what it had said, and whether it was still there.
fn killed_after(place: &Sandbox, args: &[&str], ms: u32) -> (String, bool) {
    let said = std::fs::File::create(place.path("said")).expect("a file");
    let mut child = place.holdup(args).stdout(std::process::Stdio::null()).stderr(said).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(ms.into()));
    child.kill().expect("it is our child");
    let was_there = child.wait().expect("it is our child").signal() == Some(9);
    (std::fs::read_to_string(place.path("said")).expect("is read"), was_there)
}

/// Faults after a command was killed, with the trials or blocks that it had acknowledged.
fn look_after(place: &Sandbox, args: &[&str], out: &str, said: &str) -> usize {
    let code = |args: &[&str]| place.output(args).status.code();
    let kept = trials_in(place, out);
    // The first command that reads a bundle removes it if its writer was killed before it held anything.
    let is_there = place.path(out).exists();
    match args[0] {
        "run" => {
            // A trial is acknowledged when the next one begins.
            let acknowledged =
                said.lines().filter(|line| line.contains("trial ") && line.contains(" of ")).count().saturating_sub(1);
            assert!(kept.unwrap_or(0) >= acknowledged, "{kept:?} of {acknowledged} trials are there\n{said}");
            if is_there {
                let report = place.output(&["report", out]);
                assert!(matches!(report.status.code(), Some(0 | 1 | 3)), "{report:?}");
            }
            acknowledged
        }
        "record" => {
            if is_there {
                let report = place.output(&["explain", out]);
                assert!(kept.is_some() && matches!(report.status.code(), Some(0 | 1 | 3)), "{kept:?} {report:?}");
            }
            0
        }
        "import" => {
            assert!(!is_there || code(&["verify", out]) == Some(0), "a half bundle has a name");
            0
        }
        "store" => {
            let (listed, _) = place.expect(0, &["store", "list", "--store", "kept", "--json"]);
            let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
            let runs = listed["runs"].as_array().expect("a list");
            for run in runs {
                place.expect(
                    0,
                    &["store", "pull", "--store", "kept", run["run_id"].as_str().expect("an id"), "--out", "pulled"],
                );
                let read = |name: &str| std::fs::read(place.path(name)).expect("is read");
                assert!((0..4).any(|n| read(&format!("{n}.holdup")) == read("pulled")), "half a bundle is kept");
                std::fs::remove_file(place.path("pulled")).expect("is removed");
            }
            runs.len()
        }
        search => {
            let log = std::fs::read_to_string(place.path(out).join("search.log")).unwrap_or_default();
            let blocks = log.matches("\"entry\":\"block\"").count();
            if blocks > 0 {
                assert!(matches!(code(&[search, "log", out]), Some(0 | 1 | 3)), "{log}");
                killed_after(place, &[search, "--continue", out], 1000);
                let log = std::fs::read_to_string(place.path(out).join("search.log")).expect("is read");
                assert!(log.matches("\"entry\":\"block\"").count() >= blocks, "blocks are lost\n{log}");
            }
            blocks
        }
    }
}

/// Half files in the folder.
fn without_a_name(place: &Sandbox) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(place.path("")).expect("is read").flatten().map(|entry| entry.path());
    let is_half = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') || name.ends_with("-journal") || name.ends_with(".part")
    };
    paths.filter(is_half).collect()
}

fn a_kill_at_any_moment_loses_no_trial_and_the_next_command_finds_the_host_as_it_was() {
    if !is_root() {
        ignore("setting knobs needs root");
    }
    let (place, seed, count) = (Sandbox::new(), long("seed"), long("kills"));
    repository(&place, 20, |_| (noisy(100.0), true));
    let run = "Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)\n\
               Each sender will pass 50 messages of 100 bytes\nTime: 0.1\n";
    place.write("few.txt", run);
    place.write("many.txt", &run.repeat(4_000));
    for n in 0..4 {
        let run = format!(
            "run wakeup --target sim:server-8 --duration 5ms --warmup 0s --blocks 2 --quiet --seed {n} --out {n}.holdup"
        );
        place.expect(0, &run.split(' ').collect::<Vec<_>>());
    }
    let (before, pid) = (std::fs::read_to_string(SWAPPINESS).expect("is read"), std::process::id().to_string());
    let (mut killed, mut acknowledged, mut kept) = (0, 0, 0);
    for n in 0.. {
        if killed >= count {
            break;
        }
        let mut dice = Dice::new(seed + n);
        let (line, longest_ms) = KILLED[dice.below(KILLED.len() as u32) as usize];
        let out = format!("out{n}");
        let args: Vec<&str> = line
            .split(' ')
            .map(|word| match word {
                "OUT" => &out,
                "PID" => &pid,
                word => word,
            })
            .collect();
        let (said, was_there) = killed_after(&place, &args, dice.below(longest_ms));
        println!("{n}: {} {}", args[0], if was_there { "killed" } else { "over" });
        let had = look_after(&place, &args, &out, &said);
        wait_for("the lock", || place.output(&["restore"]).status.code() == Some(0));
        assert_eq!(std::fs::read_to_string(SWAPPINESS).expect("is read"), before, "{n}: {line}");
        wait_for("workers to end", || processes_with(&place.path("")).is_empty());
        // A draft without a name is removed by the next writer, once it is too old to get one.
        for left in without_a_name(&place) {
            std::fs::File::open(left)
                .and_then(|left| left.set_modified(std::time::SystemTime::UNIX_EPOCH))
                .expect("is ours");
        }
        place.expect(0, &["import", "hackbench", "few.txt", "--quiet", "--out", "next"]);
        std::fs::remove_file(place.path("next")).expect("it was made");
        assert_eq!(without_a_name(&place), Vec::<PathBuf>::new(), "{n}: {line}");
        killed += u64::from(was_there);
        match args[0] {
            // Runs in a store stay there.
            "store" => {
                assert!(had >= kept, "{n}: {had} of {kept} runs are kept");
                kept = had;
            }
            _ => acknowledged += had,
        }
        let _none = std::fs::remove_file(place.path(&out)).or_else(|_| std::fs::remove_dir_all(place.path(&out)));
    }
    println!("{killed} kills from seed {seed}, {acknowledged} trials and blocks acknowledged, none lost");
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
    a_state_folder_that_cannot_be_written_ends_a_run_before_its_first_trial,
    too_few_open_files_are_said_to_be_that_and_not_an_untrusted_journal,
    a_missing_sys_is_said_and_does_not_stop_a_run,
    pgbench_runs_from_one_line_and_leaves_nothing_behind,
    a_killed_run_takes_its_server_along_and_the_next_run_removes_the_cluster;
    long:
    a_kill_at_any_moment_loses_no_trial_and_the_next_command_finds_the_host_as_it_was
);
