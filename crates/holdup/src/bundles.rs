//! Names of bundles, and their reading.

use holdup_model::{BundleData, Plan, Problem};
use std::path::{Path, PathBuf};

/// Reads a bundle for analysis.
///
/// # Errors
/// When it is not one, or is damaged.
pub(crate) fn read(path: &Path) -> Result<BundleData, Problem> {
    holdup_store::read(path)
}

/// The bundle of a run that was given no name: `NAME-N.holdup`, the first that is free.
pub(crate) fn free_name(plan: &Plan) -> PathBuf {
    free_name_of(&plan.name)
}

/// The same for any name.
pub(crate) fn free_name_of(name: &str) -> PathBuf {
    (1_u32..)
        .map(|n| PathBuf::from(format!("{name}-{n}.holdup")))
        .find(|path| !path.exists())
        .expect("one of four thousand million names is free")
}
