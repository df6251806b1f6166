//! Names of bundles that a command writes.

use std::path::PathBuf;

/// The first free name: `NAME-N.holdup`.
pub(crate) fn free_name(name: &str) -> PathBuf {
    (1_u32..)
        .map(|n| PathBuf::from(format!("{name}-{n}.holdup")))
        .find(|path| !path.exists())
        .expect("one of four thousand million names is free")
}
