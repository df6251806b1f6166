//! A bundle in memory, into a file.

use holdup_bundle::Writer;
use holdup_files::Folder;
use holdup_model::{BundleData, Problem};
use std::path::Path;

/// Writes a bundle under another name beside `path`, which it gets when it is whole. A file that is there stays.
///
/// # Errors
/// When `path` exists, or it cannot be written; nothing of it is left then.
pub fn write(bundle: &BundleData, path: &Path) -> Result<(), Problem> {
    let wrong = |why: &str| Problem::usage(path.display().to_string(), why.to_owned());
    let failed = |e: std::io::Error| Problem::host(path.display().to_string(), e.to_string());
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Err(wrong("it is no name of a file in UTF-8"));
    };
    let above = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    let folder = Folder::open(above).map_err(failed)?;
    if folder.stat(name).is_ok() {
        return Err(wrong("it exists").hint("name another file"));
    }
    let part = format!("{name}.part");
    // What a holdup that was killed has left.
    let _absent = folder.remove(&part);
    let written = write_all(bundle, &path.with_file_name(&part));
    let written = written.and_then(|()| folder.rename(&part, name).map_err(failed));
    if written.is_err() {
        let _absent = folder.remove(&part);
    }
    written
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
