//! The tests of holdup-locks in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod lock_contention;
mod lock_notes;
mod lock_truth;
mod section_map;

holdup_testkit::main!(lock_contention, lock_notes, lock_truth, section_map);
