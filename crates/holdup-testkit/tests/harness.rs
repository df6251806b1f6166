//! The harness, run by itself: what it prints is what `cargo test` shows.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

use holdup_testkit::ignore;
use std::process::Command;

fn run(arguments: &[&str]) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ignored");
    let own = std::env::current_exe().expect("this test");
    let output = Command::new(own).args(arguments).env("HOLDUP_IGNORED", &file).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text, std::fs::read_to_string(file).unwrap_or_default())
}

fn what_cannot_run_is_ignored_with_its_reason() {
    let (is_success, text, file) = run(&["--ignored", "--exact", "harness::cannot_run"]);
    assert!(is_success && text.contains("0 passed; 0 failed; 1 ignored"), "{text}");
    assert!(text.contains("ignored: harness::cannot_run: no such thing here"), "{text}");
    assert_eq!(file, "holdup-testkit::harness::cannot_run\tno such thing here\n");
}

fn what_fails_is_no_success() {
    for (test, reason) in [("panics", "it is wrong"), ("returns_an_error", "\"no\"")] {
        let (is_success, text, file) = run(&["--ignored", "--exact", &format!("harness::{test}")]);
        assert!(!is_success && text.contains("0 passed; 1 failed") && text.contains(reason), "{text}");
        assert_eq!(file, "");
    }
}

fn a_test_that_is_not_there_is_no_success() {
    let (is_success, text, _) = run(&["--ignored", "--exact", "harness::renamed"]);
    assert!(!is_success && text.contains("there is no test harness::renamed"), "{text}");
}

fn cannot_run() {
    ignore("no such\nthing here");
}

fn panics() {
    panic!("it is {}", "wrong");
}

fn returns_an_error() -> Result<(), &'static str> {
    Err("no")
}

holdup_testkit::tests!(
    what_cannot_run_is_ignored_with_its_reason, what_fails_is_no_success, a_test_that_is_not_there_is_no_success;
    by_hand: cannot_run, panics, returns_an_error
);
holdup_testkit::main!();
