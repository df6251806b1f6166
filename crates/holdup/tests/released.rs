//! The bundle of every release (`script/keep-release`) is read by `verify`, `report`, `compare`, `explain` and `export`.

use crate::common;
use common::{Sandbox, texts};
use std::path::{Path, PathBuf};

fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdup-bundle/tests/fixtures");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("is read").path());
    paths.filter(|p| p.file_name().is_some_and(|name| name.to_string_lossy().starts_with("release-"))).collect()
}

fn the_bundles_of_every_release_are_read() {
    let version = env!("CARGO_PKG_VERSION");
    let kept = kept();
    assert!(
        kept.iter().any(|path| path.ends_with(format!("release-{version}.holdup"))),
        "no bundle of {version} is kept: script/keep-release PROGRAM"
    );
    for bundle in kept {
        let place = Sandbox::new();
        // A copy, because nothing may change it.
        std::fs::copy(&bundle, place.path("old.holdup")).expect("is copied");
        place.expect(0, &["verify", "old.holdup"]);
        let (json, _) = place.expect(0, &["report", "old.holdup", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
        let comparisons = report["comparisons"].as_array().expect("a list");
        assert!(comparisons.iter().any(|c| c["ratio"]["value"].is_number()), "{}: no ratio", bundle.display());
        place.expect(0, &["report", "old.holdup", "--html", "old.html"]);
        for format in ["json", "csv", "benchstat", "perfetto"] {
            let (text, _) = place.expect(0, &["export", "old.holdup", "--format", format]);
            assert!(text.len() > 100, "{}: {format}: {text}", bundle.display());
        }
        for command in [["compare", "old.holdup"], ["explain", "old.holdup"]] {
            let output = place.output(&command);
            let (out, err) = texts(&output);
            assert!(output.status.code().is_some_and(|code| [0, 1, 3].contains(&code)), "{command:?}\n{out}\n{err}");
        }
    }
}

holdup_testkit::tests!(the_bundles_of_every_release_are_read);
