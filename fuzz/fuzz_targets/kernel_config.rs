//! A kernel's configuration and release: any bytes are read without a panic, and every reported value stands in them.
#![no_main]

use holdup_host::kernel::{KernelConfig, KernelOption};
use holdup_model::KernelVersion;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let config = KernelConfig::parse("/fuzz", &text);
    for line in text.lines() {
        let name = line.trim_start_matches("# ").split(['=', ' ']).next().unwrap_or_default();
        if let KernelOption::Set(value) = config.option(name) {
            assert!(text.contains(value));
        }
    }
    if let Some(version) = KernelVersion::of_release(&text) {
        assert!(text.starts_with(|c: char| c.is_ascii_digit()), "{version}");
    }
});
