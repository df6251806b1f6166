//! The tests of holdup-target in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod evidence_of_postgres;
mod ground_truth;
mod induced_causes;
mod plans;
mod preempters;
mod recording;
mod residuals;
mod run_loop;
mod situations;
mod stacks_of_postgres;

holdup_testkit::main!(
    evidence_of_postgres,
    ground_truth,
    induced_causes,
    plans,
    preempters,
    residuals,
    run_loop,
    situations,
    stacks_of_postgres
);
