//! `holdup calibrate`, as a user meets it.

use crate::common;
use common::{Sandbox, refused};

fn a_calibrated_host_is_a_machine_to_predict_on() {
    let place = Sandbox::new();
    let (out, _) = place.expect(0, &["calibrate", "--quiet"]);
    let first = out.lines().next().unwrap_or_default();
    assert!(first.starts_with("wrote ") && first.contains("costs measured"), "{out}");
    let text = std::fs::read_to_string(place.path("state/machine.toml")).expect("the machine file");
    assert!(text.contains("syscall_ns") && text.contains("measured: "), "{text}");
    let files = std::fs::read_dir(place.path("state")).expect("the folder").count();
    assert_eq!(files, 1, "no draft stays");
    let locks = ["predict", "lock-contention", "--threads", "2", "--duration", "5ms", "--warmup", "1ms"];
    let (prediction, _) = place.expect(0, &[&locks[..], &["--blocks", "2", "--draws", "2", "--json"]].concat());
    assert!(prediction.contains("this-host"), "{prediction}");
    // A machine measured elsewhere is a file in the current folder.
    std::fs::rename(place.path("state/machine.toml"), place.path("my.toml")).expect("moved");
    let elsewhere = [&locks[..], &["--blocks", "2", "--draws", "2", "--json", "--machine", "my.toml"]].concat();
    assert_eq!(place.expect(0, &elsewhere).0, prediction);
}

fn what_cannot_be_written_is_refused() {
    let place = Sandbox::new();
    place.write("file", "x");
    refused(&place, 3, &["calibrate", "-o", "file/machine.toml"], &["machine file", "-o"]);
    refused(&place, 3, &["calibrate", "-o", "."], &["it is a folder"]);
}

holdup_testkit::tests!(
    what_cannot_be_written_is_refused;
    truth:
    a_calibrated_host_is_a_machine_to_predict_on
);
