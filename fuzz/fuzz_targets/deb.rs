//! Any bytes as a .deb: it ends in files below the folder or in a reason, and nothing is written beside the folder.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let outer = tempfile::tempdir().expect("a folder can be made");
    let into = outer.path().join("into");
    std::fs::create_dir(&into).expect("a folder can be made");
    if let Err(why) = holdup_kernels::fuzzing::deb(bytes, &into) {
        assert!(!why.is_empty());
    }
    let beside = std::fs::read_dir(outer.path()).expect("the folder can be read").count();
    assert_eq!(beside, 1, "something was written beside the folder");
    stays_inside(&into, &into.canonicalize().expect("the folder is there"));
});

/// Follows every link: none leads out of the folder.
fn stays_inside(folder: &Path, root: &Path) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        if let Ok(real) = entry.path().canonicalize() {
            assert!(real.starts_with(root), "{} leads to {}", entry.path().display(), real.display());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            stays_inside(&entry.path(), root);
        }
    }
}
