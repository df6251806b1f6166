//! The tests of holdup-guest in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod elf;
mod image;
mod machine;
mod support;

holdup_testkit::main!(elf, image, machine);
