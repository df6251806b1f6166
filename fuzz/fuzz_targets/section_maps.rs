//! Any bytes as a kept section map, also with a sum that fits: a map that can be used, or a reason.
#![no_main]

use holdup_sections::cached::{ANALYSER, CachedAnalysis};
use holdup_sections::lookup::{Loaded, Registers, Table, classify};
use libfuzzer_sys::fuzz_target;

fn survives(bytes: &[u8]) {
    match CachedAnalysis::decode(bytes) {
        Err(why) => assert!(!why.is_empty()),
        Ok(kept) => {
            let table = Table::new(&[Loaded { map: Some(&kept.map), callees: &kept.callees.ranges, bias: 0 }]);
            for entry in &table.entries {
                let _ = classify(&table, entry.begin, &Registers::default(), &|at| Some(at.rotate_left(7)));
            }
            let again = kept.encode().expect("it was read from a file");
            assert_eq!(CachedAnalysis::decode(&again).as_ref(), Ok(&kept));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    survives(bytes);
    // A pair of the analyser's version and what follows, behind a head and a sum that fit.
    let mut body = vec![0x82, 0x78, ANALYSER.len() as u8];
    body.extend(ANALYSER.bytes());
    body.extend(bytes);
    let sum = crc32fast::hash(&body).to_le_bytes();
    let known = CachedAnalysis::default().encode().expect("it is small");
    survives(&[&known[..8], &sum, &body].concat());
});
