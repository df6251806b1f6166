//! The tests of holdup-postgres in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod common;
mod hostile_folders;
mod pgbench_log;
mod pgbench_trials;
mod postgres_server;
mod postgres_survey;

holdup_testkit::main!(hostile_folders, pgbench_log, pgbench_trials, postgres_server, postgres_survey);
