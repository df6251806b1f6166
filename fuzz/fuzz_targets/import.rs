//! Nothing in a file of another benchmark's results makes a reader panic; what is read becomes a bundle, and each metric of it
//! is described. The kinds that an input looks like read it, so that samples are seeds as they are, and the kind of its first
//! byte, which mostly refuses it.
#![no_main]

use holdup_import::{Input, KINDS, Named, bundle, looks_like, read};
use holdup_model::bundle::BundleHead;
use holdup_model::{Machine, MemoryBudget};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(first) = bytes.first() else { return };
    let like = looks_like(&String::from_utf8_lossy(&bytes[..bytes.len().min(16 << 10)]));
    let of_byte = KINDS[usize::from(*first) % KINDS.len()].meta.id;
    for kind in KINDS.iter().filter(|kind| kind.meta.id == of_byte || like.contains(&kind.meta.id)) {
        match read(kind, &mut Input::new("it", bytes)) {
            Ok(results) => {
                for measurement in results.samples.iter().flat_map(|sample| &sample.measurements) {
                    let id = &measurement.metric;
                    assert!(results.metrics.iter().any(|metric| metric.id == *id), "{}: {id}", kind.meta.id);
                }
                let given = vec![Named { name: "it".to_owned(), results }];
                let head = BundleHead {
                    run_id: String::new(),
                    holdup_version: String::new(),
                    command: Vec::new(),
                    created_unix_ns: 0,
                    target: String::new(),
                    emulated: None,
                    machine: Machine { cpus: 1, memory_bytes: 1 },
                };
                let bundle = bundle(kind.meta.id, given, head, &MemoryBudget::default());
                assert!(bundle.is_ok_and(|bundle| !bundle.trials.is_empty()));
            }
            Err(problem) => assert!(problem.what.starts_with("it") && !problem.why.is_empty(), "{problem}"),
        }
    }
});
