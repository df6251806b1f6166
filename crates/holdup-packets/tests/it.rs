//! The tests of holdup-packets in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod against_tshark;
mod capture;
mod compare;
mod counts;
mod decode;
#[path = "against_tshark/dice.rs"]
mod dice;
mod judge;
mod made;
mod namespaces;
#[path = "against_tshark/noise.rs"]
mod noise;
#[path = "against_tshark/odd.rs"]
mod odd;
mod rfc;
mod threads;
mod trace;
#[path = "against_tshark/tshark.rs"]
mod tshark;
#[path = "common/world.rs"]
mod world;

holdup_testkit::main!(against_tshark, capture, compare, counts, decode, namespaces, rfc, threads, trace);
