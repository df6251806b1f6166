//! Any text as a scenario: refused with a reason, or run for 10 ms of simulated time without breaking an invariant.
#![no_main]

use holdup_scenarios::{self as scenario, Scenario};
use holdup_sim::world::World;
use libfuzzer_sys::fuzz_target;

/// A program that does something each nanosecond is not run to the end.
const MOST_EVENTS: u64 = 300_000;

fuzz_target!(|text: &str| {
    let model = ["none", "voluntary", "full", "lazy", "rt"][text.len() % 5];
    let machine = format!(
        "base = \"server-8\"\n[topology]\nsmt = 1\ncores = 2\n[kernel]\nversion = \"6.18\"\npreempt = \"{model}\"\n"
    );
    let machine = scenario::machine("machine", &machine).expect("it is one");
    let scenario = match Scenario::parse("fuzzed", text, 1) {
        Ok(scenario) => scenario,
        Err(problem) => return assert!(!problem.what.is_empty() && !problem.why.is_empty()),
    };
    if scenario.load.check(&machine, &scenario.names).is_err() {
        return;
    }
    let mut world = World::new(&machine, &scenario.load, scenario.seed);
    for step in 1..=200 {
        if let Err(failure) = world.advance(step * 50_000) {
            let problem = world.problem(&failure, &scenario.names);
            return assert!(!problem.what.is_empty() && !problem.why.is_empty());
        }
        if world.events() > MOST_EVENTS {
            break;
        }
    }
    if let Err(why) = world.check_invariants() {
        panic!("{why}");
    }
    world.deadlock();
});
