//! Bundles of live tests whose cause is known (`script/recorded`): what is said of each stays as it is, word for word, and is what the
//! live test demands. The live tests show that collectors still give such bundles.

use holdup_analysis::explain;
use holdup_model::explanation::{ArmExplanation, Cause, Explanation};
use holdup_model::outcome::FindingVerdict;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Cursor, Read as _};
use std::path::Path;

/// The live tests, each with the list of its tests.
const LISTS: [&str; 3] = ["situations/mod.rs", "induced_causes.rs", "../../holdup/tests/demo.rs"];

/// Tests of these lists that are not in the archive, and why.
const NOT_RECORDED: &[(&str, &str)] = &[
    ("the_demo_runs_in_a_clean_clone", "it is a script"),
    ("tutorial_of_the_operator", "it is a script"),
    ("tutorial_of_the_dba", "it is a script"),
    ("tutorial_of_the_kernel_developer", "it is a script"),
    ("tutorial_of_the_author_of_a_server", "it is a script"),
];

const LARGEST: usize = 100 << 10;
const LARGEST_ARCHIVE: u64 = 10 << 20;

/// Demands of a live test (`recording::Demand`).
#[derive(Deserialize)]
struct Demand {
    first: Vec<String>,
    says: String,
    never: Vec<String>,
    is_only: bool,
}

fn below(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of the archive by name.
pub(crate) fn archive() -> BTreeMap<String, Vec<u8>> {
    let path = below("tests/recorded.tar");
    assert!(path.metadata().expect("it is there").len() <= LARGEST_ARCHIVE, "the archive is too large");
    let mut archive = tar::Archive::new(std::fs::File::open(path).expect("it opens"));
    let entries = archive.entries().expect("it is one").map(|entry| {
        let mut entry = entry.expect("it is whole");
        let name = entry.path().expect("a name").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("it is whole");
        (name, bytes)
    });
    entries.collect()
}

/// Writes one of its bundles to a path.
pub(crate) fn unpack(packed: &[u8], path: &Path) {
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(Cursor::new(packed), false).read_to_end(&mut bytes).expect("it is whole");
    std::fs::write(path, bytes).expect("it is written");
}

/// Each bundle's name, what is said of it, and what its test demands.
fn recorded() -> Vec<(String, Explanation, Demand)> {
    let folder = tempfile::tempdir().expect("a folder");
    let files = archive();
    let bundles = files.iter().filter_map(|(file, packed)| Some((file.strip_suffix(".holdup.xz")?, packed)));
    let read = bundles.map(|(name, packed)| {
        assert!(packed.len() <= LARGEST, "{name}: {} bytes", packed.len());
        let path = folder.path().join(name);
        unpack(packed, &path);
        let bundle = holdup_bundle::read(&path).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let demand = serde_json::from_slice(&files[&format!("{name}.json")]).expect("demands");
        (name.to_owned(), explain(&bundle), demand)
    });
    read.collect()
}

/// Causes that were found, the largest first, but for those of the whole host, which other work of the machine may have had.
fn found<'a>(arm: &'a ArmExplanation, demand: &Demand) -> Vec<&'a Cause> {
    let is_of_host = |c: &Cause| {
        let is_demanded = demand.first.contains(&c.id);
        let is_shared = matches!(c.id.as_str(), "steal" | "kworker-behind-hog");
        c.id == "nothing" || !is_demanded && is_shared || c.sentence.starts_with("Memory is short: tasks of this host")
    };
    arm.causes.iter().filter(|c| c.verdict == FindingVerdict::Supported && !is_of_host(c)).collect()
}

/// What is wrong with what is said of a bundle.
fn wrong(arm: &ArmExplanation, demand: &Demand) -> Option<String> {
    let found = found(arm, demand);
    let first = found.first().map_or("nothing", |c| &c.id);
    let sentence = found.first().map_or(&arm.answer, |c| &c.sentence);
    let is_first = demand.first.iter().any(|id| id == first) || demand.first.is_empty();
    let others =
        found.iter().filter(|c| demand.never.contains(&c.id) || demand.is_only && !demand.first.contains(&c.id));
    let others: Vec<&str> = others.map(|c| c.id.as_str()).collect();
    let is_right = is_first && sentence.contains(&demand.says) && others.is_empty();
    (!is_right).then(|| format!("{first}: {sentence} {others:?}"))
}

fn what_is_said_of_each_is_said_again() {
    let mut text = String::new();
    let mut all_wrong = Vec::new();
    for (name, explanation, demand) in recorded() {
        for arm in &explanation.arms {
            writeln!(text, "{name}: {}", arm.answer).expect("memory");
            for cause in &arm.causes {
                writeln!(text, "  {} {:?}: {}", cause.id, cause.verdict, cause.sentence).expect("memory");
            }
        }
        let first = explanation.arms.first().expect("an arm");
        all_wrong.extend(wrong(first, &demand).map(|wrong| format!("{name}: {wrong}")));
    }
    assert!(all_wrong.is_empty(), "{all_wrong:#?}");
    insta::assert_snapshot!(text);
}

/// Names of a list's tests, without those that run by hand.
fn listed(source: &str) -> Vec<String> {
    let (_, list) = source.split_once("holdup_testkit::tests!(").expect("a list of tests");
    let list =
        list.split(';').next().expect("an end").trim().trim_start_matches("truth:").trim_end_matches(['\n', ')']);
    let names = list.split(',').filter_map(|path| path.trim().rsplit("::").next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn every_live_test_is_recorded_or_says_why_not() {
    let files = archive();
    let mut tests = Vec::new();
    for list in LISTS {
        let source = std::fs::read_to_string(below("../holdup-target/tests").join(list)).expect("the live tests");
        tests.extend(listed(&source));
    }
    let is_recorded = |test: &str| files.contains_key(&format!("{test}.holdup.xz"));
    let is_excused = |test: &str| NOT_RECORDED.iter().any(|(name, _)| *name == test);
    let wrong: Vec<&String> = tests.iter().filter(|test| is_recorded(test) == is_excused(test)).collect();
    assert!(wrong.is_empty(), "neither in tests/recorded.tar nor in NOT_RECORDED, or in both: {wrong:#?}");
    let test_of = |file: &str| file.split(['.', '-']).next().unwrap_or_default().to_owned();
    let strangers: Vec<&String> = files.keys().filter(|file| !tests.contains(&test_of(file))).collect();
    assert!(strangers.is_empty(), "of no test: {strangers:#?}");
}

holdup_testkit::tests!(what_is_said_of_each_is_said_again, every_live_test_is_recorded_or_says_why_not);
