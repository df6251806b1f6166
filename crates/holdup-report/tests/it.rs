//! The tests of holdup-report in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod account;
mod common;
mod explain;
mod formats;
#[path = "../../holdup-analysis/tests/common/mod.rs"]
mod made;
mod packets;
mod profiles;
mod released;
mod rich;
mod schemas;
mod search;
mod tuning;
#[path = "../../holdup-packets/tests/common/world.rs"]
mod world;
