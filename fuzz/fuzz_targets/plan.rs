//! Any text as a plan, as what it includes, and as what the command line changes.
//!
//! The input is parted by zero bytes: the plan, the text of every included file, then `--set` or `--vary` pairs. What
//! passes the check must be laid out within the limits, each block with every arm once, under labels that are unique;
//! a plan that was made on a command line must read back as itself.
#![no_main]

use holdup_plan::{Inputs, MOST_ARMS, MOST_TRIALS, Overhead, Overrides};
use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

#[path = "../../crates/holdup-plan/tests/common/mod.rs"]
mod common;

fuzz_target!(|text: &str| {
    static VOCABULARY: OnceLock<holdup_model::catalogue::Vocabulary> = OnceLock::new();
    let vocabulary = VOCABULARY.get_or_init(common::vocabulary);
    let mut parts = text.split('\0');
    let plan = parts.next().unwrap_or_default();
    let include = parts.next().unwrap_or_default();
    let mut overrides = Overrides::default();
    for (i, pair) in parts.enumerate() {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let pairs = if i % 2 == 0 { &mut overrides.set } else { &mut overrides.vary };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    let read_include = |_: &str| Ok(include.to_owned());
    let read_include: &dyn Fn(&str) -> Result<String, String> = &read_include;
    let environment: &dyn Fn(&str) -> Option<String> = &common::environment;
    let none = Overrides::default();
    let inputs = |overrides| Inputs {
        machine: common::MACHINE,
        machine_of: &|_| Ok(None),
        vocabulary,
        environment,
        read_include,
        overrides,
    };
    match holdup_plan::check("plans/fuzz.toml", plan, &inputs(&overrides)) {
        Ok(plan) => lay_out(&plan),
        Err(errors) => {
            assert!(!errors.errors.is_empty());
            assert!(!errors.to_string().is_empty());
        }
    }
    let metrics = [include.to_owned()];
    let line = holdup_plan::from_command_line("pgbench", &overrides.set, &[], &metrics, &inputs(&overrides));
    if let Ok((plan, toml)) = line {
        let again = holdup_plan::check("saved.toml", &toml, &inputs(&none));
        assert_eq!(again.as_ref(), Ok(&plan), "{toml}");
    }
    if let Some(ns) = holdup_plan::parse_duration_ns(include) {
        assert!(i64::try_from(ns).is_ok());
    }
});

fn lay_out(plan: &holdup_model::Plan) {
    // Large plans are laid out in the tests; here they would only be slow.
    if u64::from(plan.design.blocks) * u64::from(plan.design.sessions) > 100 {
        return;
    }
    let schedule = holdup_plan::schedule(plan).expect("a checked plan can be laid out");
    assert!(schedule.arms.len() as u64 <= MOST_ARMS && schedule.trials.len() as u64 <= MOST_TRIALS);
    let labels: BTreeSet<&str> = schedule.arms.iter().map(|a| a.label.as_str()).collect();
    assert_eq!(labels.len(), schedule.arms.len(), "labels are unique");
    let mut blocks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for trial in &schedule.trials {
        assert!(blocks.entry(trial.block).or_default().insert(trial.arm), "each arm once");
    }
    assert!(blocks.values().all(|arms| arms.len() == schedule.arms.len()));
    for boot in schedule.trials.chunk_by(|a, b| a.boot == b.boot) {
        let chosen = |i: u32| plan.chosen_at_boot(&schedule.arms[i as usize]);
        assert!(boot.iter().all(|t| chosen(t.arm) == chosen(boot[0].arm)));
    }
    holdup_plan::notes(plan);
    holdup_plan::estimate_ns(plan, &schedule, &Overhead::default());
}
