//! What is exported of some trials of a bundle, from a bundle that is kept for ever.

use crate::common;
use common::Sandbox;
use serde_json::Value;
use std::path::Path;

fn place() -> Sandbox {
    let place = Sandbox::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdup-bundle/tests/fixtures/schema-2.holdup");
    std::fs::copy(kept, place.path("a.holdup")).expect("is copied");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdup-bundle/tests/fixtures/schema-1.holdup");
    std::fs::copy(old, place.path("old.holdup")).expect("is copied");
    place
}

fn a_timeline_is_exported_for_perfetto() {
    let place = place();
    let (text, _) = place.expect(0, &["export", "a.holdup", "--format", "perfetto"]);
    let trace: Value = serde_json::from_str(&text).expect("is JSON");
    assert_eq!(trace["otherData"]["title"], "trial 0, autogroup=on");
    assert!(trace["traceEvents"].as_array().is_some_and(|e| e.iter().any(|e| e["name"] == "page fault")));
    let of_arm = ["export", "a.holdup", "--format", "perfetto", "--arm", "autogroup=on (same)", "--out", "b.json"];
    place.expect(0, &of_arm);
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("b.json")).expect("is written")).expect("is JSON");
    assert_eq!(trace["otherData"]["title"], "trial 2, autogroup=on (same)");
}

fn what_is_not_there_is_said_with_what_would_bring_it() {
    let place = place();
    let said = |args: &[&str]| {
        let (_, err) = place.expect(2, args);
        err
    };
    let mut table = String::new();
    for args in [
        &["old.holdup", "--format", "perfetto"][..],
        &["a.holdup", "--format", "perfetto", "--arm", "fast"],
        &["a.holdup", "--format", "perfetto", "--trial", "77"],
        &["a.holdup", "--format", "perfetto", "--profile", "on_cpu"],
        &["a.holdup", "--format", "csv", "--trial", "0"],
    ] {
        let all: Vec<&str> = ["export"].iter().chain(args).copied().collect();
        table += &format!("{}\n{}\n", args.join(" "), said(&all));
    }
    insta::assert_snapshot!(table);
}

holdup_testkit::tests!(a_timeline_is_exported_for_perfetto, what_is_not_there_is_said_with_what_would_bring_it);
