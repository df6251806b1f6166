//! The tests of holdup-plan in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod common;
mod corpus;
mod overrides;
mod profiles;
mod properties;
