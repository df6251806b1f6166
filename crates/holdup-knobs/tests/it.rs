//! The tests of holdup-knobs in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod catalogue;
mod fault_sweep;
mod interleavings;
mod profiles;
mod real_host;
mod recovery;
mod support;

holdup_testkit::main!(catalogue, fault_sweep, interleavings, profiles, real_host, recovery);
