//! Any text as a profile: it ends in a profile with a name that can be a file's, or in errors with places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

#[path = "../../crates/holdup-plan/tests/common/mod.rs"]
mod common;

fuzz_target!(|text: &str| {
    static VOCABULARY: OnceLock<holdup_model::catalogue::Vocabulary> = OnceLock::new();
    let vocabulary = VOCABULARY.get_or_init(common::vocabulary);
    match holdup_plan::check_profile("fuzz.toml", text, common::MACHINE, vocabulary) {
        Ok(profile) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            assert!(!profile.name.is_empty() && profile.name.chars().all(fits));
            assert!(!profile.settings.is_empty());
        }
        Err(errors) => assert!(errors.errors.iter().all(|e| e.line > 0 && e.column > 0)),
    }
});
