//! Bundles of the live tests, kept for the gate: with `HOLDUP_RECORD=FOLDER` each bundle that was judged right is written to that
//! folder, beside what its test demands of it. `script/recorded FOLDER` puts them into the archive that the gate reads.

use holdup_analysis::explain;
use holdup_model::BundleData;
use std::collections::BTreeMap;
use std::path::PathBuf;
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
    /// Whether no other cause is there.
    pub(crate) is_only: bool,
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
    let path = folder.join(format!("{name}.holdup"));
    let _absent = std::fs::remove_file(&path);
    holdup_watch::write(bundle, &path).expect("it is written");
    std::fs::write(folder.join(format!("{name}.json")), format!("{demand:#}\n")).expect("it is written");
    let read = holdup_bundle::read(&path).expect("it reads");
    assert_eq!(explain(&read), explain(bundle), "{name}: what was kept says something else");
}
