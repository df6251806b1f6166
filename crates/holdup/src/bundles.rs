//! Names of bundles that a command writes.

use std::path::{Path, PathBuf};

/// The first free name: `NAME-N.holdup`.
pub(crate) fn free_name(name: impl AsRef<Path>) -> PathBuf {
    let numbered = |n: u32| {
        let mut path = name.as_ref().as_os_str().to_owned();
        path.push(format!("-{n}.holdup"));
        PathBuf::from(path)
    };
    (1..).map(numbered).find(|path| !is_taken(path)).expect("one of four thousand million names is free")
}

/// True if something has the name: a link to a bundle that is being written too, also where that is another user's.
pub(crate) fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_has_its_name() {
        let top = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", top.path().join("run-1.holdup")).unwrap();
        assert_eq!(free_name(top.path().join("run")), top.path().join("run-2.holdup"));
    }
}
