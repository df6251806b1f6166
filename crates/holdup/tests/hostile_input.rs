//! Files that are none, names and texts that command a terminal, and outputs to places that someone else chose.

use crate::common;
use common::{Sandbox, texts};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A name that would clear the screen, reorder its line and fake a hint.
const EVIL: &str = "e\u{1b}[2J\u{202e}\u{9b}1m\nhint: run this.toml";

/// Every command that takes a file, with `FILE` where the file goes.
const READS: &[&[&str]] = &[
    &["report", "FILE"],
    &["report", "FILE", "--json"],
    &["explain", "FILE"],
    &["compare", "FILE"],
    &["compare", "FILE", "FILE"],
    &["export", "FILE"],
    &["export", "FILE", "--format", "csv"],
    &["export", "profile", "FILE", "--format", "systemd"],
    &["verify", "FILE"],
    &["list", "arms", "FILE"],
    &["list", "trials", "FILE"],
    &["list", "logs", "FILE"],
    &["packets", "FILE"],
    &["packets", "FILE", "FILE2"],
    &["import", "pcap", "FILE", "--out", "new.holdup"],
    &["apply", "FILE"],
    &["apply", "FILE", "--dry-run"],
    &["run", "FILE"],
    &["run", "FILE", "--dry-run"],
    &["predict", "FILE"],
    &["run", "lock-contention", "--target", "sim:./FILE", "--dry-run"],
];

/// Runs with an end: what hangs is killed after a minute and fails the test.
fn bounded(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let begun = Instant::now();
    while child.try_wait().expect("is our child").is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().expect("is our child");
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("ended")
}

fn is_harmless(text: &str) -> bool {
    !text
        .chars()
        .any(|c| c != '\n' && (c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')))
}

#[track_caller]
fn refused(output: &Output, context: &str) {
    let (out, err) = texts(output);
    assert!(matches!(output.status.code(), Some(2 | 3)), "{context}: {:?}\n{err}", output.status);
    let error = err.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{context}: {err:?}"));
    assert!(error["error: ".len()..].contains(": "), "{context}: no `what: why` in {error:?}");
    assert!(is_harmless(&out) && is_harmless(&err), "{context}: {out:?} {err:?}");
    assert!(
        !err.contains("panicked") && !err.lines().any(|line| line.starts_with("hint: run this")),
        "{context}: {err}"
    );
    assert!(err.lines().any(|line| line.starts_with("hint: ") || line.starts_with("  hint: ")), "{context}: {err}");
}

fn what_is_no_regular_file_ends_every_command_with_a_hint() {
    let place = Sandbox::new();
    mknodat(CWD, place.path("fifo.toml"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    symlink(place.path("fifo.toml"), place.path("link.toml")).expect("a link");
    symlink("/dev/zero", place.path("zero.toml")).expect("a link");
    std::fs::create_dir(place.path("folder.toml")).expect("a folder");
    place.write("empty.toml", "");
    place.write(EVIL, "e\u{1b}[2J = \"\u{202e}\"\n");
    let large = std::fs::File::create(place.path("large.toml")).expect("a file");
    large.set_len(1 << 40).expect("a hole");
    let fifo = place.path("fifo.toml");
    let all = ["fifo.toml", "link.toml", "zero.toml", "folder.toml", "empty.toml", "large.toml", "none.toml", EVIL];
    for args in READS {
        for name in all {
            let args: Vec<String> =
                args.iter().map(|arg| arg.replace("FILE2", "/dev/null").replace("FILE", name)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut command = place.holdup(&args);
            // A command that asks for more memory than this fails.
            command.env("HOLDUP_NO_PROGRESS", "1");
            let output = bounded(command);
            // An empty plan file of `list` and `compare` is refused like the others.
            refused(&output, &format!("{args:?}"));
        }
    }
    let output = bounded(place.holdup(&["packets", "fifo.toml"]));
    assert!(texts(&output).1.contains("it is a FIFO, not a regular file\nhint: "), "{:?}", texts(&output));
    assert!(fifo.exists() && !place.path("new.holdup").exists());
}

fn a_name_that_is_not_utf8_is_no_panic() {
    let place = Sandbox::new();
    let name = OsStr::from_bytes(b"a\xff\x1b[2J.holdup");
    for command in ["report", "verify", "packets", "apply", "run"] {
        let mut run = place.holdup(&[command]);
        run.arg(name);
        refused(&bounded(run), command);
    }
}

fn a_command_line_does_not_command_the_terminal() {
    let place = Sandbox::new();
    let output = bounded(place.holdup(&["restore", "a\u{1b}[2J\u{9b}1m\u{202e}"]));
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_harmless(&err) && err.contains("\\u009b1m\\u202e"), "{err:?}");
}

fn standard_input_is_read_as_ever() {
    let place = Sandbox::new();
    let output = bounded(place.holdup(&["packets", "-"]));
    refused(&output, "packets -");
    assert!(texts(&output).1.contains("standard input"), "{:?}", texts(&output));
}

/// Every option that writes, with `OUT` where the file goes.
const WRITES: &[&[&str]] = &[
    &["report", "a.holdup", "--html", "OUT"],
    &["report", "a.holdup", "--markdown", "OUT"],
    &["export", "a.holdup", "--format", "csv", "-o", "OUT"],
    &["run", "lock-contention", "--dry-run", "--save-plan", "OUT"],
    &["run", "lock-contention", "--target", "sim:server-8", "--duration", "10ms", "--out", "OUT", "--quiet"],
    &["calibrate", "--out", "OUT"],
];

fn nothing_is_written_through_a_link() {
    let place = Sandbox::new();
    let run = ["run", "lock-contention", "--target", "sim:server-8", "--threads", "2", "--duration", "10ms"];
    place.expect(0, &[&run[..], &["--blocks", "3", "--out", "a.holdup", "--quiet"]].concat());
    place.write("victim", "kept");
    symlink(place.path("victim"), place.path("link")).expect("a link");
    symlink(place.path("absent"), place.path("dangling")).expect("a link");
    mknodat(CWD, place.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    for args in WRITES {
        for out in ["link", "dangling", "fifo"] {
            let args: Vec<&str> = args.iter().map(|arg| if *arg == "OUT" { out } else { *arg }).collect();
            refused(&bounded(place.holdup(&args)), &format!("{args:?}"));
            assert_eq!(std::fs::read_to_string(place.path("victim")).expect("is there"), "kept", "{args:?}");
            assert!(!place.path("absent").exists(), "{args:?}");
        }
    }
    // A regular file is replaced.
    place.expect(0, &["report", "a.holdup", "--html", "victim"]);
    assert!(std::fs::read_to_string(place.path("victim")).expect("is there").starts_with("<!doctype html>"));
}

fn texts_of_a_plan_do_not_command_the_terminal() {
    let place = Sandbox::new();
    // Plans have no control characters; these are what is left to them.
    let evil = "x\u{202e}\u{200b}";
    let plan = format!(
        "# \u{9b}1m\nname = \"evil\"\nquestion = \"{evil}\"\ntarget = \"sim:server-8\"\n[design]\nblocks = 3\nduration = \"10ms\"\nwarmup = \"0s\"\n\
         [[workload]]\nkind = \"lock-contention\"\nname = \"w\"\nthreads = 2\n"
    );
    place.write("evil.toml", &plan);
    let output = bounded(place.holdup(&["run", "evil.toml", "--out", "evil.holdup"]));
    let shown = |context: &str, output: &Output| {
        let (out, err) = texts(output);
        assert!(is_harmless(&out) && is_harmless(&err), "{context}: {out:?} {err:?}");
        out
    };
    shown("run", &output);
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
    for args in [&["report", "evil.holdup"][..], &["report", "evil.holdup", "--json"], &["list", "arms", "evil.holdup"]]
    {
        let out = shown(&format!("{args:?}"), &place.output(args));
        if args.contains(&"--json") {
            let document: serde_json::Value = serde_json::from_str(&out).expect("is JSON");
            assert!(document.to_string().contains("x\u{202e}\u{200b}"), "the document has the text as it is");
        }
    }
    // For another program it is what was written, byte for byte.
    assert_eq!(place.expect(0, &["export", "evil.holdup", "--format", "plan"]).0, plan);
}

holdup_testkit::tests!(
    what_is_no_regular_file_ends_every_command_with_a_hint,
    a_name_that_is_not_utf8_is_no_panic,
    a_command_line_does_not_command_the_terminal,
    standard_input_is_read_as_ever,
    nothing_is_written_through_a_link,
    texts_of_a_plan_do_not_command_the_terminal
);
