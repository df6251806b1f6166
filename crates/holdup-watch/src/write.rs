//! A bundle in memory, into a file.

use holdup_bundle::Writer;
use holdup_model::{BundleData, Problem};
use std::path::Path;

/// Writes a bundle, which gets its name when it is whole. A file that is there stays.
///
/// # Errors
/// When `path` exists, or it cannot be written; nothing of it is left then.
pub fn write(bundle: &BundleData, path: &Path) -> Result<(), Problem> {
    write_with(bundle, path, |_| Ok(()))
}

/// As [`write`], closed to other users (mode 0600).
///
/// # Errors
/// As [`write`].
pub fn write_private(bundle: &BundleData, path: &Path) -> Result<(), Problem> {
    write_with(bundle, path, Writer::make_private)
}

fn write_with(
    bundle: &BundleData,
    path: &Path,
    begun: impl FnOnce(&Writer) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let BundleData { head, plan, plan_source, schedule, metrics, collectors, .. } = bundle;
    let mut writer = Writer::create_copy(path, head, plan, plan_source, schedule, metrics, collectors)?;
    begun(&writer)?;
    for reading in &bundle.environment {
        writer.add_environment(reading.session, reading.boot, &reading.facts)?;
    }
    for trial in &bundle.trials {
        writer.add_trial(trial)?;
    }
    for (unix_ns, line) in &bundle.log {
        writer.log(*unix_ns, line)?;
    }
    writer.end(bundle.ending.as_ref(), false)
}
