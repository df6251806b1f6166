//! Names of bundles that a command writes.

use std::path::{Path, PathBuf};

/// The first free name: `NAME-N.holdup`.
pub(crate) fn free_name(name: impl AsRef<Path>) -> PathBuf {
    let numbered = |n: u32| {
        let mut path = name.as_ref().as_os_str().to_owned();
        path.push(format!("-{n}.holdup"));
        PathBuf::from(path)
    };
    (1..).map(numbered).find(|path| !path.exists()).expect("one of four thousand million names is free")
}
