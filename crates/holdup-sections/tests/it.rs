//! The tests of holdup-sections in one executable.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod aarch64;
mod damaged;
mod elf;
mod emulated;
mod found;
mod matrix;
mod note;
mod patterns;
mod postgres;
mod stepped;
mod stripped;
mod tracer;
mod versions;
mod world;

holdup_testkit::main!(aarch64, damaged, found, matrix, note, patterns, postgres, stepped, stripped, versions);
