//! Boots and what guests wrote in them, through the command line: on the bundle that is kept for ever.

use std::process::{Command, Output};

fn list(words: &[&str]) -> Output {
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../holdup-bundle/tests/fixtures/schema-1.holdup");
    // On a copy: a reader may have to write beside the file.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("a.holdup");
    std::fs::copy(bundle, &copy).expect("is copied");
    let words = words.iter().map(|w| if *w == "FILE" { copy.as_os_str() } else { w.as_ref() });
    Command::new(env!("CARGO_BIN_EXE_holdup")).arg("list").args(words).output().expect("holdup starts")
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("is text")
}

fn boots_are_listed_with_their_kernel_and_their_trials() {
    let text = out(&list(&["boots", "FILE"]));
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0].join(" "), "session boot opened kernel preempt accel boot s done void");
    assert_eq!(lines[1], ["0", "0", "2", "6.18.5", "–", "–", "–", "2", "1"]);
    assert_eq!(lines[2], ["0", "1", "0", "–", "–", "–", "–", "2", "0"]);
    let json: serde_json::Value = serde_json::from_str(&out(&list(&["boots", "FILE", "--json"]))).expect("JSON");
    assert_eq!(json["members"][0]["kernel_release"], "6.18.5");
    assert!(json["members"][0]["boot_s"].is_null(), "absent is not zero");
}

fn the_console_of_a_boot_can_be_read() {
    let text = out(&list(&["logs", "FILE"]));
    assert!(text.starts_with("session  boot  log      bytes  left out\n0        0     console"), "{text}");
    let text = out(&list(&["logs", "FILE", "--boot", "0"]));
    assert_eq!(
        text, "== console, boot 0 ==\nSeaBIOS\n[    0.000000] Linux version ✓\n== kernel, boot 0 ==\n",
        "line ends of a serial port do not reach the terminal"
    );
}

fn a_boot_without_a_log_and_a_kind_without_boots_are_refused_with_what_to_do() {
    for (words, why) in [
        (["logs", "FILE", "--boot", "7"], "boot 7: the bundle holds no log of it\nhint: logs are there of boot 0"),
        (["trials", "FILE", "--boot", "0"], "--boot: only `holdup list logs` has boots to choose from"),
    ] {
        let output = list(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

holdup_testkit::tests!(
    boots_are_listed_with_their_kernel_and_their_trials,
    the_console_of_a_boot_can_be_read,
    a_boot_without_a_log_and_a_kind_without_boots_are_refused_with_what_to_do
);
