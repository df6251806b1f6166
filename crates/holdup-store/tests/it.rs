//! The tests of holdup-store in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod common;
mod store;
mod tls;

holdup_testkit::main!(store, tls);
