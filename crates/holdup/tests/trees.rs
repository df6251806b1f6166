//! `holdup check --root` over captured systems: the model that each was in, and what the cases come to.

use holdup_host::Host;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn trees() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdup-host/tests/trees");
    let mut trees: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    trees.retain(|path| path.extension().is_some_and(|extension| extension == "tree"));
    // By name, for `-` stands before the dot of the extension.
    trees.sort_by_key(|tree| name(tree));
    trees
}

/// The exit code and the document.
fn check(tree: &Path) -> (i32, Value) {
    let out =
        Command::new(env!("CARGO_BIN_EXE_holdup")).args(["check", "--json", "--root"]).arg(tree).output().unwrap();
    let document = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{}: {e}: {out:?}", tree.display()));
    (out.status.code().unwrap(), document)
}

fn name(tree: &Path) -> String {
    tree.file_stem().unwrap().to_string_lossy().into_owned()
}

/// What `about.toml` says was the model on that very boot.
fn captured_model(tree: &Path) -> Option<String> {
    let about = Host::captured(tree).unwrap().read_text("/about.toml").ok()?;
    about.lines().find_map(|line| line.strip_prefix("preempt = \"")?.strip_suffix('"').map(str::to_owned))
}

fn the_model_is_the_one_that_each_system_was_in_or_it_is_not_known() {
    let mut known = 0;
    for tree in trees() {
        let Some(truth) = captured_model(&tree) else { continue };
        let (_, document) = check(&tree);
        match &document["survey"]["preempt"]["model"]["value"] {
            Value::Null => {}
            found => {
                assert_eq!(found, &Value::from(truth), "{}: {document:#}", name(&tree));
                known += 1;
            }
        }
    }
    assert!(known >= 24, "only {known} models were found");
}

/// One line for each system: what was found and what it rests on.
fn verdicts_of_captured_systems() {
    let mut table = String::new();
    for tree in trees() {
        let (code, document) = check(&tree);
        let preempt = &document["survey"]["preempt"];
        let model = preempt["model"]["value"].as_str().unwrap_or("unknown");
        let source = if model == "unknown" { "" } else { preempt["model"]["source"].as_str().unwrap() };
        writeln!(table, "{}: {model} ({source}), exit {code}", name(&tree)).unwrap();
        for key in ["refused", "disagreement"] {
            if let Some(text) = preempt[key].as_str() {
                writeln!(table, "  {key}: {text}").unwrap();
            }
        }
        for finding in document["findings"].as_array().unwrap() {
            let exposure = finding["exposure"].as_str().unwrap();
            writeln!(table, "  {exposure:11} {}: {}", finding["case"].as_str().unwrap(), finding["reasons"][0])
                .unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

fn the_answer_fits_one_screen() {
    for tree in trees() {
        let out = Command::new(env!("CARGO_BIN_EXE_holdup"))
            .args(["check", "--root"])
            .arg(&tree)
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(text.lines().count() <= 24 && widest <= 80, "{}:\n{text}", name(&tree));
    }
}

/// Every setting that could be read of a booted system is at the default that holdup knows for it, or the start of
/// that system changed it.
fn defaults_are_those_of_real_kernels() {
    let mut seen = 0;
    for tree in trees().iter().filter(|t| name(t).starts_with("debian-")) {
        let (_, document) = check(tree);
        for setting in document["survey"]["settings"].as_array().unwrap() {
            if let (Some(value), Some(default)) = (setting["value"]["value"].as_str(), setting["default"].as_str()) {
                assert_eq!(value, default, "{}: {}", name(tree), setting["name"]);
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "only {seen} settings were read");
}

/// A capture of this host has the same findings as the host itself.
fn a_captured_host_is_judged_as_the_host_was() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("this.tree");
    let live = Command::new(env!("CARGO_BIN_EXE_holdup")).args(["check", "--json", "--capture"]).arg(&tree).output();
    let live: Value = serde_json::from_slice(&live.unwrap().stdout).unwrap();
    let (_, captured) = check(&tree);
    let exposures = |document: &Value| -> Vec<(Value, Value)> {
        let all = document["findings"].as_array().unwrap().iter();
        all.map(|f| (f["case"].clone(), f["exposure"].clone())).collect()
    };
    assert_eq!(exposures(&live), exposures(&captured), "{live:#} {captured:#}");
    for key in ["kernel", "settings", "slice_extension"] {
        let (was, is) = (&live["survey"][key], &captured["survey"][key]);
        let values = |v: &Value| v.to_string().replace("uname(2)", "/proc/sys/kernel/arch");
        assert_eq!(values(was), values(is), "{key}");
    }
    assert_eq!(live["survey"]["preempt"], captured["survey"]["preempt"]);
    // A second capture does not go over the first.
    let again = Command::new(env!("CARGO_BIN_EXE_holdup")).args(["check", "--capture"]).arg(&tree).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("hint: name a file that does not exist"), "{again:?}");
}

holdup_testkit::tests!(
    the_model_is_the_one_that_each_system_was_in_or_it_is_not_known,
    verdicts_of_captured_systems,
    the_answer_fits_one_screen,
    defaults_are_those_of_real_kernels,
    a_captured_host_is_judged_as_the_host_was
);
