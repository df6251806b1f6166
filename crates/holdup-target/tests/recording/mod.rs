//! Bundles of the live tests, kept for the gate: with `HOLDUP_RECORD=FOLDER` each bundle that was judged right is written to that
//! folder, beside what its test demands of it. `script/recorded FOLDER` puts them into the archive that the gate reads.

use holdup_analysis::explain;
use holdup_model::{BundleData, Fact};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bundles that each test of this process has kept.
static KEPT: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Demands on the first sentence, which the gate makes again.
#[derive(Default)]
pub(crate) struct Demand<'a> {
    /// Causes that may come first; empty where only the sentences are compared.
    pub(crate) first: &'a [&'a str],
    /// A part of the first sentence.
    pub(crate) says: &'a str,
    /// Causes that are not there.
    pub(crate) never: &'a [&'a str],
    /// True if no other cause is there.
    pub(crate) is_only: bool,
}

/// Facts that name the machine; nothing is concluded from them.
const NAMES: [&str; 6] =
    ["host.name", "kernel.boot_id", "kernel.command_line", "kernel.release", "kernel.version", "holdup.cgroup"];

/// A copy that does not name the machine: without such facts, and with other paths of the sources.
fn nameless(bundle: &BundleData) -> BundleData {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").display().to_string();
    let mut kept = bundle.clone();
    let is_kept = |fact: &Fact| !NAMES.contains(&fact.key.as_str());
    kept.environment.iter_mut().for_each(|reading| reading.facts.retain(is_kept));
    for trial in &mut kept.trials {
        trial.environment_before.retain(is_kept);
        trial.environment_moved.retain(is_kept);
        let text = serde_json::to_string(trial).expect("it is text");
        *trial = serde_json::from_str(&text.replace(&sources, "/sources")).expect("it was one");
    }
    kept
}

/// Keeps a bundle that was judged right, where the environment asks for it.
pub(crate) fn keep(bundle: &BundleData, demand: &Demand<'_>) {
    let Some(folder) = std::env::var_os("HOLDUP_RECORD").map(PathBuf::from) else { return };
    let running = holdup_testkit::running();
    let test = running.rsplit("::").next().unwrap_or_default();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let count = kept.entry(running.clone()).or_default();
    *count += 1;
    let name = if *count == 1 { test.to_owned() } else { format!("{test}-{count}") };
    let Demand { first, says, never, is_only } = demand;
    let demand = serde_json::json!({ "first": first, "says": says, "never": never, "is_only": is_only });
    std::fs::write(folder.join(format!("{name}.json")), format!("{demand:#}\n")).expect("it is written");
    let path = folder.join(format!("{name}.holdup"));
    let _absent = std::fs::remove_file(&path);
    holdup_watch::write(&nameless(bundle), &path).expect("it is written");
    let read = holdup_bundle::read(&path).expect("it reads");
    assert_eq!(explain(&read), explain(bundle), "{name}: what was kept says something else");
}
