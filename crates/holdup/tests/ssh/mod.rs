//! Hosts over ssh: a real sshd on loopback, the real client, and lines that are cut.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    reason = "tests, without libtest"
)]

use crate::common;
use crate::common::ssh as server;
pub(crate) mod cutter;
mod ends;
pub(crate) mod hostile;
mod several;

use common::{Sandbox, refused, texts, wait_for};
use ends::*;
use holdup_testkit::ignore;
use hostile::*;
use server::{Sshd, client, missing};
use several::*;
use std::path::Path;
use std::process::{Command, Output};

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

fn swappiness() -> String {
    std::fs::read_to_string(SWAPPINESS).unwrap()
}

/// A sandbox, a host, and the client's configuration for it under the name `host`.
fn host() -> (Sandbox, Sshd, String) {
    host_with("127.0.0.1", "", "")
}

fn host_with(address: &str, of_server: &str, of_client: &str) -> (Sandbox, Sshd, String) {
    if let Some(reason) = missing() {
        ignore(reason);
    }
    assert!(!matches!(swappiness().trim(), "11" | "12"), "something left this host as a test of this file sets it");
    let place = Sandbox::new();
    let sshd = Sshd::start(&place, "far", address, of_server);
    let ssh = client(&place, &sshd.config("host", address, of_client));
    (place, sshd, ssh)
}

fn over(place: &Sandbox, ssh: &str, args: &[&str]) -> Output {
    place.holdup(args).env("HOLDUP_SSH", ssh).output().unwrap()
}

/// Runs holdup over this ssh and expects an exit code.
#[track_caller]
fn expect(place: &Sandbox, ssh: &str, code: i32, args: &[&str]) -> (String, String) {
    let output = over(place, ssh, args);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "holdup {args:?}\nstdout: {out}\nstderr: {err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

/// What a fact is at the begin of each session.
fn facts(place: &Sandbox, bundle: &str, key: &str) -> Vec<String> {
    let bundle = holdup_bundle::read(&place.path(bundle)).unwrap();
    let all = bundle.environment.iter().flat_map(|reading| &reading.facts);
    all.filter(|fact| fact.key == key).filter_map(|fact| fact.value.clone()).collect()
}

/// Two arms of a program that ends soon, between them a knob of the host.
fn plan<'a>(target: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let head = ["run", "command", "--target", target, "--out", out, "--vary", "swappiness=11,12", "--blocks", "1"];
    let rest = ["--duration", "10ms", "--warmup", "0s", "--set", "aa=false"];
    head.iter().chain(&rest[..4]).chain(more).copied().chain(["--", "sleep", "0.1"]).collect()
}

fn a_run_on_a_host_leaves_it_as_it_was_and_copies_holdup_once() {
    let (place, sshd, ssh) = host();
    let before = swappiness();
    let (out, err) = expect(&place, &ssh, 0, &plan("ssh:host", "a.holdup", &[]));
    assert!(out.contains("swappiness=12") || out.contains("swappiness"), "{out}");
    assert_eq!(swappiness(), before);
    let copies = sshd.copies();
    assert_eq!(copies.len(), 1, "{copies:?}");
    expect(&place, &ssh, 0, &["verify", "a.holdup"]);
    assert_eq!(facts(&place, "a.holdup", "ssh.host"), ["host"], "{err}");
    let number = |key| facts(&place, "a.holdup", key)[0].parse::<f64>().unwrap();
    // It is one machine with one clock.
    assert!(number("ssh.clock_offset_ms").abs() <= number("ssh.clock_offset_error_ms"));
    // The second time nothing is copied: the file is the same one.
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let first = inode(&copies[0]);
    expect(&place, &ssh, 0, &plan("ssh:host", "b.holdup", &[]));
    assert_eq!(inode(&sshd.copies()[0]), first);
    // A copy that was changed is another program: it is not used.
    let mut bytes = std::fs::read(&copies[0]).unwrap();
    bytes.truncate(1000);
    std::fs::write(&copies[0], bytes).unwrap();
    expect(&place, &ssh, 0, &plan("ssh:host", "c.holdup", &[]));
    assert!(inode(&sshd.copies()[0]) != first && std::fs::metadata(&sshd.copies()[0]).unwrap().len() > 1000);
    let (known, _) = expect(&place, &ssh, 0, &["hosts", "list"]);
    assert_eq!(known, "host\n");
    let (cleaned, _) = expect(&place, &ssh, 0, &["hosts", "clean"]);
    assert_eq!(cleaned, "host: 1 copy removed\n");
    assert!(!sshd.path("home/.cache/holdup/bin").exists());
    assert_eq!(expect(&place, &ssh, 0, &["hosts", "clean"]).0, "no host has a copy of holdup\n");
    assert!(common::processes_with(&sshd.path("home")).is_empty(), "no agent stays");
}

/// Runs with a line that is cut at message `at`; `None` when the run was over before.
fn cut(place: &Sandbox, config: &str, how: &str, at: u32) -> Option<(i32, String, String)> {
    let (out, count) = (format!("cut-{how}-{at}.holdup"), place.path(&format!("count-{how}-{at}")));
    // The cutter is this program; `holdup` splits words at spaces, and none is in the path.
    let ssh = format!("{} {config}", std::env::current_exe().unwrap().display());
    let output = place
        .holdup(&plan("ssh:host", &out, &["--dead-after", "3s"]))
        .env("HOLDUP_SSH", ssh)
        .env(cutter::CUTTER, format!("{how}:{at}:{}:host", count.display()))
        .output()
        .unwrap();
    let (_, err) = texts(&output);
    assert!(!err.contains("panicked"), "message {at}: {err}");
    let counted: u32 = std::fs::read_to_string(&count).unwrap().parse().unwrap();
    (counted >= at).then(|| (output.status.code().unwrap_or(-1), out, err))
}

/// Waits until no agent works on the host, and looks that it is as it was.
fn restored(sshd: &Sshd, before: &str, at: u32) {
    wait_for("the agent to end", || common::processes_with(&sshd.path("home/.cache/holdup/bin")).is_empty());
    assert_eq!(swappiness(), before, "message {at}: {}", sshd.log());
    let journal = std::fs::read_to_string(sshd.path("state/journal.json")).unwrap_or_default();
    assert!(!journal.contains("swappiness"), "message {at}: {journal}");
}

fn a_line_that_is_cut_at_any_message_leaves_the_host_as_it_was() {
    let (place, sshd, ssh) = host();
    let before = swappiness();
    // So that copying holdup is no part of it.
    expect(&place, &ssh, 0, &plan("ssh:host", "whole.holdup", &[]));
    let config = ssh.strip_prefix("ssh ").unwrap();
    let (mut reports, mut bundles, mut messages) = (0, 0, 0);
    for at in 1.. {
        let Some((code, out, err)) = cut(&place, config, "close", at) else { break };
        messages = at;
        restored(&sshd, &before, at);
        if place.path(&out).exists() {
            bundles += 1;
            expect(&place, &ssh, 0, &["verify", &out]);
            // 5: whether the host was restored cannot be known over a line that stays cut.
            assert!([0, 3, 5].contains(&code), "message {at}: {code}: {err}");
            assert!(code != 5 || err.contains("whether it was restored is not known"), "message {at}: {err}");
        } else {
            assert_eq!(code, 3, "message {at}: {err}");
        }
        if sshd.path("state/agent.json").exists() {
            reports += 1;
        }
    }
    assert!(messages > 15 && bundles > 5 && reports > 3, "{messages} messages, {bundles} bundles, {reports} reports");
    println!("{messages} messages; {bundles} partial bundles; {reports} reports of agents");
}

fn a_line_that_falls_silent_is_given_up_at_both_ends_and_reported_at_the_next_connect() {
    let (place, sshd, ssh) = host();
    let before = swappiness();
    expect(&place, &ssh, 0, &plan("ssh:host", "whole.holdup", &[]));
    let config = ssh.strip_prefix("ssh ").unwrap();
    let mut said = 0;
    // From the session's opening on there is something to report.
    for at in [17, 18, 20] {
        let Some((code, out, err)) = cut(&place, config, "silent", at) else { break };
        assert!(err.contains("the line was silent for 3 s"), "{err}");
        restored(&sshd, &before, at);
        expect(&place, &ssh, 0, &["verify", &out]);
        if !sshd.path("state/agent.json").exists() {
            continue;
        }
        said += 1;
        assert!(code == 5 || code == 3, "{code}: {err}");
        let (_, err) = expect(&place, &ssh, 0, &plan("ssh:host", &format!("after-{at}.holdup"), &[]));
        assert!(err.contains("host: an earlier agent ended ") && err.contains(", and restored the host"), "{err}");
        let again = format!("again-{at}.holdup");
        assert!(
            !expect(&place, &ssh, 0, &plan("ssh:host", &again, &[])).1.contains("an earlier agent"),
            "it is said once"
        );
    }
    assert!(said > 1, "{said} reports");
}

/// Starts a run whose trials are long, and waits until its knob is set.
fn long_run(place: &Sandbox, ssh: &str, out: &str) -> std::process::Child {
    let args = [
        "run",
        "command",
        "--target",
        "ssh:host",
        "--out",
        out,
        "--vary",
        "swappiness=11,12",
        "--blocks",
        "1",
        "--",
        "sleep",
        "600",
    ];
    let child = place.holdup(&args).env("HOLDUP_SSH", ssh).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for("the knob to be set", || matches!(swappiness().trim(), "11" | "12"));
    child
}

fn agents(sshd: &Sshd) -> Vec<i32> {
    let all = common::processes_with(&sshd.path("home/.cache/holdup/bin"));
    let agents = all.iter().filter(|line| line.contains(" agent ") && !line.contains("sha256sum"));
    agents.filter_map(|line| line.split(':').next()?.parse().ok()).collect()
}

fn an_agent_that_is_killed_and_a_host_that_restarts_are_reported_and_put_back() {
    let (place, sshd, ssh) = host();
    let before = swappiness();
    for (out, restarts, says) in [
        ("killed", false, "was killed; what it set is put back now"),
        ("restarted", true, "the host restarted while an earlier agent worked"),
    ] {
        let child = long_run(&place, &ssh, &format!("{out}.holdup"));
        let pid = agents(&sshd)[0];
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
        // The run opens its session anew, whose agent puts the knob back first; its end is asked for then.
        wait_for("another agent", || agents(&sshd).iter().any(|other| *other != pid));
        common::signal(&child, rustix::process::Signal::INT);
        let output = child.wait_with_output().unwrap();
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(4), "{err}");
        assert_eq!(swappiness(), before);
        if !restarts {
            assert!(err.contains(says), "{err}");
            continue;
        }
        // What an agent leaves that a restart of its host ends: its report, of another boot.
        let report = format!(
            "{{\"pid\":{pid},\"start_time\":1,\"boot_id\":\"11111111-2222-3333-4444-555555555555\",\"began_unix_ns\":0,\"ended\":null}}"
        );
        std::fs::write(sshd.path("state/agent.json"), report).unwrap();
        std::fs::set_permissions(sshd.path("state/agent.json"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let (_, err) = expect(&place, &ssh, 0, &plan("ssh:host", "after.holdup", &[]));
        assert!(err.contains(says), "{err}");
    }
}

fn a_run_that_is_interrupted_or_killed_leaves_the_host_as_it_was() {
    let (place, sshd, ssh) = host();
    let before = swappiness();
    let child = long_run(&place, &ssh, "int.holdup");
    common::signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", texts(&output).1);
    assert_eq!(swappiness(), before);
    expect(&place, &ssh, 0, &["verify", "int.holdup"]);
    let mut child = long_run(&place, &ssh, "kill.holdup");
    common::signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    restored(&sshd, &before, 0);
    // Another run on the host is refused while one is under way there.
    let child = long_run(&place, &ssh, "first.holdup");
    let local = place
        .holdup(&["run", "command", "--out", "local.holdup", "--", "true"])
        .env("HOLDUP_WAIT", "0s")
        .output()
        .unwrap();
    assert!(texts(&local).1.contains("another holdup run is under way"), "{}", texts(&local).1);
    common::signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    assert_eq!(swappiness(), before);
}

fn what_keeps_a_host_from_being_worked_on_is_said_with_a_way_out() {
    let (place, sshd, ssh) = host();
    let fails = |ssh: &str, target: &str, more: &[&str], says: &[&str]| {
        let (_, err) = expect(&place, ssh, 3, &plan(target, "x.holdup", more));
        for word in says {
            assert!(err.contains(word), "`{word}` is missing in:\n{err}");
        }
        assert!(err.starts_with("error: host "), "{err}");
        assert!(err.contains("\nhint: "), "{err}");
        assert!(!place.path("x.holdup").exists());
    };
    let config = std::fs::read_to_string(place.path("ssh_config")).unwrap();
    let with = |name: &str, from: &str, to: &str| {
        assert!(config.contains(from));
        format!("ssh -F {}", place.write(name, &config.replace(from, to)).display())
    };
    let known = sshd.path("known_hosts").display().to_string();
    fails(
        &with("unknown", &known, "/dev/null"),
        "ssh:host",
        &[],
        &["its host key is not known here", "`ssh host` once"],
    );
    let other = std::fs::read_to_string(sshd.path("user_key.pub")).unwrap();
    let changed = place.write("changed_hosts", &format!("the-host {other}"));
    fails(
        &with("changed", &known, &changed.display().to_string()),
        "ssh:host",
        &[],
        &["not the one that was known", "ssh-keygen -R host"],
    );
    fails(&with("no_key", "user_key", "host_key"), "ssh:host", &[], &["none of your keys", "ssh-copy-id host"]);
    let port = format!("Port {}", sshd.port);
    fails(&with("refused", &port, "Port 1"), "ssh:host", &[], &["nothing listens at its port"]);
    fails(&ssh, "ssh:missing.invalid", &[], &["there is no host of this name"]);
    fails("ssh -F /dev/null -o ProxyCommand=false", "ssh:host", &[], &["host host: "]);
    refused(
        &place,
        2,
        &["run", "command", "--target", "ssh:-oProxyCommand=x", "--", "true"],
        &["it is no name of a host"],
    );
    refused(
        &place,
        2,
        &["run", "command", "--target", "ssh:host", "--dead-after", "1s", "--", "true"],
        &["3s or more"],
    );
    let none = place.holdup(&plan("ssh:host", "x.holdup", &[])).env("HOLDUP_SSH", "missing/ssh").output().unwrap();
    assert!(texts(&none).1.contains("HOLDUP_SSH names another"), "{}", texts(&none).1);
}

fn a_host_with_a_full_disk_without_sudo_or_of_another_architecture_is_refused_clearly() {
    let (place, sshd, ssh) = host();
    let cache = sshd.path("home/.cache");
    std::fs::create_dir_all(&cache).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&cache).status().unwrap();
    assert!(mounted.success());
    let full = over(&place, &ssh, &plan("ssh:host", "x.holdup", &[]));
    let left = sshd.copies();
    assert!(Command::new("umount").arg(&cache).status().unwrap().success());
    let (_, err) = texts(&full);
    assert_eq!(full.status.code(), Some(3), "{err}");
    assert!(err.contains("no room for the copy of holdup") && err.contains("\nhint: free"), "{err}");
    assert!(left.is_empty(), "{left:?}");
    drop(sshd);
    // Programs of the system, but for those that are replaced or missing.
    let bin = place.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for tool in ["sh", "cat", "mkdir", "chmod", "mv", "rm", "rmdir", "sha256sum", "sleep"] {
        let real =
            ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool)).into_iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(real, bin.join(tool)).unwrap();
    }
    let uname = place.write("bin/uname", "#!/bin/sh\necho Linux armv7l\n");
    std::fs::set_permissions(&uname, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The PATH of a session is set by the server; `SetEnv` names it once, so the keys are given in one line.
    let sshd = Sshd::start(&place, "other", "127.0.0.1", "");
    let ssh = client(&place, &sshd.config("host", "127.0.0.1", ""));
    std::fs::write(
        sshd.path("home/.bashrc"),
        format!("export PATH={}\necho a line that the shell prints\n", bin.display()),
    )
    .unwrap();
    let (_, err) = expect(&place, &ssh, 3, &plan("ssh:host", "x.holdup", &[]));
    assert!(
        err.contains("it is Linux armv7l") && err.contains("hint: run holdup from a machine of its architecture"),
        "{err}"
    );
    std::fs::remove_file(&uname).unwrap();
    std::os::unix::fs::symlink("/usr/bin/uname", &uname).unwrap();
    // What the shell prints is no part of any message.
    expect(&place, &ssh, 0, &plan("ssh:host", "noise.holdup", &[]));
    let (_, err) = expect(&place, &ssh, 3, &plan("ssh:host", "x.holdup", &["--sudo"]));
    assert!(err.contains("there is no sudo there") && err.contains("NOPASSWD"), "{err}");
    std::fs::remove_file(bin.join("sha256sum")).unwrap();
    let (_, err) = expect(&place, &ssh, 3, &plan("ssh:host", "x.holdup", &[]));
    assert!(err.contains("it has no sha256sum"), "{err}");
}

fn a_host_with_ipv6_alone_is_reached() {
    let (place, sshd, ssh) = host_with("::1", "", "");
    let ssh = ssh.replace("ssh -F", "ssh -o HostKeyAlias=the-host -F");
    let config = std::fs::read_to_string(place.path("ssh_config"))
        .unwrap()
        .replace("Host host", "Host *")
        .replace("  HostName ::1\n", "");
    place.write("ssh_config", &config);
    let target = format!("ssh://root@[::1]:{}", sshd.port);
    let (_, err) = expect(&place, &ssh, 0, &plan(&target, "six.holdup", &[]));
    assert!(!err.contains("error"), "{err}");
    assert_eq!(expect(&place, &ssh, 0, &["hosts", "list"]).0, format!("root@[::1]:{}\n", sshd.port));
}

fn a_clock_that_is_hours_off_is_said_and_times_are_those_of_this_machine() {
    let (place, sshd, ssh) = host();
    let library = ["x86_64", "aarch64"].map(|arch| format!("/usr/lib/{arch}-linux-gnu/faketime/libfaketime.so.1"));
    let Some(library) = library.into_iter().find(|path| Path::new(path).exists()) else {
        ignore("there is no libfaketime (Debian: apt-get install faketime)");
    };
    let preload = format!("export FAKETIME=+3h FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD={library}\n");
    std::fs::write(sshd.path("home/.bashrc"), preload).unwrap();
    let output = place.dynamic(&plan("ssh:host", "clock.holdup", &[])).env("HOLDUP_SSH", ssh).output().unwrap();
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("host: its clock is 10") && err.contains(" s ahead of this machine's"), "{err}");
    let number = |key| facts(&place, "clock.holdup", key)[0].parse::<f64>().unwrap();
    assert!((number("ssh.clock_offset_ms") - 10_800_000.0).abs() <= number("ssh.clock_offset_error_ms") + 1_000.0);
    let bundle = holdup_bundle::read(&place.path("clock.holdup")).unwrap();
    let is_ours = |ns: i64| (ns - bundle.head.created_unix_ns).abs() < 3_600_000_000_000;
    assert!(bundle.trials.iter().all(|t| is_ours(t.started_unix_ns) && is_ours(t.ended_unix_ns)));
}

fn hosts_are_compared_and_sessions_go_round_them() {
    let (place, sshd, _) = host();
    let second = Sshd::start(&place, "second", "127.0.0.1", "");
    let mut config = sshd.config("host", "127.0.0.1", "");
    config.push_str(&second.config("other", "127.0.0.1", ""));
    let ssh = client(&place, &config);
    let args = [
        "run",
        "command",
        "--target",
        "ssh:host",
        "--vary",
        "host=host,other",
        "--out",
        "f.holdup",
        "--blocks",
        "2",
        "--",
        "sleep",
        "0.05",
    ];
    let (out, _) = expect(&place, &ssh, 0, &args);
    assert!(out.contains("host=other"), "{out}");
    let mut of_factor = facts(&place, "f.holdup", "ssh.host");
    of_factor.sort();
    of_factor.dedup();
    assert_eq!(of_factor, ["host", "other"]);
    assert!(!sshd.copies().is_empty() && !second.copies().is_empty());
    let args = [
        "run",
        "command",
        "--target",
        "ssh:host,other",
        "--set",
        "design.sessions=2",
        "--out",
        "s.holdup",
        "--blocks",
        "1",
        "--",
        "sleep",
        "0.05",
    ];
    expect(&place, &ssh, 0, &args);
    assert_eq!(facts(&place, "s.holdup", "ssh.host"), ["host", "other"]);
    refused(&place, 2, &["run", "command", "--vary", "host=a,b", "--", "true"], &["it names the host of a trial"]);
}

fn a_fleet_is_checked_and_recorded_in_one_table() {
    let (place, sshd, _) = host();
    let ssh = client(&place, &sshd.config("a b c", "127.0.0.1", ""));
    let output = over(&place, &ssh, &["check", "--target", "ssh:a,missing.invalid,b,c"]);
    let (out, err) = texts(&output);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{out}{err}");
    assert!(out.contains("1 could not be asked") && out.contains("there is no host of this name"), "{out}");
    assert!(["a ", "b ", "c "].iter().all(|name| out.lines().any(|line| line.starts_with(name))), "{out}");
    assert!(out.lines().count() <= 24 && out.lines().all(|line| line.chars().count() <= 80), "{out}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&over(&place, &ssh, &["check", "--target", "ssh:a", "--json"]).stdout).unwrap();
    assert_eq!(json["hosts"][0]["kernel"], release.trim());
    let mut sleep = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleep.id().to_string();
    let recorded =
        over(&place, &ssh, &["record", "--target", "ssh:a,missing.invalid", "--pid", &pid, "-d", "2s", "--wait"]);
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let (out, err) = texts(&recorded);
    assert_eq!(recorded.status.code(), Some(3), "{out}{err}");
    assert!(err.contains("record-a-1.holdup") && out.contains("1 could not be asked"), "{out}\n{err}");
    expect(&place, &ssh, 0, &["verify", "record-a-1.holdup"]);
    assert!(
        !sshd.path("state").read_dir().unwrap().flatten().any(|f| f.file_name().to_string_lossy().starts_with("sent-"))
    );
}

holdup_testkit::tests!(
    a_host_under_test_orders_of_its_clients_only_what_the_plan_names,
    a_host_that_prints_without_end_is_named_and_given_up;
    alone:
    a_run_on_a_host_leaves_it_as_it_was_and_copies_holdup_once,
    what_keeps_a_host_from_being_worked_on_is_said_with_a_way_out,
    ends_that_cannot_be_are_refused_with_a_way_out;
    long:
    hosts_that_do_anything_are_given_up_and_obeyed_in_nothing,
    a_line_that_is_cut_at_any_message_leaves_the_host_as_it_was,
    a_line_that_falls_silent_is_given_up_at_both_ends_and_reported_at_the_next_connect,
    an_agent_that_is_killed_and_a_host_that_restarts_are_reported_and_put_back,
    a_run_that_is_interrupted_or_killed_leaves_the_host_as_it_was,
    a_host_with_a_full_disk_without_sudo_or_of_another_architecture_is_refused_clearly,
    a_host_with_ipv6_alone_is_reached,
    a_clock_that_is_hours_off_is_said_and_times_are_those_of_this_machine,
    hosts_are_compared_and_sessions_go_round_them,
    a_fleet_is_checked_and_recorded_in_one_table,
    pgbench_on_one_host_loads_a_server_on_another,
    messages_and_streams_go_from_one_host_to_another,
    a_queue_between_the_hosts_shows_in_the_one_way_times,
    strangers_are_not_served,
    an_end_that_disappears_makes_the_trial_void_and_both_are_restored,
    a_line_of_two_ends_that_is_cut_at_any_message_leaves_both_hosts_as_they_were,
    sessions_run_on_two_hosts_at_the_same_time,
    several_clients_load_one_server_and_their_results_add_up,
    a_client_of_several_that_is_killed_or_silent_makes_the_trial_void_and_all_are_restored
);
