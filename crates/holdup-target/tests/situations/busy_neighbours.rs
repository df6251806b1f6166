//! Another program computes on each CPU, in the same class and with the same nice value.

use crate::situations::{Situation, USUAL, WAITS, judge_beside, seconds};
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
        holdup_induce::oversubscription(crate::situations::cpus() as usize).unwrap_or_else(|problem| ignore(problem))
    });
    let behind_s = seconds(&bundle, "behind_s", |label| label.ends_with("| hu-busy"));
    // What else runs here has its part of the CPUs as well.
    assert!(behind_s > 0.2, "{behind_s} s behind what was started");
}
