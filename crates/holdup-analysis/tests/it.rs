//! The tests of holdup-analysis in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod account;
mod cases;
mod common;
mod curves;
mod explain;
mod guests;
mod history;
mod induced;
mod nodes;
mod sentences;
mod slow_trials;
mod stopping;
