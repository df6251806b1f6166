//! The tests of holdup-bundle in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod common;
mod crash;
mod damage;
mod for_ever;
mod properties;
mod recorded;
mod round_trip;
mod strangers;

holdup_testkit::main!(crash, damage, for_ever, properties, recorded, round_trip, strangers);
