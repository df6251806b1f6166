//! Any bytes as a binary: it ends in a map whose parts fit each other, or in a reason. Seeds: small programs.
#![no_main]

use holdup_sections::lookup::{Loaded, MOST_AT_ONE_PLACE, Registers, Table, classify};
use holdup_sections::{Wanted, library, map};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match map(bytes, &Wanted { shipped: true, functions: Vec::new() }) {
        Err(problem) => assert!(!problem.why.is_empty()),
        Ok(map) => {
            assert!(map.ranges.iter().all(|r| r.begin < r.end && usize::from(r.section) < map.sections.len()));
            assert!(map.ranges.is_sorted_by_key(|range| range.begin));
            let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias: 0 }]);
            for entry in &table.entries {
                assert!(table.at(entry.begin).len() <= MOST_AT_ONE_PLACE);
                let _ = classify(&table, entry.begin, &Registers::default(), &|at| Some(at.rotate_left(7)));
            }
        }
    }
    let _ = library(bytes, &["select", "memcpy", "f", "pthread_spin_lock"]);
});
