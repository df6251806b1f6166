//! Bad input ends in `what: why` and a hint, with the right exit code.

use crate::common;
use common::{Sandbox, refused};

fn what_cannot_be_is_refused_with_a_hint() {
    let place = Sandbox::new();
    place.write("text.holdup", "this is not a bundle");
    place.write("empty.holdup", "");
    place.write("broken.toml", "name = \"x\"\n[[workload]]\nkind = \"pgbnech\"\n");
    refused(&place, 2, &["run", "missing.toml"], &["missing.toml", "hint:"]);
    refused(&place, 2, &["run", "broken.toml"], &["broken.toml:3:8", "pgbnech", "hint:"]);
    refused(&place, 2, &["run"], &["hint:"]);
    refused(&place, 2, &["run", "pgbench", "--clients", "none", "--dry-run"], &["none", "hint:"]);
    refused(&place, 2, &["run", "pgbench", "--set", "colour=red", "--dry-run"], &["colour", "hint:"]);
    refused(&place, 2, &["run", "pgbench", "--vary", "autogruop=on,off", "--dry-run"], &["autogruop", "autogroup"]);
    refused(&place, 2, &["run", "pgbench", "--target", "moon", "--dry-run"], &["moon", "local"]);
    refused(&place, 2, &["list", "things"], &["things", "workloads"]);
    refused(&place, 2, &["list", "workloads", "tetris"], &["tetris", "pgbench"]);
    for file in ["text.holdup", "empty.holdup", "missing.holdup", "."] {
        for command in ["report", "verify", "export", "compare"] {
            let output = place.output(&[command, file]);
            let (_, err) = common::texts(&output);
            assert!(matches!(output.status.code(), Some(2 | 3)), "{command} {file}: {err}");
            assert!(err.contains(file) && !err.contains("panicked"), "{command} {file}: {err}");
        }
    }
}

fn a_bundle_cut_in_half_is_refused_and_verify_says_what_is_damaged() {
    let place = Sandbox::new();
    place.expect(
        0,
        &[
            "run",
            "lock-contention",
            "--threads",
            "1",
            "--duration",
            "100ms",
            "--warmup",
            "0s",
            "--blocks",
            "3",
            "--out",
            "l.holdup",
            "--quiet",
        ],
    );
    let whole = std::fs::read(place.path("l.holdup")).expect("the bundle");
    std::fs::write(place.path("half.holdup"), &whole[..whole.len() / 2]).expect("written");
    let (_, err) = place.expect(3, &["report", "half.holdup"]);
    assert!(err.contains("half.holdup") && err.contains("hint:"), "{err}");
    let output = place.output(&["verify", "half.holdup"]);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
}

fn a_plan_of_a_hundred_thousand_arms_is_refused_at_once() {
    let place = Sandbox::new();
    let many: Vec<String> = (1..=400).map(|n| n.to_string()).collect();
    let axis = many.join(",");
    refused(
        &place,
        2,
        &["run", "lock-contention", "--threads", &axis, "--sample-every", &axis, "--dry-run"],
        &["arms", "hint:"],
    );
}

fn a_missing_postgresql_is_said_with_what_to_install() {
    let place = Sandbox::new();
    let mut command = place.holdup(&["run", "pgbench", "--pg-bin", "missing/bin", "--out", "a.holdup"]);
    let output = command.output().expect("the binary starts");
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("missing/bin") && err.contains("hint:"), "{err}");
    assert!(!place.path("a.holdup").exists());
}

fn a_server_that_refuses_connections_is_said() {
    let place = Sandbox::new();
    let url = "postgres://nobody@localhost:1/none";
    let output = place.output(&["run", "pgbench", "--pg", url, "--out", "a.holdup"]);
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("localhost") || err.contains("refused"), "{err}");
}

fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let place = Sandbox::new();
    let mut child = place.holdup(&["list", "workloads", "pgbench"]).stdout(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

holdup_testkit::tests!(
    what_cannot_be_is_refused_with_a_hint,
    a_bundle_cut_in_half_is_refused_and_verify_says_what_is_damaged,
    a_plan_of_a_hundred_thousand_arms_is_refused_at_once,
    a_missing_postgresql_is_said_with_what_to_install,
    a_server_that_refuses_connections_is_said,
    a_reader_that_goes_away_is_no_error
);
