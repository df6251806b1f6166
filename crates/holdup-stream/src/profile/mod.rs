//! Profiles of uperf: what each strand does, read from XML or made of a few parameters.
//!
//! A profile holds groups, a group n equal strands (threads or processes), a strand runs transactions one after
//! another, and a transaction repeats its flowops: connect, write, read, think, disconnect. All groups begin their
//! n-th transaction together (uperf 1.0.8: strand.c, execute.c, shm.c). [`Profile::read`] reads one, [`Profile::simple`]
//! makes the usual one, [`Profile::mirrored`] is what the server runs, [`program`] is a group without names and text.
//! Everything here is pure: no file, no environment, no clock.

mod faults;
mod flowop;
mod lexer;
mod mirror;
mod model;
mod number;
mod options;
pub mod program;
mod reader;
mod simple;

#[cfg(test)]
mod tests;

pub use faults::{Fault, MOST_FAULTS, ProfileErrors};
pub use model::{Flowop, FlowopKind, Group, Note, Options, Profile, Protocol, Repeat, Size, Transaction};
pub use simple::{Mode, Simple};

/// The largest file that is read, in bytes.
pub const MOST_FILE_BYTES: usize = 1 << 20;
/// The most strands of all groups together.
pub const MOST_STRANDS: u64 = 10_000;
/// The most groups (uperf 1.0.8: `MAXTHREADGROUPS`).
pub const MOST_GROUPS: usize = 1024;
/// The most transactions of a group (uperf 1.0.8: `NUM_BARRIER`).
pub const MOST_TRANSACTIONS: usize = 100;
/// The most notes of one profile that are kept.
pub const MOST_NOTES: usize = 100;
/// The most bytes of one transfer.
pub const MOST_SIZE_BYTES: u64 = 1 << 30;
/// The most bytes that one datagram of UDP carries over IPv4 (RFC 768, RFC 791: 65535 less both headers).
pub const MOST_DATAGRAM_BYTES: u64 = 65_507;
/// The most iterations, repetitions and counts; what an `int` of uperf holds.
pub const MOST_ITERATIONS: u64 = i32::MAX as u64;
/// The longest transaction, think time or timeout: a day.
pub const MOST_DURATION_NS: u64 = 86_400_000_000_000;
/// The highest rate of one strand in transactions per second.
pub const MOST_RATE_PER_S: u64 = 10_000_000;
/// Where the values of `$name` come from: an environment, a map, a plan's parameters.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
