//! Threads want one mutex, and its holder is often without a CPU.

use crate::situations::{QUIET, Situation, answer, cpus, needs_account, record, seconds};
use holdup_testkit::ignore;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "mutex without a CPU",
    first: &["mutex", "oversubscription"],
    says: "",
    never: &["saturated-thread", "heavyweight-lock", "lightweight-lock", "slow-disk"],
    ..QUIET
};

/// What the holder does while others wait agrees with what the program itself records of its holders.
pub(crate) fn a_mutex_whose_holder_has_no_cpu() {
    needs_account();
    let threads = 4 * u64::from(cpus());
    let (program, held) =
        holdup_induce::mutex(threads, Duration::from_micros(500)).unwrap_or_else(|problem| ignore(problem));
    let before = held.ns();
    let bundle = record::of(program.pids(), record::MANY);
    let after = held.ns();
    let (held_ns, on_cpu_ns) = (after.0 - before.0, after.1 - before.1);
    let truth = 1.0 - on_cpu_ns as f64 / held_ns as f64;
    answer(&SITUATION, &bundle);
    let of_mutex =
        |did: &str| seconds(&bundle, "woken_by_s", |label| label.contains(" | mutex | ") && label.ends_with(did));
    let (runnable_s, running_s) = (of_mutex("| runnable"), of_mutex("| running"));
    let seen = runnable_s / (runnable_s + running_s);
    println!("  holders without a CPU: {truth:.3} recorded, {seen:.3} seen");
    assert!(runnable_s + running_s > 0.0 && (seen - truth).abs() < 0.2, "{truth} recorded, {seen} seen");
}
