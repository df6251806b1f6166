//! Any bytes as a kernel's image: a release that can be part of a path, or a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| match holdup_kernels::image_facts(bytes) {
    Ok(facts) => {
        assert!(!facts.release.is_empty() && !facts.release.contains(['/', '\0', '\n']) && facts.release != "..");
        assert!(facts.version_line.starts_with(&facts.release));
    }
    Err(why) => assert!(!why.is_empty()),
});
