//! Files that the fuzzer found: each gave a panic once, and gives a map or a reason.

use holdup_sections::{Wanted, library, map};

fn a_row_of_unwind_information_may_lie_outside_its_function() {
    let bytes = include_bytes!("found/row_outside_its_function.elf");
    let _no_panic = map(bytes, &Wanted { shipped: true, functions: Vec::new() });
    if let Ok(found) = library(bytes, &["select", "memcpy", "f"]) {
        assert!(found.1.ranges.iter().all(|range| range.begin < range.end));
    }
}

holdup_testkit::tests!(a_row_of_unwind_information_may_lie_outside_its_function);
