//! The tests of holdup-traces in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod against_tools;
mod bounds;
mod common;
mod samples;

holdup_testkit::main!(against_tools, bounds, samples);
