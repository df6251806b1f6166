//! Any bytes as a captured tree: what is read comes back from its own text, and a survey of it ends.
#![no_main]

use holdup_host::TreeFile;
use holdup_survey::survey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tree) = TreeFile::parse("x.tree", bytes) else { return };
    assert_eq!(TreeFile::parse("x.tree", tree.text().as_bytes()).as_ref(), Ok(&tree));
    let survey = survey(&tree.file_system().host(), None, None);
    for finding in holdup_analysis::check(&survey) {
        assert!(!finding.reasons.is_empty());
    }
});
