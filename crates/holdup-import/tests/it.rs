//! The tests of holdup-import in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod bounds;
mod common;
mod forms;
mod samples;
