//! Any text as a machine file: a machine that is written and read again as itself, or a reason.
#![no_main]

use holdup_sim::machine::Described;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Described::parse("fuzzed", text) {
        Err(problem) => assert!(!problem.what.is_empty() && !problem.why.is_empty()),
        Ok(machine) => {
            let written = machine.to_toml();
            let again = Described::parse("again", &written).expect("what is written is read");
            assert_eq!(again.to_toml(), written);
            assert!(machine.machine.topology.cpus() > 0);
        }
    }
});
