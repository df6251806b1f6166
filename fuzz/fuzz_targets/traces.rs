//! Nothing in a trace of the scheduler makes a reader panic; what is read becomes a bundle whose windows follow each other.
#![no_main]

use holdup_model::bundle::BundleHead;
use holdup_model::{Machine, MemoryBudget};
use holdup_traces::account::{Account, Selection};
use holdup_traces::{Trace, bundle, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let budget = MemoryBudget::default();
    let mut account = Account::new(Selection::default(), &budget);
    let followed = read("it", &bytes, &budget, &mut |event| account.add(&event).map_err(|refused| refused.of("it")));
    match followed {
        Ok(head) => {
            let finished = account.finish(&head.frames).expect("there is memory for its functions");
            assert!(finished.windows.windows(2).all(|pair| pair[0].end_ns == pair[1].begin_ns));
            let of = BundleHead {
                run_id: String::new(),
                holdup_version: String::new(),
                command: Vec::new(),
                created_unix_ns: 0,
                target: String::new(),
                emulated: None,
                machine: Machine { cpus: 1, memory_bytes: 1 },
            };
            assert!(!bundle(vec![Trace { name: "it".to_owned(), head, finished }], "all", of).trials.is_empty());
        }
        Err(problem) => assert!(problem.what.starts_with("it") && !problem.why.is_empty(), "{problem}"),
    }
});
