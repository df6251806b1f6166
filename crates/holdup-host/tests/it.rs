//! The tests of holdup-host in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod network;
mod perf_samples;

holdup_testkit::main!(network, perf_samples);
