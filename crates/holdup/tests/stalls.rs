//! A trial in which holdup or its load was stopped does not count, and says why.

use crate::common;
use common::{Sandbox, signal, texts, wait_for};
use rustix::process::Signal;

/// A run of one block, whose command creates a file when its window is open. With the default collectors a trial may be
/// measured again without the expensive ones.
const COMMAND: &[&str] = &["run", "command", "--blocks", "1", "--collect", "cpu", "--out", "s.holdup"];

/// The reason of each trial that is void, in the order in which they ran.
fn reasons(place: &Sandbox) -> Vec<Option<String>> {
    let (text, _) = place.expect(0, &["export", "s.holdup", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("one JSON document");
    let trials = document["trials"].as_array().expect("trials");
    trials.iter().map(|trial| trial["void"].as_str().map(str::to_owned)).collect()
}

fn a_trial_in_which_holdup_was_stopped_is_void_and_repeated() {
    let place = Sandbox::new();
    let script = "if [ -e again ]; then exit 0; fi; touch again; sleep 2";
    let run = place.start(&[COMMAND, &["--", "sh", "-c", script]].concat());
    wait_for("the window", || place.path("again").exists());
    signal(&run, Signal::STOP);
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(&run, Signal::CONT);
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
    let reasons = reasons(&place);
    assert!(matches!(&reasons[..], [Some(why), None, None] if why.contains("holdup was stopped: for ")), "{reasons:?}");
}

fn a_trial_whose_load_was_stopped_is_void_and_repeated() {
    let place = Sandbox::new();
    // A shell that stops itself needs somebody who continues it.
    let script = "if [ -e again ]; then exit 0; fi; touch again; (sleep 0.5; kill -CONT $$) & kill -STOP $$; wait";
    let (_, _) = place.expect(0, &[COMMAND, &["--", "sh", "-c", script]].concat());
    let reasons = reasons(&place);
    assert!(
        matches!(&reasons[..], [Some(why), None, None] if why.contains("a process of the load was stopped")),
        "{reasons:?}"
    );
}

holdup_testkit::tests!(
    alone:
    a_trial_in_which_holdup_was_stopped_is_void_and_repeated,
    a_trial_whose_load_was_stopped_is_void_and_repeated
);
