//! The tests of holdup-evidence in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod capture;
mod collectors;
mod every_switch;
mod kernel;
#[path = "support/mounts.rs"]
mod mounts;
mod off_cpu;
mod switch_outs;
#[path = "support/switching.rs"]
mod switching;

holdup_testkit::main!(capture, collectors, every_switch, kernel, off_cpu, switch_outs);
