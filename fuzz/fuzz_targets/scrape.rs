//! What an exporter is asked by strangers, and the conditions of its user: any text is a format, and a condition or a reason.
#![no_main]

use holdup_live::{Format, Trigger};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    assert!(!Format::accepted(&text).content_type().is_empty());
    match Trigger::parse(&text) {
        // What was read reads again.
        Ok(trigger) => assert_eq!(Trigger::parse(&trigger.to_string()), Ok(trigger)),
        Err(problem) => assert!(!problem.why.is_empty()),
    }
});
