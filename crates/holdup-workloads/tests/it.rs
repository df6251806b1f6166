//! The tests of holdup-workloads in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod command;
#[path = "../../holdup-postgres/tests/common/mod.rs"]
mod common;
mod external;
mod messenger;
mod mixed;
mod other_systems;
mod ping;
mod request;
mod wakeup;

holdup_testkit::main!(command, external, messenger, mixed, other_systems, ping, request, wakeup);
