//! The tests of holdup-survey in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod hostile_servers;
mod hostile_trees;
mod postgres_conf;
mod postgres_servers;

holdup_testkit::main!(hostile_servers, hostile_trees, postgres_conf, postgres_servers);
