//! The tests of holdup-scenarios in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod any_program;
mod scenarios;
