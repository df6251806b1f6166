//! Another program computes on each CPU, in the same class and with the same nice value.

use crate::{Situation, USUAL, WAITS, judge_beside};
use holdup_model::EvidenceItem;
use holdup_testkit::ignore;

static SITUATION: Situation = Situation {
    name: "busy neighbours",
    setup: &[],
    held: &[],
    sessions: 2,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["oversubscription"],
    says: "CPU-bound: sessions spend",
    never: &WAITS,
};

pub(crate) fn busy_neighbours_on_each_cpu() {
    let (bundle, _, _) = judge_beside(&SITUATION, USUAL, |_| {
        holdup_induce::oversubscription(crate::cpus() as usize).unwrap_or_else(|problem| ignore(problem))
    });
    let items = bundle.trials.iter().flat_map(|t| &t.evidence).flat_map(|c| &c.items);
    let is_behind =
        |i: &&EvidenceItem| i.name == "behind_s" && i.label.as_deref().is_some_and(|l| l.ends_with("| hu-busy"));
    let behind_s: f64 = items.filter(is_behind).filter_map(|i| i.value.value()).sum();
    // What else runs here has its part of the CPUs as well.
    assert!(behind_s > 0.2, "{behind_s} s behind what was started");
}
