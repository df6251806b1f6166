//! A bundle in memory, into a file.

use holdup_bundle::Writer;
use holdup_model::{BundleData, Problem};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Writes a bundle under another name beside `path`, which it gets when it is whole. A file that is there stays.
///
/// # Errors
/// When `path` exists, or it cannot be written; nothing of it is left then.
pub fn write(bundle: &BundleData, path: &Path) -> Result<(), Problem> {
    if path.symlink_metadata().is_ok() {
        return Err(Problem::usage(path.display().to_string(), "it exists").hint("name another file"));
    }
    let part = part_of(path);
    // What a holdup that was killed has left.
    let _absent = std::fs::remove_file(&part);
    let written = write_all(bundle, &part).and_then(|()| {
        std::fs::rename(&part, path).map_err(|e| Problem::host(path.display().to_string(), e.to_string()))
    });
    if written.is_err() {
        let _absent = std::fs::remove_file(&part);
    }
    written
}

/// The name under which a bundle is written: `FILE.part`.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".part");
    path.with_file_name(name)
}

fn write_all(bundle: &BundleData, path: &Path) -> Result<(), Problem> {
    let BundleData { head, plan, plan_source, schedule, metrics, collectors, .. } = bundle;
    let mut writer = Writer::create_copy(path, head, plan, plan_source, schedule, metrics, collectors)?;
    for reading in &bundle.environment {
        writer.add_environment(reading.session, reading.boot, &reading.facts)?;
    }
    for trial in &bundle.trials {
        writer.add_trial(trial)?;
    }
    for (unix_ns, line) in &bundle.log {
        writer.log(*unix_ns, line)?;
    }
    match &bundle.ending {
        Some(ending) => writer.finish(ending),
        None => Ok(()),
    }
}
