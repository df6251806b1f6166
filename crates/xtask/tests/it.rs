//! The tests of xtask in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod calibration;
mod reports;
mod static_binary;
mod tidy;

holdup_testkit::main!(calibration, reports, static_binary, tidy);
