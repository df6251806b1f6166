//! Profiles through the command line: applied on this host and put back, refused, verified, exported.

use crate::common;
use common::{Sandbox, is_root};
use holdup_model::Profile;
use holdup_model::plan::Level;
use holdup_model::profile::Setting;
use holdup_testkit::{ignore, ignore_part};

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The value of the knob that is not in force now; `None` where it cannot be set.
fn other() -> Option<(&'static str, &'static str)> {
    let now = std::fs::read_to_string(AUTOGROUP).ok();
    match now.as_deref().map(str::trim) {
        Some(now) if is_root() => Some(if now == "1" { ("false", "0") } else { ("true", "1") }),
        _ => None,
    }
}

/// Restores the knob, also when the test fails.
struct Guard(String);

impl Guard {
    fn new() -> Self {
        Guard(std::fs::read_to_string(AUTOGROUP).expect("readable"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _best_effort = std::fs::write(AUTOGROUP, self.0.trim());
    }
}

/// Runs until no other test of this machine holds the host's lock; gives stdout and stderr.
#[track_caller]
fn expect(place: &Sandbox, code: i32, args: &[&str]) -> (String, String) {
    let mut texts = (String::new(), String::new());
    common::wait_for("the lock of the host", || {
        let output = place.output(args);
        texts = common::texts(&output);
        let is_busy = texts.1.contains("another holdup run is under way");
        assert!(
            is_busy || output.status.code() == Some(code),
            "holdup {args:?}: {:?}\n{texts:?}",
            output.status.code()
        );
        !is_busy
    });
    texts
}

fn a_profile_is_applied_stays_and_is_put_back() {
    let Some((value, raw)) = other() else {
        ignore("setting autogroup needs root and CONFIG_SCHED_AUTOGROUP");
    };
    let place = Sandbox::new();
    let guard = Guard::new();
    let before = guard.0.clone();
    place.write("p.toml", &format!("summary = \"a test\"\n[knobs]\nautogroup = {value}\n"));
    let read = || std::fs::read_to_string(AUTOGROUP).expect("readable").trim().to_owned();

    let (out, _) = expect(&place, 0, &["apply", "p.toml", "--dry-run"]);
    assert!(out.contains("would be applied") && out.contains("kernel.sched_autogroup_enabled"), "{out}");
    assert_eq!(read(), before.trim());
    assert!(expect(&place, 1, &["verify", "p.toml"]).0.contains("not in force"));
    expect(&place, 2, &["verify"]);

    let (json, _) = expect(&place, 0, &["apply", "p.toml", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    assert_eq!((&document["in_force"], &document["knobs"][0]["state"]), (&true.into(), &"applied".into()));
    let id = document["schema"].as_str().expect("a schema");
    let schema = place.expect(0, &["list", "schemas", id]).0;
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("a JSON Schema");
    for key in schema["required"].as_array().expect("required keys") {
        assert!(document.get(key.as_str().expect("a name")).is_some(), "{id} has no {key}");
    }
    assert_eq!(read(), raw);
    expect(&place, 0, &["verify", "p.toml"]);
    assert!(expect(&place, 0, &["verify"]).0.contains("in force"), "the applied one");

    assert!(expect(&place, 0, &["apply", "p.toml"]).0.contains("in force"), "a second time changes nothing");
    let (out, err) = expect(&place, 0, &["restore"]);
    assert!(out.contains("restored") && err.contains("autogroup is"), "{out}{err}");
    assert_eq!(read(), before.trim());
    assert!(expect(&place, 0, &["restore"]).0.contains("nothing to restore"));
    assert!(!place.path("state/profile.json").exists());

    // Someone else changes it back and forth: what is in force then is not holdup's to touch.
    expect(&place, 0, &["apply", "p.toml"]);
    std::fs::write(place.path("state/profile.json"), "{").expect("a damaged journal");
    let (_, err) = expect(&place, 5, &["restore"]);
    assert!(err.contains("cannot be understood") && err.contains("--forget"), "{err}");
    let (_, err) = expect(&place, 5, &["apply", "p.toml"]);
    assert!(err.contains("cannot be understood"), "{err}");
    expect(&place, 0, &["restore", "--forget"]);
}

fn what_cannot_be_applied_touches_nothing() {
    let place = Sandbox::new();
    place.write("server.toml", "[knobs]\nautogroup = true\npostgres.work_mem = \"64MB\"\nsched-policy = \"batch\"\n");
    let before = std::fs::read_to_string(AUTOGROUP).ok();
    let (_, err) = expect(&place, 3, &["apply", "server.toml"]);
    for part in ["profile server cannot be applied", "postgres.work_mem = 64MB", "--pg URL", "--pid PID", "optional"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert_eq!(std::fs::read_to_string(AUTOGROUP).ok(), before);
    assert!(!place.path("state").exists(), "not even a journal");
    let (out, _) = expect(&place, 3, &["apply", "server.toml", "--dry-run", "--json"]);
    assert!(out.contains("\"unavailable\""), "{out}");

    for (name, text, part) in [
        ("typo.toml", "[knobs]\nautogruop = true\n", "did you mean `autogroup`?"),
        ("wrong.toml", "[knobs]\nmigration-cost = 5\n", "typo.toml:2"),
        ("plan.toml", "[[workload]]\nkind = \"pgbench\"\n", "this looks like a plan"),
        ("policy.toml", "[knobs]\nsched-policy = \"fifo\"\n", "nice:N"),
        ("not.toml", "\u{1}\u{2}", "not TOML"),
    ] {
        place.write(name, text);
        let (_, err) = expect(&place, 2, &["apply", name]);
        assert!(err.contains(&part.replace("typo.toml", name)), "{part}: {err}");
    }
    std::fs::write(place.path("bytes.toml"), [0xff, 0xfe, 0x00]).expect("written");
    assert!(expect(&place, 2, &["apply", "bytes.toml"]).1.contains("not UTF-8"));
    assert!(expect(&place, 2, &["apply", "none.toml"]).1.contains("cannot read the profile none.toml"));
    assert!(expect(&place, 2, &["apply", "server.toml", "--pid", "4000000000"]).1.contains("4000000000"));
}

fn a_profile_is_exported_for_other_tools() {
    let place = Sandbox::new();
    place.write("p.toml", "name = \"tested\"\n[knobs]\nautogroup = false\nmigration-cost = \"5ms\"\n");
    for (format, part) in [
        ("sysctl.d", "kernel.sched_autogroup_enabled = 0"),
        ("tuned", "[sysctl]\nkernel.sched_autogroup_enabled=0"),
        ("systemd", "ExecStopPost="),
    ] {
        let (text, _) = place.expect(0, &["export", "profile", "p.toml", "--format", format]);
        assert!(text.contains(part) && text.contains("5000000"), "{format}: {text}");
    }
    place.expect(2, &["export", "profile", "p.toml"]);
    place.expect(0, &["export", "profile", "p.toml", "--format", "systemd", "--out", "holdup-tested.service"]);
    let verified = std::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(place.path("holdup-tested.service"))
        .output();
    match verified {
        Ok(output) => {
            let (out, err) = common::texts(&output);
            // What it says about other units of this machine does not count.
            let about_ours: Vec<&str> = err.lines().filter(|l| l.contains("holdup-tested")).collect();
            assert_eq!(about_ours, Vec::<&str>::new(), "{out}{err}");
        }
        Err(e) => ignore_part(format!("systemd-analyze does not run here: {e}")),
    }
}

/// A command of a unit as the shell gets it: what systemd doubles is single again.
fn command(line: &str) -> String {
    let quoted = line.split_once("/bin/sh -c '").and_then(|(_, rest)| rest.strip_suffix('\'')).expect("a command");
    quoted.replace("$$", "$").replace("%%", "%").replace("\\\\", "\\")
}

fn the_commands_of_the_unit_set_and_put_back() {
    let place = Sandbox::new();
    let files = [
        ("plain", "500000\n", "500000", "7", "7\n"),
        ("choice", "always [madvise] never\n", "madvise", "never", "never\n"),
        ("preempt", "none voluntary (full) lazy\n", "full", "lazy", "lazy\n"),
        ("cpu0/governor", "powersave\n", "powersave", "performance", "performance\n"),
        ("cpu1/governor", "ondemand\n", "ondemand", "performance", "performance\n"),
    ];
    for (name, content, ..) in files {
        let path = place.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, content).expect("written");
    }
    std::fs::create_dir(place.path("run")).expect("made");
    let setting = |name: &str| Setting { knob: name.to_owned(), level: Level::plain("x"), optional: false };
    let to = |name: &str, value: &str| {
        let path = place.path(name).display().to_string();
        vec![holdup_model::profile::Destination::File { path, value: value.to_owned() }]
    };
    let names = ["plain", "choice", "preempt", "governor", "plain"];
    let places = vec![
        to("plain", "6"),
        to("choice", "never"),
        to("preempt", "lazy"),
        to("cpu*/governor", "performance"),
        to("plain", "7"),
    ];
    let profile = Profile { name: "t".to_owned(), summary: String::new(), settings: names.map(setting).to_vec() };
    let unit = holdup_report::profile::systemd(&profile, &places);
    let run = |line: &str| {
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &command(line)])
            .env("RUNTIME_DIRECTORY", place.path("run"))
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{line}: {:?}", common::texts(&output));
    };
    let read = |name: &str| std::fs::read_to_string(place.path(name)).expect("readable");
    unit.lines().filter(|line| line.starts_with("ExecStart=")).for_each(run);
    for (name, _, _, _, set) in files {
        assert_eq!(read(name), set, "{name}");
    }
    unit.lines().filter(|line| line.starts_with("ExecStopPost=")).for_each(run);
    for (name, _, old, ..) in files {
        assert_eq!(read(name).trim(), old, "{name}");
    }
}

holdup_testkit::tests!(
    alone:
    a_profile_is_applied_stays_and_is_put_back,
    what_cannot_be_applied_touches_nothing,
    a_profile_is_exported_for_other_tools,
    the_commands_of_the_unit_set_and_put_back
);
